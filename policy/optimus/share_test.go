// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// perfect scales perfectly on up to n GPUs, with a number of steps of a second
// left.
func perfect(n int, left float64) *goodput.Report {
	return &goodput.Report{Steps: curve(n, 1, 0, 0), Left: left}
}

func TestShares(t *testing.T) {
	elastic := func(id sched.JobID) sched.Spec { return sched.Spec{ID: id} }
	type job struct {
		sched.Spec
		perf *goodput.Report
	}
	for _, tc := range []struct {
		name string
		gpus []int // of the nodes
		jobs []job
		want string
	}{
		{"the longer job gains more", []int{4}, []job{{elastic("a"), perfect(8, 100)}, {elastic("b"), perfect(8, 1000)}},
			"a n0[0], b n0[1-3]"},
		{"equal gains: submitted first", []int{5}, []job{{elastic("a"), perfect(8, 100)}, {elastic("b"), perfect(8, 100)}},
			"a n0[2-4], b n0[0-1]"},
		{"nobody needs more than it can use", []int{8}, []job{{elastic("a"), perfect(2, 100)}, {elastic("b"), perfect(3, 1)}},
			"a n0[0-1], b n0[2-4]"},
		{"a step that takes longer is not taken, nor what comes after it", []int{8},
			[]job{{elastic("a"), &goodput.Report{Steps: []float64{4, 2, 2.1, 0.1}, Left: 10}}}, "a n0[0-1]"},
		{"no speed known: one GPU", []int{8}, []job{{elastic("a"), nil}, {elastic("b"), &goodput.Report{Left: 10}}}, "a n0[0], b n0[1]"},
		{"the agent's limit", []int{8}, []job{{elastic("a"), &goodput.Report{Steps: curve(8, 1, 0, 0), Left: 9, MostGPUs: 2}}}, "a n0[0-1]"},
		{"the user's limit", []int{8}, []job{{sched.Spec{ID: "a", GPUs: 2, MinGPUs: 1, MaxGPUs: 3}, perfect(8, 9)}}, "a n0[0-2]"},
		{"past its end: still one step", []int{8}, []job{{elastic("a"), perfect(4, 0)}, {elastic("b"), perfect(8, 20)}},
			"a n0[0-1], b n0[2-7]"},
		{"more jobs than GPUs", []int{2}, []job{{elastic("a"), perfect(8, 1)}, {elastic("b"), perfect(8, 1)}, {elastic("c"), perfect(8, 1e6)}},
			"a n0[0], b n0[1], c -"},
		{"rigid: all or nothing, before anybody grows", []int{4}, []job{
			{elastic("a"), perfect(8, 1e6)}, {sched.Spec{ID: "b", GPUs: 4}, perfect(8, 1)}, {sched.Spec{ID: "c", GPUs: 3}, perfect(8, 1)}},
			"a n0[0], b -, c n0[1-3]"},
		{"not preemptible: could never be resized", []int{8}, []job{
			{sched.Spec{ID: "a", GPUs: 3, MinGPUs: 1, MaxGPUs: 8, NonPreemptible: true}, perfect(8, 100)}}, "a n0[0-2]"},
		{"in tasks of two", []int{7}, []job{
			{sched.Spec{ID: "a", GPUs: 2, MinGPUs: 2, MaxGPUs: 7, TaskGPUs: 2}, perfect(8, 100)}, {elastic("b"), perfect(8, 1)}},
			"a n0[1-6], b n0[0]"},
		{"useful sizes, by gain for each GPU", []int{5}, []job{
			{sched.Spec{ID: "a", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, Sizes: []int{1, 4, 8}}, perfect(8, 100)}, {elastic("b"), perfect(8, 100)}},
			"a n0[0], b n0[1-4]"}, // 25 for each of three GPUs; 50, 17, 8 for those of b
		{"smallest first, from the node with the most room", []int{4, 3, 2}, []job{{elastic("a"), perfect(5, 1e3)}, {elastic("b"), perfect(3, 1e6)}, {elastic("c"), perfect(1, 1)}},
			"a n1[0-2] n2[0-1], b n0[1-3], c n0[0]"},
	} {
		w := newWorld(t, tc.gpus...)
		for _, j := range tc.jobs {
			w.submit(j.Spec, j.perf)
		}
		if got := w.decide(mustBuild(t, "optimus")); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// TestUnchangedSharesStay: only jobs whose number of GPUs changes are moved.
func TestUnchangedSharesStay(t *testing.T) {
	p := mustBuild(t, "optimus")
	w := newWorld(t, 4, 4)
	w.submit(sched.Spec{ID: "a"}, perfect(2, 1000))
	w.submit(sched.Spec{ID: "b"}, perfect(8, 10))
	if got, want := w.decide(p), "a n0[0-1], b n1[0-3] n0[2-3]"; got != want {
		t.Fatalf("first: %s; want %s", got, want)
	}
	w.submit(sched.Spec{ID: "c"}, perfect(1, 10))
	if got, want := w.decide(p), "a n0[0-1], b n1[1-3] n0[2-3], c n1[0]"; got != want {
		t.Fatalf("then: %s; want %s", got, want)
	}
	a, _ := w.State.Job("a")
	b, _ := w.State.Job("b")
	if a.Starts != 1 || b.Starts != 2 {
		t.Errorf("a was started %d times, b %d; want 1 and 2", a.Starts, b.Starts)
	}
}

// TestEvery: a job that can be resized asks for the next decision, one that
// cannot does not.
func TestEvery(t *testing.T) {
	for _, tc := range []struct {
		spec string
		job  sched.Spec
		perf *goodput.Report
		want time.Duration // 0: none
	}{
		{"optimus", sched.Spec{ID: "a"}, perfect(4, 10), time.Minute},
		{"optimus:every=0s", sched.Spec{ID: "a"}, perfect(4, 10), 0},
		{"optimus:every=1m", sched.Spec{ID: "a"}, perfect(4, 10), time.Minute},
		{"optimus:every=1m", sched.Spec{ID: "a"}, perfect(1, 10), 0},
		{"optimus:every=1m", sched.Spec{ID: "a"}, nil, 0},
		{"optimus:every=1m", sched.Spec{ID: "a", GPUs: 2}, perfect(4, 10), 0},
		{"optimus:every=1m", sched.Spec{ID: "a", GPUs: 5, MinGPUs: 5, MaxGPUs: 8}, perfect(8, 10), 0}, // it does not run
	} {
		w := newWorld(t, 4)
		w.submit(tc.job, tc.perf)
		w.decide(mustBuild(t, tc.spec))
		if got := w.Wake.Sub(w.Now); tc.want == 0 && !w.Wake.IsZero() || tc.want > 0 && got != tc.want {
			t.Errorf("%s, %+v: wakes after %s; want %s", tc.spec, tc.job, got, tc.want)
		}
	}
}

// learnt is what the agent of a job reports that has run on one GPU, a second
// for each step, and has seen a tenth of its losses, so many steps before the
// end.
func learnt(left float64) *goodput.Report {
	r := measured([]float64{1}, 1)
	r.Losses, r.Stop = losing(left/0.9, 0.1)
	return r
}

// TestOriginal: the fit knows no more than what the job has run at. It takes no
// notice of what an oracle says.
func TestOriginal(t *testing.T) {
	// A third GPU costs time, which the fit learns only by giving it.
	steps := []float64{1, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7}
	w := newWorld(t, 4)
	p := mustBuild(t, "optimus:form=original")
	w.submit(sched.Spec{ID: "a"}, nil)
	for i, tc := range []struct {
		sizes []int // it has run at
		want  string
	}{
		{nil, "a n0[0]"},
		{[]int{1}, "a n0[0-1]"},
		{[]int{1, 2}, "a n0[0-3]"},
		{[]int{1, 2, 4}, "a n0[0-1]"},
	} {
		perf := measured(steps, tc.sizes...)
		perf.Losses, perf.Stop = losing(1000, 0.2)
		perf.Steps, perf.Left = []float64{1, 1, 1, 1}, 1
		perf.MostGPUs = min(8, 1<<i)
		w.apply(sched.Event{Kind: sched.JobReported, Job: "a", Perf: perf})
		if got := w.decide(p); got != tc.want {
			t.Errorf("after %v: %s; want %s", tc.sizes, got, tc.want)
		}
	}
}

// TestOriginalFollowsLosses: GPUs go to the job with the longer way to
// convergence, as its losses tell.
func TestOriginalFollowsLosses(t *testing.T) {
	few := learnt(1e6)
	few.Losses = few.Losses[:2]
	near, _ := losing(1000, 0.99)
	end := learnt(0)
	end.Losses, end.Stop = near, goodput.Stop{Fall: 0.5, Epochs: 1, Epoch: 10}
	for _, tc := range []struct {
		name string
		a, b *goodput.Report
		want string
	}{
		{"the longer job gains more", learnt(100), learnt(1000), "a n0[0], b n0[1-3]"},
		{"the other way round", learnt(1000), learnt(100), "a n0[1-3], b n0[0]"},
		{"equal", learnt(100), learnt(100), "a n0[0-1], b n0[2-3]"},
		// Three epochs of 22,222 steps against a million.
		{"too few losses: it may converge at its first chance", learnt(1e6), few, "a n0[1-3], b n0[0]"},
		{"past convergence: one step", learnt(10), end, "a n0[1-3], b n0[0]"},
		{"no losses and no rule: one step", learnt(10), measured([]float64{1}, 1), "a n0[1-3], b n0[0]"},
		{"no step times: its smallest size", learnt(10), &goodput.Report{Losses: few.Losses, Stop: few.Stop}, "a n0[1-3], b n0[0]"},
	} {
		w := newWorld(t, 4)
		w.submit(sched.Spec{ID: "a"}, tc.a)
		w.submit(sched.Spec{ID: "b"}, tc.b)
		if got := w.decide(mustBuild(t, "optimus:form=original")); got != tc.want {
			t.Errorf("%s: %s; want %s", tc.name, got, tc.want)
		}
	}
}

// TestStepsLeft: losses seen so far foretell the end of training.
func TestStepsLeft(t *testing.T) {
	for _, part := range []float64{0.01, 0.1, 0.5, 0.9} {
		r := &goodput.Report{}
		r.Losses, r.Stop = losing(10_000, part)
		if got, want := stepsLeft(r), 10_000*(1-part); math.Abs(got-want) > 200 { // an epoch
			t.Errorf("after %g of 10,000 steps: %g left; want %g", part, got, want)
		}
	}
}

// TestFitsAreRemembered: only for the same report, or the same losses on the
// same type of GPU.
func TestFitsAreRemembered(t *testing.T) {
	w := newWorld(t, 4)
	f := fits{}
	fit := func(r *goodput.Report) *fit {
		w.apply(sched.Event{Kind: sched.JobReported, Job: "a", Perf: r})
		s := w.State.Snapshot(w.Now)
		return f.of(s, s.Jobs[0])
	}
	w.submit(sched.Spec{ID: "a"}, nil)
	report := learnt(1000)
	first := fit(report)
	if again := fit(report); again != first {
		t.Error("the same report is fitted twice")
	}
	faster := *report
	faster.StepTimes = []goodput.StepTime{{Nodes: 1, GPUs: 1, Time: 0.5}}
	if got := fit(&faster); got.left != first.left || got.speed.Compute != 0.5 {
		t.Errorf("with other step times: %+v; want %g steps left at half a second each", got, first.left)
	}
	if got, want := fit(learnt(500)).left, first.left/2; math.Abs(got/want-1) > 0.1 {
		t.Errorf("with other losses: %g steps left; want about %g", got, want)
	}
	f.prune(1)
	if len(f) != 1 {
		t.Error("the fit of a job is forgotten while it is needed")
	}
	for i := range 200 {
		f[sched.JobID(fmt.Sprint("old", i))] = first
	}
	if f.prune(1); len(f) > 0 {
		t.Errorf("%d fits are remembered for one job", len(f))
	}
}

// TestSamplesByType: step times of other GPU types count only while there are
// none of its own.
func TestSamplesByType(t *testing.T) {
	r := &goodput.Report{StepTimes: []goodput.StepTime{{Type: "t4", GPUs: 1, Time: 1}, {Type: "a100", GPUs: 2, Time: 0.1}}}
	for gpuType, want := range map[sched.GPUType][]Sample{
		"t4": {{1, 1}}, "a100": {{2, 0.1}}, "k80": {{1, 1}, {2, 0.1}}, "": {{1, 1}, {2, 0.1}},
	} {
		if got := samples(r, gpuType); !slices.Equal(got, want) {
			t.Errorf("samples for %q are %v; want %v", gpuType, got, want)
		}
	}
}

// TestYoung: gains are damped until a job has run for a while.
func TestYoung(t *testing.T) {
	w := newWorld(t, 3)
	p := mustBuild(t, "optimus:form=original:damp=0.5")
	w.submit(sched.Spec{ID: "old"}, learnt(60))
	w.decide(p)
	w.Now = w.Now.Add(10 * time.Minute)
	w.submit(sched.Spec{ID: "young"}, learnt(100))
	if got, want := w.decide(p), "old n0[1-2], young n0[0]"; got != want {
		t.Errorf("young: %s; want %s", got, want)
	}
	w.Now = w.Now.Add(10 * time.Minute)
	if got, want := w.decide(p), "old n0[0], young n0[1-2]"; got != want {
		t.Errorf("ten minutes later: %s; want %s", got, want)
	}
}
