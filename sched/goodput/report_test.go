// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

func measuredReport() *goodput.Report {
	return &goodput.Report{
		Losses:    []goodput.LossPoint{{Step: 0, Loss: 2.5}, {Step: 10, Loss: 1.5}},
		Stop:      goodput.Stop{Fall: 0.01, Epochs: 3, Epoch: 100},
		StepTimes: []goodput.StepTime{{Type: "t4", Nodes: 1, GPUs: 2, Batch: 64, Time: 0.5}},
	}
}

func TestValidateMeasured(t *testing.T) {
	for _, tc := range []struct {
		edit func(*goodput.Report)
		want string // in the error; "": none
	}{
		{func(*goodput.Report) {}, ""},
		{func(r *goodput.Report) { *r = goodput.Report{} }, ""},
		{func(r *goodput.Report) { r.Losses = make([]goodput.LossPoint, 1025) }, "losses has 1025 entries; want at most 1024"},
		{func(r *goodput.Report) { r.StepTimes = make([]goodput.StepTime, 1025) }, "step_times has 1025 entries"},
		{func(r *goodput.Report) { r.Losses[1].Step = -1 }, "losses[1]"},
		{func(r *goodput.Report) { r.Losses[0].Loss = math.NaN() }, "losses[0]"},
		{func(r *goodput.Report) { r.Stop.Epoch = math.Inf(1) }, "stop"},
		{func(r *goodput.Report) { r.Stop.Epochs = -1 }, "stop"},
		{func(r *goodput.Report) { r.StepTimes[0].Time = 0 }, "step_times[0]"},
		{func(r *goodput.Report) { r.Regimes = []goodput.Regime{{Batch: 8, Time: 1}} }, ""},
		{func(r *goodput.Report) { r.Regimes = []goodput.Regime{{Batch: 8, Time: 1}, {Time: 1}} }, "regimes[1]"},
		{func(r *goodput.Report) { r.Regimes = []goodput.Regime{{Batch: 8}} }, "regimes[0]"},
		{func(r *goodput.Report) { r.Regimes = make([]goodput.Regime, 65) }, "regimes has 65 entries"},
		{func(r *goodput.Report) { r.StepTimes[0].Nodes = 3 }, "step_times[0]"},
		{func(r *goodput.Report) { r.StepTimes[0].Type = strings.Repeat("x", 101) }, "step_times[0]"},
	} {
		r := measuredReport()
		tc.edit(r)
		err := r.ValidateMeasured()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error is %v; want %q", err, tc.want)
		}
	}
}

// TestMeasuredJSON: what nobody asked for is not written.
func TestMeasuredJSON(t *testing.T) {
	text, err := json.Marshal(&goodput.Report{})
	if err != nil || strings.Contains(string(text), "loss") || strings.Contains(string(text), "step") || strings.Contains(string(text), "stop") {
		t.Errorf("an empty report is %s, %v; want nothing about losses", text, err)
	}
	if text, err = json.Marshal(measuredReport()); err != nil {
		t.Fatal(err)
	}
	var got goodput.Report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(measuredReport(), &got); diff != "" {
		t.Errorf("after writing and reading %s (-want +got):\n%s", text, diff)
	}
}
