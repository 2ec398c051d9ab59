// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/policy/slaq"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// trained returns a report of a job that has done so many steps of a curve
// that halves its distance to the floor in the first 1000 steps, at a tenth of
// a second for a step on one GPU, with perfect scaling.
func trained(steps float64) *goodput.Report {
	r := &goodput.Report{MostGPUs: 64}
	for k := range 11 {
		step := steps * float64(k) / 10
		r.Losses = append(r.Losses, goodput.LossPoint{Step: step, Loss: 0.5 + 1/(1+step/1000)})
	}
	for n := 1; n <= 64; n *= 2 {
		r.StepTimes = append(r.StepTimes, goodput.StepTime{Nodes: 1, GPUs: n, Batch: 64, Time: 0.1 / float64(n)})
	}
	return r
}

// scene is a node of 16 GPUs with jobs whose losses are at some step.
func scene(t *testing.T, spec func(id string) sched.Spec, steps map[string]float64, ids ...string) *policytest.World {
	t.Helper()
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 16}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if err := w.Submit(spec(id), 0); err != nil {
			t.Fatal(err)
		}
		if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: sched.JobID(id), Perf: trained(steps[id])}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func build(t *testing.T, change func(*slaq.Config)) sched.Policy {
	t.Helper()
	c := slaq.Default()
	if change != nil {
		change(&c)
	}
	p, err := slaq.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func held(t *testing.T, w *policytest.World, p sched.Policy) map[sched.JobID]int {
	t.Helper()
	if _, _, err := w.Decide(p); err != nil {
		t.Fatal(err)
	}
	out := map[sched.JobID]int{}
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		out[j.ID] = j.Placement.GPUs()
	}
	return out
}

func elastic(id string) sched.Spec {
	return sched.Spec{ID: sched.JobID(id), GPUs: 4, MinGPUs: 1, MaxGPUs: 16}
}

// TestSteepCurveGetsGPUs is the rule of the paper: the young job gets nearly
// all, the one near its floor keeps its unit.
func TestSteepCurveGetsGPUs(t *testing.T) {
	w := scene(t, elastic, map[string]float64{"old": 100_000, "young": 2_000}, "old", "young")
	if got := held(t, w, build(t, nil)); got["young"] != 15 || got["old"] != 1 {
		t.Errorf("GPUs %v; want 15 for young and 1 for old", got)
	}
}

// TestEqualCurvesShare: jobs at the same point get the same.
func TestEqualCurvesShare(t *testing.T) {
	w := scene(t, elastic, map[string]float64{"a": 5_000, "b": 5_000}, "a", "b")
	if got := held(t, w, build(t, nil)); got["a"] != 8 || got["b"] != 8 {
		t.Errorf("GPUs %v; want 8 each", got)
	}
}

// TestEveryJobHasAUnit: a flat curve does not lose the first GPU to the tenth
// of a steep one; and rigid gangs run whole, the steepest ones, until patience
// ends.
func TestEveryJobHasAUnit(t *testing.T) {
	rigid := func(id string) sched.Spec { return sched.Spec{ID: sched.JobID(id), GPUs: 8} }
	w := scene(t, rigid, map[string]float64{"old": 100_000, "young": 2_000, "middle": 10_000}, "old", "young", "middle")
	p := build(t, nil)
	if got := held(t, w, p); got["young"] != 8 || got["middle"] != 8 || got["old"] != 0 {
		t.Errorf("GPUs %v; want 8 for young and middle", got)
	}
	w.Now = w.Now.Add(29 * time.Minute)
	if got := held(t, w, p); got["old"] != 0 {
		t.Errorf("after 29m: GPUs %v; want none for old", got)
	}
	w.Now = w.Now.Add(time.Minute)
	if got := held(t, w, p); got["old"] != 8 || got["young"] != 8 {
		t.Errorf("after 30m: GPUs %v; want 8 for old, in place of middle", got)
	}
}

// TestRestartWeighs: a job that runs keeps its size where another one would gain
// little, unless restarts are free.
func TestRestartWeighs(t *testing.T) {
	for restart, want := range map[time.Duration]int{0: 8, time.Minute: 9} {
		w := scene(t, elastic, map[string]float64{"a": 5_000, "b": 5_000}, "a", "b")
		for i, id := range []sched.JobID{"a", "b"} {
			gpus := sched.FirstGPUs(9)
			if i == 1 {
				gpus = sched.FirstGPUs(16) &^ gpus
			}
			e := sched.Event{Kind: sched.JobStarted, Job: id, Placement: sched.Placement{{Node: 0, GPUs: gpus, Milli: sched.WholeGPU}}}
			if err := w.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		p := build(t, func(c *slaq.Config) { c.Restart = sched.Duration(restart) })
		w.Now = w.Now.Add(10 * time.Minute)
		if got := held(t, w, p); got["a"] != want {
			t.Errorf("restart = %s: GPUs %v; want %d for a", restart, got, want)
		}
	}
}

// TestFairShareWithoutReports: three of four jobs report nothing and have three
// quarters of the GPUs, although the fourth would take all.
func TestFairShareWithoutReports(t *testing.T) {
	w := scene(t, elastic, map[string]float64{"keen": 2_000}, "keen")
	for _, id := range []sched.JobID{"x", "y", "z"} {
		if err := w.Submit(sched.Spec{ID: id, GPUs: 4}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := held(t, w, build(t, nil)); got["keen"] != 4 || got["x"] != 4 || got["y"] != 4 || got["z"] != 4 {
		t.Errorf("GPUs %v; want 4 each", got)
	}
}

func TestBadKnobs(t *testing.T) {
	for _, c := range []struct {
		change func(*slaq.Config)
		want   string
	}{
		{func(c *slaq.Config) { c.Epoch = 0 }, "epoch = 0s; want 1s or more"},
		{func(c *slaq.Config) { c.Restart = c.Epoch }, "restart = 10m; want 0s to below epoch = 10m"},
		{func(c *slaq.Config) { c.Decay = 0 }, "decay = 0; want more than 0, up to 1"},
		{func(c *slaq.Config) { c.Patience = -1 }, "patience = -1ns; want 0s or more"},
	} {
		config := slaq.Default()
		c.change(&config)
		if _, err := slaq.New(config); err == nil || err.Error() != c.want {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}
