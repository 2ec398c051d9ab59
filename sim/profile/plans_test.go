// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fairway-gpu/fairway/sched/plan"
)

const planHead = "exec_plan,placement,iter_time,forward,overlap_sync,optimize\n"

func planTables(t *testing.T, gpt2 string) *Plans {
	t.Helper()
	tables, err := ReadPlans(fstest.MapFS{
		"gpt2/placements.csv":   {Data: []byte(planHead + gpt2)},
		"gpt2_3/placements.csv": {Data: []byte("other,columns\n")},
		"README":                {Data: []byte("not a model")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func TestReadPlans(t *testing.T) {
	tables := planTables(t, `ga,8,0.62,145,360,114
ga,26,1.08,151,799,115
gc,8,0.77,144,503,116
zero-dp,1,3.6,1135,2342,134
zero-offload,4,1.7,344,834,529
251,55,1.06,200,802,21
144,6622,1.2,0,0,0
`)
	if !slices.Equal(tables.Names(), []string{"gpt2"}) || !slices.Equal(tables.Skipped, []string{"gpt2_3"}) {
		t.Errorf("models %v, skipped %v; want gpt2 and gpt2_3", tables.Names(), tables.Skipped)
	}
	m, _ := tables.Model("gpt2")
	if m.Crossed != 1 || len(m.Samples) != 6 {
		t.Errorf("%d samples and %d across nodes; want 6 and 1: four GPUs of 6622 cannot share a layer", len(m.Samples), m.Crossed)
	}
	var names []string
	for _, p := range m.Plans() {
		names = append(names, p.String())
	}
	if want := []string{"zero1", "zero4+offload", "dp8", "dp8+recompute", "tp5-pp2"}; !slices.Equal(names, want) {
		t.Errorf("plans %v; want %v", names, want)
	}
	ga := plan.Plan{Data: 8, Tensor: 1, Pipeline: 1, Micro: 1}
	if step, measured := m.Step(ga, []int{6, 2}); step != 1.08 || !measured {
		t.Errorf("ga on 6 + 2 GPUs: %g, %v; want the 1.08 of 26", step, measured)
	}
	step, measured := m.Step(ga, []int{4, 4})
	if measured || step <= 0.62 || step >= 1.3 {
		t.Errorf("ga on 4 + 4 GPUs: %g, %v; want a prediction above the 0.62 of one node", step, measured)
	}
	even, err := m.Only(func(s plan.Sample) bool { return s.At.Nodes == 1 })
	if err != nil || len(even.Samples) != 4 || len(m.Samples) != 6 {
		t.Errorf("%d samples on one node, error %v; want 4", len(even.Samples), err)
	}
}

func TestReadPlansErrors(t *testing.T) {
	for want, rows := range map[string]string{
		`(exec_plan): value "fast"`:                  "fast,8,1,0,0,0\n",
		"plan 251 is for 10 GPUs; the placement has": "251,8,1,0,0,0\n",
		`(placement): value "80"`:                    "ga,80,1,0,0,0\n",
		`(iter_time): value "0"`:                     "ga,8,0,0,0,0\n",
		"no samples":                                 "",
	} {
		_, err := ReadPlans(fstest.MapFS{"gpt2/placements.csv": {Data: []byte(planHead + rows)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one with %q", err, want)
		}
	}
	if _, err := ReadPlans(fstest.MapFS{"x/y": {}}); err == nil {
		t.Error("a folder without models was read")
	}
}

// A profiling has the smallest and the largest even placement of each kind.
func TestTrials(t *testing.T) {
	m, _ := planTables(t, `ga,8,0.62,0,0,0
ga,1,4,0,0,0
ga,2222,1,0,0,0
ga,11111111,1.1,0,0,0
151,5,1,0,0,0
811,11111111,3,0,0,0
`).Model("gpt2")
	var got []string
	for _, s := range m.Trials() {
		got = append(got, s.Plan.String())
	}
	if want := []string{"dp1", "dp8", "tp5", "pp8"}; !slices.Equal(got, want) {
		t.Errorf("trials %v; want %v", got, want)
	}
	if at := m.Trials()[1].At; at.Nodes != 4 {
		t.Errorf("the largest trial is on %d nodes; want 2222", at.Nodes)
	}
}

func FuzzReadPlans(f *testing.F) {
	f.Add("ga,8,0.62,0,0,0\n248,88888888,0.6,0,0,0\n")
	f.Add("zero-offload,1,57,0,0,0")
	f.Add("ga,,\n")
	f.Fuzz(func(t *testing.T, rows string) {
		tables, err := ReadPlans(fstest.MapFS{"llama7/placements.csv": {Data: []byte(planHead + rows)}})
		if err != nil {
			return
		}
		m, _ := tables.Model("llama7")
		for _, s := range m.Samples {
			if step := m.Params.Step(m.Model, s.Plan, s.At); !(step > 0) || math.IsInf(step, 1) {
				t.Errorf("%s takes %g s", s.Plan, step)
			}
		}
	})
}
