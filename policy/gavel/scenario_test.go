// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// trained is a job with its speed on the types of the cluster, in the order of
// kinds.
type trained struct {
	id       string
	gpus     int
	estimate time.Duration
	speeds   []float64
}

var kinds = []sched.GPUType{"a100", "rtx", "t4"}

// world has nodes of all kinds, so many GPUs of each on one node, and jobs that
// have been tried on each.
func world(tb testing.TB, gpus []int, jobs ...trained) *policytest.World {
	tb.Helper()
	var nodes []sched.Node
	for i, n := range gpus {
		if n > 0 {
			nodes = append(nodes, sched.Node{Name: string(kinds[i]), GPUs: n, Type: kinds[i]})
		}
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	for _, j := range jobs {
		spec := sched.Spec{ID: sched.JobID(j.id), GPUs: j.gpus, Estimate: sched.Duration(j.estimate)}
		if err := w.Submit(spec, 0); err != nil {
			tb.Fatal(err)
		}
		report := &goodput.Report{MostGPUs: j.gpus}
		for i, speed := range j.speeds {
			report.StepTimes = append(report.StepTimes, goodput.StepTime{Type: string(kinds[i]), Nodes: 1, GPUs: 1, Batch: 1, Time: 1 / speed})
		}
		if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: spec.ID, Perf: report}); err != nil {
			tb.Fatal(err)
		}
	}
	return w
}

// decide asks a policy once and tells where jobs run, in order of submission.
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

// Who gets the fast GPUs depends on the goal.
func TestGoals(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		gpus       []int
		jobs       []trained
		want       string
	}{
		{
			"the fast GPU goes to the job that gains by it, not to the first", "gavel", []int{1, 0, 1},
			[]trained{{"a", 1, time.Hour, []float64{1, 1, 1}}, {"b", 1, time.Hour, []float64{6, 2, 1}}},
			"a t4[0], b a100[0]",
		},
		{
			"a policy that does not look at types gives it to the first", "fifo", []int{1, 0, 1},
			[]trained{{"a", 1, time.Hour, []float64{1, 1, 1}}, {"b", 1, time.Hour, []float64{6, 2, 1}}},
			"a a100[0], b t4[0]",
		},
		{
			"alike, the long job gets the fast GPU for the earliest end of all", "gavel:makespan", []int{1, 0, 1},
			[]trained{{"a", 1, time.Hour, []float64{2, 2, 1}}, {"b", 1, 4 * time.Hour, []float64{2, 2, 1}}},
			"a t4[0], b a100[0]",
		},
		{
			"and the short job for the most jobs brought to their end", "gavel:sjf", []int{1, 0, 1},
			[]trained{{"a", 1, 4 * time.Hour, []float64{2, 2, 1}}, {"b", 1, time.Hour, []float64{2, 2, 1}}},
			"a t4[0], b a100[0]",
		},
		{
			"for the money, a job takes slow GPUs unless it is much faster on dear ones", "gavel:cost", []int{2, 0, 2},
			[]trained{{"a", 1, time.Hour, []float64{2, 2, 1}}, {"b", 1, time.Hour, []float64{20, 2, 1}}},
			"a t4[0], b a100[0]",
		},
		{
			"with a promise to keep, it takes the dear one", "gavel:cost:slo=1.2", []int{2, 0, 2},
			[]trained{{"a", 1, time.Hour, []float64{2, 2, 1}}},
			"a a100[0]",
		},
		{
			"for the most steps of all together, the fast GPU goes to the job that does most of them there", "gavel:throughput", []int{1, 0, 1},
			[]trained{{"a", 1, time.Hour, []float64{6, 2, 1}}, {"b", 1, time.Hour, []float64{20, 2, 10}}},
			"a t4[0], b a100[0]",
		},
		{
			"a job with few steps waits, even if it gains more by a fast GPU", "gavel:throughput", []int{1, 0, 0},
			[]trained{{"a", 1, time.Hour, []float64{6, 2, 1}}, {"b", 1, time.Hour, []float64{20, 2, 10}}},
			"a -, b a100[0]",
		},
		{
			"a job without a share takes what is left", "gavel:throughput", []int{2, 0, 1},
			[]trained{{"a", 2, time.Hour, []float64{6, 2, 1}}, {"b", 1, time.Hour, []float64{20, 2, 10}}, {"c", 1, time.Hour, []float64{0.1, 1, 0.1}}},
			"a -, b a100[0], c t4[0]",
		},
		{
			"first in, first out: each on the type where it is fast", "gavel:fifo", []int{1, 0, 1},
			[]trained{{"a", 1, time.Hour, []float64{1, 1, 1}}, {"b", 1, time.Hour, []float64{6, 2, 1}}, {"c", 1, time.Minute, []float64{9, 2, 1}}},
			"a t4[0], b a100[0], c -",
		},
		{
			"first in, first out: a gang is not overtaken by jobs that need less", "gavel:fifo", []int{2, 0, 0},
			[]trained{{"a", 2, time.Hour, []float64{1, 1, 1}}, {"b", 1, time.Minute, []float64{6, 2, 1}}, {"c", 1, time.Minute, []float64{9, 2, 1}}},
			"a a100[0-1], b -, c -",
		},
		{ // 1.5 and 10 hours; the other way round 1 and 20, both on the fast one 1 and 11
			"for the least sum of completion times, the long job gets the fast GPU if the short one loses less", "gavel:allox", []int{1, 0, 1},
			[]trained{{"a", 1, time.Hour, []float64{1.5, 1, 1}}, {"b", 1, 10 * time.Hour, []float64{2, 2, 1}}},
			"a t4[0], b a100[0]",
		},
		{
			"for the least sum of completion times, the shortest goes first", "gavel:allox", []int{1, 0, 0},
			[]trained{{"a", 1, 2 * time.Hour, []float64{1, 1, 1}}, {"b", 1, time.Hour, []float64{1, 1, 1}}},
			"a -, b a100[0]",
		},
		{
			"a gang never mixes types", "gavel", []int{2, 0, 2},
			[]trained{{"a", 3, time.Hour, []float64{2, 2, 1}}, {"b", 2, time.Hour, []float64{2, 2, 1}}},
			"a -, b a100[0-1]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decide(t, world(t, c.gpus, c.jobs...), c.spec); got != c.want {
				t.Errorf("%s: %s; want %s", c.spec, got, c.want)
			}
		})
	}
}

// Finish-time fairness looks at the past: of two jobs alike, the one that has
// waited gets the fast GPU.
func TestFinishTimeRemembers(t *testing.T) {
	same := []float64{3, 2, 1}
	early := world(t, []int{1, 0, 1}, trained{"old", 1, time.Hour, same})
	early.Now = early.Now.Add(2 * time.Hour)
	late := sched.Spec{ID: "new", GPUs: 1, Estimate: sched.Duration(time.Hour)}
	if err := early.Submit(late, 0); err != nil {
		t.Fatal(err)
	}
	old, _ := early.State.Job("old")
	if err := early.Apply(sched.Event{Kind: sched.JobReported, Job: "new", Perf: old.Perf}); err != nil {
		t.Fatal(err)
	}
	if got, want := decide(t, early, "gavel:ftf"), "old a100[0], new t4[0]"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// What was measured at a job's size counts more than its trial on one GPU.
func TestMeasuredSpeedsCount(t *testing.T) {
	jobs := []trained{{"a", 2, time.Hour, []float64{4, 2, 1}}, {"b", 2, time.Hour, []float64{3, 2, 1}}}
	w := world(t, []int{2, 0, 2}, jobs...)
	if got, want := decide(t, w, "gavel:sjf:stick=1"), "a a100[0-1], b t4[0-1]"; got != want {
		t.Fatalf("by trials: %s; want %s", got, want)
	}
	a, _ := w.State.Job("a")
	report := *a.Perf
	for i, kind := range kinds { // on two GPUs, a is no faster than on a T4
		report.StepTimes = append(report.StepTimes, goodput.StepTime{Type: string(kind), Nodes: 1, GPUs: 2, Batch: 1, Time: 1 - 0.01*float64(i)})
	}
	w.Now = w.Now.Add(time.Hour)
	if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: "a", Perf: &report}); err != nil {
		t.Fatal(err)
	}
	if got, want := decide(t, w, "gavel:sjf:stick=1"), "a t4[0-1], b a100[0-1]"; got != want {
		t.Errorf("by measurement: %s; want %s", got, want)
	}
}

func TestBadKnobs(t *testing.T) {
	for spec, want := range map[string]string{
		"gavel:goal=speed":    `goal = "speed"; want one of [max-min finish-time makespan cost shortest max-sum-throughput fifo hierarchical allox]`,
		"gavel:round=10ms":    "round = 10ms; want 1s to 24h",
		"gavel:stick=0.5":     "stick = 0.5; want 1 to 1e6",
		"gavel:turns=0":       "turns = 0; want 1 to 1e6",
		"gavel:slo=-1":        "slo = -1; want 0 (nothing is promised) or more",
		"gavel:sharing=3":     "sharing = 3; want 0 (no sharing), or 1 to 1.9",
		"gavel:mode=turns":    `mode "turns"; want time-slice or mps`,
		"gavel:within=all":    `within = "all"; want fair or in-order`,
		"gavel:prices=1/-2":   "prices has the value -2; want positive numbers",
		"gavel:allox:packing": "sharing = 1.2; want 0 with goal allox, which matches single jobs",
	} {
		if _, err := policy.Builtin().New(spec); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v; want %s", spec, err, want)
		}
	}
}

// BenchmarkSpeeds measures a fresh round of jobs of which no two have the same
// speeds, on three types; with packing, of which no two have the same utilisation
// either, and all may share.
func BenchmarkSpeeds(b *testing.B) {
	for _, variant := range []string{"gavel", "gavel:ftf", "gavel:sjf", "gavel:packing", "gavel:packing:ftf", "gavel:packing:sjf"} {
		for _, n := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprint(variant, "/", n), func(b *testing.B) {
				random := rand.New(rand.NewPCG(1, uint64(n)))
				jobs := make([]trained, n)
				for i := range jobs {
					jobs[i] = trained{
						fmt.Sprint("j", i), 1 << random.IntN(4), time.Duration(1+random.IntN(600)) * time.Minute,
						[]float64{1 + 5*random.Float64(), 1 + random.Float64(), 1},
					}
				}
				w := world(b, []int{64, 64, 64}, jobs...)
				p := build(b, variant)
				s := w.State.Snapshot(w.Now)
				sharers := make([]*sched.Job, len(s.Jobs))
				for i, j := range s.Jobs {
					sharer := *j
					sharer.Shareable, sharer.GPUMemory, sharer.GPUUtil = true, 1<<30, 0.1+0.8*random.Float64()
					sharers[i] = &sharer
				}
				s = s.With(sharers)
				for b.Loop() {
					if _, _, err := sched.Decide(p, s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
