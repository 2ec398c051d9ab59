// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

const threeTypes = "2x4:t4+1x8:rtx+1x8:a100"

// A job runs at the speed of the type that it is on, whatever kind of truth there
// is about it.
func TestSpeedOfTypes(t *testing.T) {
	c := config(t, "1x1:t4+1x1:a100", "fifo")
	m, _ := c.Zoo.Model("cifar10")
	slow, _ := m.StepTimeOn("t4")
	fast, _ := m.StepTimeOn("a100")
	for _, w := range []struct {
		name string
		work sim.Work
		want float64
	}{
		{"a model of the zoo", sim.Work{Spec: sched.Spec{GPUs: 1, Model: "cifar10"}}, slow / fast},
		{"a recorded run time of a known model", sim.Work{Spec: sched.Spec{GPUs: 1, Model: "cifar10"}, RunTime: sched.Duration(time.Hour)}, slow / fast},
		{"a recorded run time of an unknown model", sim.Work{Spec: sched.Spec{GPUs: 1, Model: "mine"}, RunTime: sched.Duration(time.Hour)}, 1},
	} {
		one, other := w.work, w.work
		one.ID, one.Submitted = "first", start
		other.ID, other.Submitted = "second", start
		res := run(t, c, one, other) // the first gets the T4, the second the A100
		if got := res.Jobs[0].Ran / res.Jobs[1].Ran; math.Abs(got/w.want-1) > 0.01 {
			t.Errorf("%s: the A100 is %.2f times as fast as the T4; want %.2f", w.name, got, w.want)
		}
	}
	// A job that says which types it takes has its run time from the first of them.
	picky := sim.Work{Spec: sched.Spec{ID: "p", GPUs: 1, Model: "cifar10", Submitted: start, GPUTypes: []sched.GPUType{"a100"}}, RunTime: sched.Duration(time.Hour)}
	within(t, "a run time on the only type", run(t, c, picky).Jobs[0].Ran, 3600)
}

// A failure that was recorded comes at the same point of the work on any type.
func TestFailuresOnTypes(t *testing.T) {
	c := config(t, "1x1:t4+1x1:a100", "fifo")
	fails := func(id string) sim.Work {
		return sim.Work{
			Spec:    sched.Spec{ID: sched.JobID(id), GPUs: 1, Model: "cifar10", Submitted: start},
			RunTime: sched.Duration(time.Hour), Outcome: sched.Failed,
			Failures: []sim.Failure{{Reason: "disk full", After: sched.Duration(30 * time.Minute)}},
		}
	}
	res := run(t, c, fails("first"), fails("second"))
	m, _ := c.Zoo.Model("cifar10")
	slow, _ := m.StepTimeOn("t4")
	fast, _ := m.StepTimeOn("a100")
	within(t, "time to failure on the T4", res.Jobs[0].Ran, 1800)
	if got, want := res.Jobs[1].Ran, 1800*fast/slow; res.Failed != 2 || math.Abs(got-want) > 0.01 {
		t.Errorf("%d jobs failed, on the A100 after %g s; want 2, and %g s", res.Failed, got, want)
	}
}

// spy is a policy that keeps the first report of every job.
type spy struct {
	sched.Policy
	seen map[sched.JobID]*goodput.Report
}

func (s spy) Schedule(snap *sched.Snapshot) sched.Plan {
	for _, j := range snap.Jobs {
		if s.seen[j.ID] == nil {
			s.seen[j.ID] = j.Perf
		}
	}
	return s.Policy.Schedule(snap)
}

// With exact estimates, before a job has run, the policy knows its step times on
// one GPU of each type that it accepts, and no model.
func TestTrialsOfTypes(t *testing.T) {
	c := config(t, threeTypes, "sia")
	c.Estimates = sim.Exact
	c.CoAdapt, c.Agent = true, 30*time.Second
	watch := spy{c.Policy, map[sched.JobID]*goodput.Report{}}
	c.Policy = watch
	picky := []sched.GPUType{"rtx", "a100"}
	run(t, c,
		sim.Work{Spec: sched.Spec{ID: "zoo", GPUs: 1, Model: "cifar10", Submitted: start}},
		sim.Work{Spec: sched.Spec{ID: "recorded", GPUs: 2, Model: "vgg16", Submitted: start, GPUTypes: picky}, RunTime: sched.Duration(time.Hour)},
	)
	m, _ := c.Zoo.Model("cifar10")
	for _, step := range watch.seen["zoo"].StepTimes {
		if want, _ := m.StepTimeOn(sched.GPUType(step.Type)); step.GPUs != 1 || math.Abs(step.Time/want-1) > 1e-9 {
			t.Errorf("a trial of cifar10 shows %+v; want 1 GPU and %g s", step, want)
		}
	}
	if r := watch.seen["zoo"]; len(r.StepTimes) != 3 || len(r.Params) != 0 {
		t.Errorf("cifar10 begins with %d step times and %d models; want 3 and none", len(r.StepTimes), len(r.Params))
	}
	steps := watch.seen["recorded"].StepTimes
	if len(steps) != 2 || steps[0].Type != "rtx" || steps[0].GPUs != 2 || math.Abs(steps[0].Time-1) > 1e-9 || steps[1].Time > 0.5 {
		t.Errorf("trials of vgg16 on 2 GPUs of what it accepts: %+v; want 1 s on rtx, less than 0.5 s on a100", steps)
	}
	// In a cluster of one type there is nothing to try.
	c.Cluster, _ = sim.ParseCluster("2x4", "t4")
	run(t, c, sim.Work{Spec: sched.Spec{ID: "alone", GPUs: 1, Model: "cifar10", Submitted: start}})
	if r := watch.seen["alone"]; len(r.StepTimes) != 0 {
		t.Errorf("trials in a cluster of one type: %+v", r.StepTimes)
	}
}

// On a small mixed cluster, the policies that know types finish jobs sooner than
// the others, with blurred measurements too; and each run can be repeated.
func TestTypesPayOff(t *testing.T) {
	w, err := trace.Generate(trace.Gen{Kind: trace.KindPollux, Jobs: 40, GPUs: 8, Span: 4 * time.Hour, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	simulate := func(spec string, noise float64) *sim.Result {
		t.Helper()
		c := config(t, threeTypes, spec)
		c.Interval, c.Agent, c.Noise, c.Seed = time.Minute, 30*time.Second, noise, 1
		c.Interference = sim.PerModel
		c.CoAdapt, c.Losses = spec == "sia" || spec == "gavel", spec == "gavel"
		res, _, err := sim.Run(c, w)
		if err != nil {
			t.Fatal(err)
		}
		if res.Unfinished > 0 {
			t.Errorf("%s: %d jobs have not ended", spec, res.Unfinished)
		}
		return res
	}
	blind := math.Inf(1)
	for _, spec := range []string{"fifo", "las", "tiresias"} {
		blind = min(blind, simulate(spec, 0).AvgJCT)
	}
	for _, spec := range []string{"gavel", "sia"} {
		for _, noise := range []float64{0, 0.1} {
			res := simulate(spec, noise)
			if res.AvgJCT >= blind {
				t.Errorf("%s with noise %g: average JCT %.0f s; the best of those that do not know types has %.0f s", spec, noise, res.AvgJCT, blind)
			}
			if again := simulate(spec, noise); !reflect.DeepEqual(res, again) {
				t.Errorf("%s with noise %g: a second run differs", spec, noise)
			}
		}
	}
}
