// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEvaluateSteps holds the goal of the utilisation on a host of unknown speed.
func TestEvaluateSteps(t *testing.T) {
	data := os.DirFS("../lab/profiling/data")
	samples, _, err := ReadSamples(data, "h200")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := ReadSteps(data, "h200")
	if err != nil {
		t.Fatal(err)
	}
	e, err := EvaluateSteps(steps, samples)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *e)
	if e.Rows != len(steps) || e.Models < 170 || e.BySteps > 0.10 || e.BySteps >= e.ByMean || e.ByMean >= e.Before {
		t.Errorf("%+v; want every step, RMSLE of at most 0.10 by mean and spread, more by the mean, most before", *e)
	}
	if e.Least < 90 {
		t.Errorf("a step that is called even keeps the GPU busy for %.1f %%", e.Least)
	}
}

// Even steps are those of a busy GPU, however long they take.
func TestPredictAfterEvenSteps(t *testing.T) {
	m, err := For("h200")
	if err != nil {
		t.Fatal(err)
	}
	x := extract(t, chain(20), 32)
	var even, uneven []float64
	for i := range 20 {
		at := 3 * m.Predict(x).StepSeconds
		even, uneven = append(even, at*(1+0.0001*float64(i%3))), append(uneven, at*(1+0.1*float64(i%3)))
	}
	busy, waits, few := m.PredictAfter(x, StepsOf(even)), m.PredictAfter(x, StepsOf(uneven)), m.PredictAfter(x, StepsOf(even[:fewSteps-1]))
	if busy.Util < 95 || busy.UtilLow < 90 || waits.Util > 80 || few.Util > 80 {
		t.Errorf("utilisation %.0f (%.0f to %.0f) of even steps, %.0f of uneven ones, %.0f of too few", busy.Util, busy.UtilLow, busy.UtilHigh, waits.Util, few.Util)
	}
}

func TestReadStepsErrors(t *testing.T) {
	features, err := os.ReadFile("../lab/profiling/data/h200-features.csv")
	if err != nil {
		t.Fatal(err)
	}
	header := "model,family,batch,status,util_mean,step_ms_mean,mem_device_mib,mem_reserved_mib,session,steps,step_ms_p10,step_ms_p90\n"
	for row, want := range map[string]string{
		"plain/lenet,cifar,64,ok,16,1.9,850,88,s,100,2,1":   "line 2: plain/lenet at batch 64: step_ms_p10 2, step_ms_p90 1",
		"plain/lenet,cifar,64,ok,16,1.9,850,88,s,100,0,1":   "step_ms_p10 0",
		"plain/lenet,cifar,64,ok,16,1.9,850,88,s,100,x,1":   `column "step_ms_p10": "x"`,
		"plain/unheard,cifar,64,ok,16,1.9,850,88,s,100,1,1": "no features",
	} {
		dir := fstest.MapFS{"h200-features.csv": {Data: features}, "h200-steps.csv": {Data: []byte(header + row + "\n")}}
		if _, err := ReadSteps(dir, "h200"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", row, err, want)
		}
	}
}
