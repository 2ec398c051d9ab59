// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestHeldOut holds the measurements of the repository out, models as a whole
// and then families, and compares the errors with what was asked for.
func TestHeldOut(t *testing.T) {
	samples, _, err := ReadSamples(os.DirFS("../lab/profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Evaluate(samples, "h200")
	if err != nil {
		t.Fatal(err)
	}
	// Nothing was asked about families that were never seen, the harder case.
	most := map[string]float64{"model": PaperBest, "family": 0.15}
	for _, s := range e.Splits {
		if got := s.RMSLE[PhysicsTrees]; got > most[s.By] {
			t.Errorf("by %s: RMSLE of the utilisation is %.4f, want at most %g", s.By, got, most[s.By])
		}
		if s.RMSLE[PhysicsTrees] > s.RMSLE[Linear] {
			t.Errorf("by %s: a linear model is better: %.4f, %.4f", s.By, s.RMSLE[Linear], s.RMSLE[PhysicsTrees])
		}
		if s.Coverage < 0.84 || s.Coverage > 0.97 {
			t.Errorf("by %s: %.3f of the measurements are within their 90 %% interval", s.By, s.Coverage)
		}
		if s.AfterCoverage < 0.84 || s.AfterCoverage > 0.97 || s.AfterWidth > 0.8*s.Width {
			t.Errorf("by %s: after the first steps %.3f are within their 90 %% interval, which is %.1f points wide, %.1f before", s.By, s.AfterCoverage, s.AfterWidth, s.Width)
		}
		if s.RMSLE[OwnSteps] > s.RMSLE[PhysicsTrees] {
			t.Errorf("by %s: RMSLE %.4f after the first steps is worse than %.4f on a known host", s.By, s.RMSLE[OwnSteps], s.RMSLE[PhysicsTrees])
		}
		if s.Memory.Within15 < 0.9 || s.Memory.Under10 > 0.02 || s.Memory.Above10 > 0.02 {
			t.Errorf("by %s: memory of models within 15 %% for %.3f, under by 10 %% for %.3f, above the bound by 10 %% for %.3f; want 0.9 or more, 0.02 and 0.02 or less",
				s.By, s.Memory.Within15, s.Memory.Under10, s.Memory.Above10)
		}
	}
}

// TestLater trains on what was measured first and predicts the rest.
func TestLater(t *testing.T) {
	samples, _, err := ReadSamples(os.DirFS("../lab/profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	const since = "20261115T215718Z"
	splits, err := Later(samples, "h200", since)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]bool{}
	for _, s := range samples {
		if s.Session < since {
			before[s.Family] = true
		}
	}
	if len(splits) != 3 || len(splits[0].Tests) != len(splits[1].Tests)+len(splits[2].Tests) {
		t.Fatalf("%d splits; want all, those of known and those of new families", len(splits))
	}
	for i, s := range splits {
		if got := s.RMSLE[PhysicsTrees]; got > PaperBest {
			t.Errorf("%s: RMSLE of the utilisation is %.4f, want at most %g", s.By, got, PaperBest)
		}
		if s.RMSLE[UnknownHost] <= s.RMSLE[PhysicsTrees] && i == 0 {
			t.Errorf("to know the host is of no use: RMSLE %.4f with, %.4f without", s.RMSLE[PhysicsTrees], s.RMSLE[UnknownHost])
		}
		for _, x := range s.Tests {
			if x.Session < since || i > 0 && before[x.Family] != (s.By == LaterKnown) {
				t.Errorf("%s holds %s of session %s, family %s", s.By, x.Model, x.Session, x.Family)
			}
		}
	}
	if _, err := Later(samples, "h200", "3"); err == nil || !strings.Contains(err.Error(), `"3"`) {
		t.Errorf("no session is as late as that: %v", err)
	}
}

// A host that takes twice as long is found to, whatever the busy steps say.
func TestHostOf(t *testing.T) {
	samples, _, err := ReadSamples(os.DirFS("../lab/profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	m, err := For("h200")
	if err != nil {
		t.Fatal(err)
	}
	all := m.HostOf(samples)
	if all.Factor < 0.95 || all.Factor > 1.05 || all.Steps < 100 || all.Spread < 0.1 || all.Spread > 0.3 {
		t.Errorf("the mean of the hosts that were measured is %+v; want a factor near 1", all)
	}
	slow := slices.Clone(samples)
	for i := range slow {
		if slow[i].Util < hostBound {
			slow[i].StepMS *= 2
		} else {
			slow[i].StepMS *= 10
		}
	}
	if got := m.HostOf(slow).Factor / all.Factor; got < 1.95 || got > 2.05 {
		t.Errorf("a host that takes twice as long is said to take %.2f times as long", got)
	}
	if got := m.HostOf(nil); got.Factor != 1 || got.Steps != 0 {
		t.Errorf("no steps: %+v; want factor 1", got)
	}
}

func TestStretches(t *testing.T) {
	s := stretches{}
	var got []string
	for i := range 2*stretchModels + 1 {
		got = append(got, s.of("a", fmt.Sprint(i)))
	}
	if again := s.of("a", "0"); again != got[0] || got[0] != got[stretchModels-1] || got[0] == got[stretchModels] || got[stretchModels] == got[2*stretchModels] {
		t.Errorf("stretches %v, the first model again %s", got, again)
	}
	if other := s.of("b", "0"); other == got[0] {
		t.Errorf("two sessions share %s", other)
	}
}

// No model may be in two folds, and every sample must be in one.
func TestFoldsKeepModelsTogether(t *testing.T) {
	var samples []Sample
	for i, name := range strings.Fields("a b c a d b e f a g h i j k l m n") {
		samples = append(samples, Sample{Model: name, Family: name[:1], Batch: int64(i)})
	}
	at, count := map[string]int{}, 0
	for k, f := range foldsOf(samples, byModel, 4) {
		for _, i := range f {
			count++
			if before, ok := at[samples[i].Model]; ok && before != k {
				t.Errorf("model %s is in folds %d and %d", samples[i].Model, before, k)
			}
			at[samples[i].Model] = k
		}
		if len(f)+len(f.rest(samples)) != len(samples) {
			t.Errorf("fold %d has %d samples, the rest %d of %d", k, len(f), len(f.rest(samples)), len(samples))
		}
	}
	if count != len(samples) {
		t.Errorf("%d samples in folds, want %d", count, len(samples))
	}
}

func TestMemoryErrors(t *testing.T) {
	test := func(model string, measured, predicted float64) Test {
		return Test{Sample: Sample{Model: model, MemMiB: measured}, MemMiB: predicted}
	}
	tests := []Test{test("a", 100, 110), test("a", 100, 120), test("b", 100, 88), test("c", 100, 100)}
	for i, high := range []float64{125, 130, 90, 95} {
		tests[i].MemHigh = high
	}
	got := memoryErrors(tests)
	want := MemoryError{Within15: 2.0 / 3, Under10: 1.0 / 3, Above10: 1.0 / 3, RowsWithin15: 0.75, RowsUnder10: 0.25, Median: 0.11, Excess: 0.045, Booked: 0.1}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// Few profiles make a linear model, which is as good a citizen.
func TestFewProfiles(t *testing.T) {
	samples, _, err := ReadSamples(os.DirFS("../lab/profiling/data"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Train(samples[:40], "h200")
	if err != nil {
		t.Fatal(err)
	}
	if m.Method != byLinear || m.Residual != nil {
		t.Errorf("40 samples made a model by %s", m.Method)
	}
	p := m.Predict(extract(t, chain(20), 32))
	if p.Util <= 5 || p.Confidence > 0.6 {
		t.Errorf("predicted %g %%, confidence %g", p.Util, p.Confidence)
	}
	if _, err := Train(samples[:5], "h200"); err == nil {
		t.Error("5 samples made a model")
	}
}

const soloHeader = "model,family,batch,status,util_mean,step_ms_mean,mem_device_mib,mem_reserved_mib,session\n"

func TestTableErrors(t *testing.T) {
	good := soloHeader + "m,f,8,ok,50,10,900,100,s\n"
	if list, err := ReadSolo("x.csv", strings.NewReader(good+"n,f,8,oom,,,,,s\n")); err != nil || len(list) != 1 || list[0] != (Measured{Model: "m", Batch: 8}) {
		t.Errorf("read %v, %v; want the one row that is ok", list, err)
	}
	for _, tc := range []struct{ text, want string }{
		{"", "empty"},
		{"model,family\n", `column "batch" is missing`},
		{"model,model\n", `column "model" is repeated`},
		{soloHeader + "m,f,8,ok,fast,10,900,100,s\n", `x.csv: line 2: column "util_mean": "fast"`},
		{soloHeader + "m,f,8,ok,120,10,900,100,s\n", "utilisation 120"},
		{soloHeader + "m,f,0,ok,50,10,900,100,s\n", "batch 0"},
		{soloHeader + "m,f\n", "wrong number of fields"},
	} {
		if _, err := ReadSolo("x.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want one with %q", tc.text, err, tc.want)
		}
	}
	dir := fstest.MapFS{"h200-solo.csv": {Data: []byte(good)}, "h200-features.csv": {Data: []byte(strings.Join(featureColumns(), ",") + "\n")}}
	if _, without, err := ReadSamples(dir, "h200"); err == nil || without != 1 {
		t.Errorf("no features: %d without, error %v", without, err)
	}
}
