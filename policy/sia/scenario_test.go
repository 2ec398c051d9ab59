// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// tried returns a report of trials on one GPU of each type.
func tried(most int, a100, t4 float64) *goodput.Report {
	return &goodput.Report{MostGPUs: most, StepTimes: []goodput.StepTime{
		{Type: "a100", Nodes: 1, GPUs: 1, Batch: 1, Time: 1 / a100}, {Type: "t4", Nodes: 1, GPUs: 1, Batch: 1, Time: 1 / t4},
	}}
}

type submission struct {
	spec   sched.Spec
	report *goodput.Report
}

func world(t *testing.T, jobs ...submission) *policytest.World {
	t.Helper()
	w, err := policytest.NewWorld([]sched.Node{
		{Name: "fast", GPUs: 4, Type: "a100"}, {Name: "slow0", GPUs: 4, Type: "t4"}, {Name: "slow1", GPUs: 4, Type: "t4"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if err := w.Submit(j.spec, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: j.spec.ID, Perf: j.report}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func decide(t *testing.T, w *policytest.World, spec string) string {
	t.Helper()
	p, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Decide(p); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		out = append(out, fmt.Sprintf("%s %s", j.ID, j.Placement.Text(w.State.Cluster())))
	}
	return strings.Join(out, ", ")
}

func elastic(id string, most int) sched.Spec {
	return sched.Spec{ID: sched.JobID(id), GPUs: 1, MinGPUs: 1, MaxGPUs: most}
}

// The fast GPUs go to the job that gains most by them, at sizes that it scales to.
func TestSizesAndTypes(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs []submission
		want string
	}{
		{
			"the type goes to who gains by it, whoever came first",
			[]submission{
				{sched.Spec{ID: "a", GPUs: 4}, tried(4, 1, 1)},
				{sched.Spec{ID: "b", GPUs: 4}, tried(4, 6, 1)},
			},
			"a slow0[0-3], b fast[0-3]",
		},
		{
			"two that gain alike: the one that can grow leaves the fast GPUs to the one that cannot",
			[]submission{
				{elastic("a", 8), tried(8, 1.4, 1)},
				{sched.Spec{ID: "b", GPUs: 4}, tried(4, 1.4, 1)},
			},
			"a slow0[0-3] slow1[0-3], b fast[0-3]",
		},
		{
			"no more GPUs than the report allows",
			[]submission{{elastic("a", 8), tried(2, 6, 1)}},
			"a fast[0-1]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decide(t, world(t, c.jobs...), "sia"); got != c.want {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
}

// A job with a model of one type alone is predicted on the other by the trials:
// it moves there when the gain is worth a restart, and not before.
func TestBootstrapAndRestart(t *testing.T) {
	w := world(t, submission{sched.Spec{ID: "a", GPUs: 4, GPUTypes: nil}, tried(4, 3, 1)})
	p := sched.Placement{{Node: 1, Milli: sched.WholeGPU, GPUs: 0b1111}}
	if err := w.Apply(sched.Event{Kind: sched.JobStarted, Job: "a", Placement: p}); err != nil {
		t.Fatal(err)
	}
	w.Now = w.Now.Add(30 * time.Second)
	report := tried(4, 3, 1)
	report.Params = map[string]goodput.Params{"t4": {AlphaGrad: 0.1, BetaGrad: 0.01, AlphaLocal: 0.05, Gamma: 2}}
	report.Limits, report.Fixed = goodput.Limits{Initial: 32, Max: 64, LocalMin: 4, LocalMax: 32}, 32
	if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: "a", Perf: report}); err != nil {
		t.Fatal(err)
	}
	// 30 s old, it would lose two thirds of its time: 3 * 30/(30+60) = 1.
	if got, want := decide(t, w, "sia"), "a slow0[0-3]"; got != want {
		t.Errorf("after 30 s: %s; want %s", got, want)
	}
	w.Now = w.Now.Add(time.Minute)
	if got, want := decide(t, w, "sia"), "a fast[0-3]"; got != want {
		t.Errorf("after 90 s: %s; want %s", got, want)
	}
}

func TestBadKnobs(t *testing.T) {
	for spec, want := range map[string]string{
		"sia:p=1":          "p = 1; want -50 to below 0",
		"sia:lambda=1":     "lambda = 1; want more than 1: else no job would get anything",
		"sia:restart=-1s":  "restart = -1s; want 0s to 24h",
		"sia:interval=1ms": "interval = 1ms; want 1s or more",
	} {
		if _, err := policy.Builtin().New(spec); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v; want %s", spec, err, want)
		}
	}
}
