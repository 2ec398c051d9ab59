// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fairway-gpu/fairway/lab/repro"
	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// Steps made by the model itself are predicted from other plans and other sizes.
func TestValidatePlans(t *testing.T) {
	truth := plan.Params{Compute: 3.4, Fixed: 0.05, Network: 0.4, Update: 0.15, Tensor: 0.4, Host: 1.6, Kernel: 1}
	model := plan.Model{Parameters: 1.5e9, Layers: 48}
	var b strings.Builder
	b.WriteString("exec_plan,placement,iter_time\n")
	for _, digits := range []string{"1", "2", "4", "8", "22", "44", "2222", "88"} {
		var counts []int
		for _, d := range digits {
			counts = append(counts, int(d-'0'))
		}
		at := plan.On(counts...)
		dp := plan.Plan{Data: at.GPUs, Tensor: 1, Pipeline: 1, Micro: 1}
		fmt.Fprintf(&b, "ga,%s,%g\n", digits, truth.Step(model, dp, at))
		dp.Sharding = plan.Optimizer
		fmt.Fprintf(&b, "zero-dp,%s,%g\n", digits, truth.Step(model, dp, at))
		tp := plan.Plan{Data: 1, Tensor: counts[0], Pipeline: len(counts), Micro: 1}
		fmt.Fprintf(&b, "%d%d1,%s,%g\n", tp.Pipeline, tp.Tensor, digits, truth.Step(model, tp, at))
	}
	p, err := repro.ValidatePlans(fstest.MapFS{"traces/gpt2/placements.csv": {Data: []byte(b.String())}})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Together()
	for name, errors := range map[string][]float64{"all": r.All, "plans": r.NoPlan, "sizes": r.NoSize, "profiled": r.Profiled} {
		if mean := num.Mean(errors); len(errors) == 0 || mean > 0.06 {
			t.Errorf("%s: a mean error of %.3f over %d steps; want at most 0.06", name, mean, len(errors))
		}
	}
	var out strings.Builder
	p.Print(&out)
	if !strings.Contains(out.String(), "| gpt2 | 24 |") {
		t.Errorf("no row of gpt2 in\n%s", out.String())
	}
}

// The measured tables, where they are present: below a tenth for plans and sizes that the
// fit has not seen, but for vit.
func TestMeasuredPlans(t *testing.T) {
	const data = "../../../shared/data/rubick"
	if _, err := os.Stat(data); err != nil {
		t.Skip("the Rubick artifact is not there")
	}
	p, err := repro.ValidatePlans(os.DirFS(data))
	if err != nil {
		t.Fatal(err)
	}
	r := p.Together("vit")
	for name, errors := range map[string][]float64{"all": r.All, "plans": r.NoPlan, "sizes": r.NoSize} {
		if mean := num.Mean(errors); mean > 0.1 {
			t.Errorf("%s: a mean error of %.3f over %d steps; want at most 0.1", name, mean, len(errors))
		}
	}
}

// TestPipelines: steps of pipelines that the model itself made are predicted from one of them,
// and those of Sia's tables, where they are present, within a tenth.
func TestPipelines(t *testing.T) {
	const stages = 2
	truth := plan.Typical(plan.Model{Parameters: 2.8e9, Layers: 32}, 0)
	var b strings.Builder
	b.WriteString("placement,local_bsz,step_time,sync_time\n")
	placements := []string{"2", "4"}
	for nodes := 1; nodes <= 16; nodes++ {
		placements = append(placements, strings.Repeat("8", nodes))
	}
	for _, digits := range placements {
		replicas := len(digits) * int(digits[0]-'0') / stages
		for examples := 1; examples <= 2; examples++ {
			exchange := 0.0
			if replicas > 1 {
				exchange = 0.1 * truth.Network / stages
			}
			fmt.Fprintf(&b, "%s,%d,%g,%g\n", digits, examples, 0.1*float64(examples), exchange)
		}
	}
	const run = "progress,iteration,metric,grad_sqr,grad_var\n5,5,0,1,1\n9,9,0,1,1\n"
	for name, data := range map[string]fs.FS{
		"made": fstest.MapFS{
			"traces/gpt_pmp/placements-a100.csv": {Data: []byte(b.String())},
			"traces/gpt_pmp/validation-48.csv":   {Data: []byte(run)},
			"traces/gpt_pmp/validation-384.csv":  {Data: []byte(run)},
		},
		"measured": os.DirFS("../../../shared/data/sia"),
	} {
		if _, err := fs.Stat(data, "traces"); err != nil {
			t.Logf("%s: the Sia artifact is not there", name)
			continue
		}
		rows, err := repro.ValidatePipelines(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, r := range rows {
			for _, errors := range [][]float64{r.Twice, r.Half} {
				if mean := num.Mean(errors); len(errors) < 3 || mean > 0.1 {
					t.Errorf("%s, %s: a mean error of %.3f over %d steps; want at most 0.1, and 3 steps or more", name, r.Type, mean, len(errors))
				}
			}
		}
	}
	if _, err := repro.ValidatePipelines(fstest.MapFS{
		"traces/bert/placements-a100.csv": {Data: []byte("placement,local_bsz,step_time,sync_time\n1,1,0.1,0\n1,2,0.2,0\n")},
		"traces/bert/validation-48.csv":   {Data: []byte(run)},
	}); err == nil || !strings.Contains(err.Error(), "gpt_pmp") {
		t.Errorf("tables without pipelines: %v; want an error that names gpt_pmp", err)
	}
}

// TestPlanMemory: the memory formula is within a tenth of what a GPT needed on an H200,
// under every plan that was measured.
func TestPlanMemory(t *testing.T) {
	m, err := repro.ReadPlanMemory(os.DirFS("../bench/gpu/results"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Trials) < 10 {
		t.Fatalf("%d trials; want ten or more", len(m.Trials))
	}
	for _, trial := range m.Trials {
		if gpu, ratio := m.Predicted(trial); math.Abs(ratio-1) > 0.1 {
			t.Errorf("%s with %d examples: predicted %.1f GB, %.2f of what was measured", trial.Plan, trial.Batch, gpu/1e9, ratio)
		}
	}
}
