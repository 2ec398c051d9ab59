// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// job makes a job of a recorded run time that arrives after a while.
func job(id string, gpus int, arrives, runs time.Duration) sim.Work {
	return sim.Work{
		Spec:    sched.Spec{ID: sched.JobID(id), GPUs: gpus, Submitted: start.Add(arrives)},
		RunTime: sched.Duration(runs),
	}
}

func config(t testing.TB, cluster, spec string) sim.Config {
	t.Helper()
	c, err := sim.ParseCluster(cluster, "t4")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return sim.Config{Cluster: c, Policy: p, Name: spec, Zoo: z}
}

func run(t testing.TB, c sim.Config, work ...sim.Work) *sim.Result {
	t.Helper()
	res, _, err := sim.Run(c, &sim.Workload{Name: t.Name(), Start: start, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// within checks a time of a result in seconds.
func within(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s = %g, want %g", what, got, want)
	}
}

func TestFIFOQueuesInOrder(t *testing.T) {
	res := run(t, config(t, "1x4", "fifo"),
		job("a", 4, 0, 10*time.Minute),
		job("b", 4, time.Minute, 10*time.Minute),
		job("c", 1, 2*time.Minute, time.Minute))
	for i, want := range []struct{ start, end float64 }{{0, 600}, {600, 1200}, {1200, 1260}} {
		within(t, string(res.Jobs[i].ID)+" start", res.Jobs[i].Start, want.start)
		within(t, string(res.Jobs[i].ID)+" end", res.Jobs[i].End, want.end)
	}
	within(t, "average JCT", res.AvgJCT, (600+1140+1140)/3.0)
	within(t, "makespan", res.Makespan, 1260)
	within(t, "GPU seconds", res.GPUSeconds, 2400+2400+60)
	// c stands behind b for 8 minutes, then at the head of a full cluster for 10.
	if res.Jobs[2].WaitFor != sched.Full {
		t.Errorf("c waited for %s, want %s", res.Jobs[2].WaitFor, sched.Full)
	}
}

func TestIntervalDelaysDecisions(t *testing.T) {
	c := config(t, "1x4", "fifo")
	c.Interval = time.Minute
	res := run(t, c,
		job("a", 4, 0, 90*time.Second),
		job("b", 4, 61*time.Second, time.Minute))
	// The first round is at 60 s; a ends at 150 s and b starts in the round
	// after that.
	within(t, "a start", res.Jobs[0].Start, 60)
	within(t, "a end", res.Jobs[0].End, 150)
	within(t, "b start", res.Jobs[1].Start, 180)
}

func TestPreemptionCostsARestart(t *testing.T) {
	c := config(t, "1x4", "srtf")
	c.Estimates = sim.Exact
	res := run(t, c,
		job("long", 4, 0, time.Hour),
		job("short", 4, 10*time.Minute, 5*time.Minute))
	within(t, "short end", res.Jobs[1].End, 15*60)
	// An unknown model loses 62 s when it comes back.
	within(t, "long end", res.Jobs[0].End, 3600+300+62)
	if got := res.Jobs[0]; got.Preemptions != 1 || got.Restarts != 1 {
		t.Errorf("long: %d preemptions, %d restarts; want 1 and 1", got.Preemptions, got.Restarts)
	}
	within(t, "lost GPU seconds", res.LostGPUs, 4*62)
}

func TestFailuresAreRetriedFromTheStart(t *testing.T) {
	w := job("a", 2, 0, 10*time.Minute)
	w.Failures = []sim.Failure{{Reason: "MPI error", After: sched.Duration(3 * time.Minute)}}
	final := job("b", 2, 0, 10*time.Minute)
	final.Failures = []sim.Failure{{Reason: "Syntax error", After: sched.Duration(time.Minute)}}
	final.Outcome = sched.Failed
	c := config(t, "1x4", "fifo")
	c.Retry = 2 * time.Minute
	res := run(t, c, w, final)
	// Three minutes lost, two of waiting, a restart, and the whole run.
	within(t, "a end", res.Jobs[0].End, 3*60+2*60+62+600)
	within(t, "b end", res.Jobs[1].End, 60)
	if res.Failed != 1 || res.Finished != 1 || res.Failures != 2 {
		t.Errorf("failed %d, finished %d, failures %d; want 1, 1, 2", res.Failed, res.Finished, res.Failures)
	}
	within(t, "lost GPU seconds", res.LostGPUs, 2*(180+62)+2*60)
}

// fixed is a policy that runs every job where the test says.
type fixed map[sched.JobID]sched.Placement

func (f fixed) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		plan.Want[i] = f[j.ID]
	}
	return plan
}

// on holds GPUs of one node: on(0, 0b11, 1000).
func on(node int32, gpus sched.GPUSet, milli int32) sched.Slice {
	return sched.Slice{Node: node, GPUs: gpus, Milli: milli}
}

func TestPlacementSlowsSensitiveModels(t *testing.T) {
	c := config(t, "2x2", "fifo")
	c.Policy = fixed{
		"near": {on(0, 0b11, 1000)},
		"far":  {on(0, 0b01, 1000), on(1, 0b01, 1000)},
	}
	m, _ := c.Zoo.Model("vgg16")
	slow := m.SlowdownAt(sched.SameRack) / m.SlowdownAt(sched.SameSlot)
	if slow <= 1.1 {
		t.Fatalf("vgg16 slows down by %g on two nodes; the zoo should have it as sensitive", slow)
	}
	near, far := job("near", 2, 0, time.Hour), job("far", 2, 2*time.Hour, time.Hour)
	near.Model, far.Model = "vgg16", "vgg16"
	res := run(t, c, near, far)
	within(t, "near", res.Jobs[0].Ran, 3600)
	within(t, "far", res.Jobs[1].Ran, 3600*slow)
}

func TestDistributedJobsDisturbEachOther(t *testing.T) {
	c := config(t, "3x2", "fifo")
	c.Interference = 0.5
	c.Policy = fixed{
		"a":     {on(0, 0b01, 1000), on(1, 0b01, 1000)},
		"b":     {on(0, 0b10, 1000), on(2, 0b01, 1000)},
		"local": {on(1, 0b10, 1000)},
	}
	res := run(t, c,
		job("a", 2, 0, time.Hour), job("local", 1, 0, time.Hour), job("b", 2, 30*time.Minute, 6*time.Minute))
	spread := 1 / 0.854 / 0.94 // of a job of an unknown model on two nodes instead of one
	within(t, "local", res.Jobs[1].Ran, 3600)
	within(t, "b", res.Jobs[2].Ran, 2*360*spread)
	// a runs at half speed while b is there.
	within(t, "a", res.Jobs[0].Ran, 3600*spread+0.5*2*360*spread)
}

func TestSharedGPUsSlowDown(t *testing.T) {
	c := config(t, "1x2", "fifo")
	c.Policy = fixed{"a": {on(0, 0b01, 500)}, "b": {on(0, 0b01, 500)}}
	a, b := job("a", 1, 0, time.Hour), job("b", 1, 0, time.Hour)
	a.Shareable, b.Shareable = true, true
	a.GPUUtil, b.GPUUtil = 0.9, 0.6
	res := run(t, c, a, b)
	within(t, "a", res.Jobs[0].Ran, 3600/(1-0.335*0.6))
	within(t, "b", res.Jobs[1].Ran, 3600/(1-0.335*0.6))
}

func TestABrokenPolicyIsReported(t *testing.T) {
	c := config(t, "1x2", "fifo")
	c.Policy = fixed{"a": {on(0, 0b01, 1000)}, "b": {on(0, 0b01, 1000)}}
	_, _, err := sim.Run(c, &sim.Workload{Name: "w", Start: start, Work: []sim.Work{job("a", 1, 0, 1), job("b", 1, 0, 1)}})
	var refused *sched.PlanError
	if !errors.As(err, &refused) || refused.Violations[0].Rule != "capacity" {
		t.Errorf("error %v, want a refused plan that breaks capacity", err)
	}
}

func TestRhoOfEqualShares(t *testing.T) {
	// Two jobs of all GPUs, one after the other: alone on half the cluster each
	// would take twice as long, so the first is at 1/2 and the second near 1.
	res := run(t, config(t, "1x4", "fifo"), job("a", 4, 0, time.Hour), job("b", 4, 0, time.Hour))
	within(t, "rho of a", res.Jobs[0].Rho, 0.5)
	// b: two apps in the first hour, one in the second: N = 1.5.
	within(t, "rho of b", res.Jobs[1].Rho, 2/1.5)
	within(t, "max rho", res.MaxRho, 2/1.5)
}

func TestUntilCutsOff(t *testing.T) {
	c := config(t, "1x4", "fifo")
	c.Until = 30 * time.Minute
	res := run(t, c, job("a", 4, 0, time.Hour), job("b", 4, 0, time.Hour))
	if res.Unfinished != 2 || res.Finished != 0 {
		t.Errorf("unfinished %d, finished %d; want 2 and 0", res.Unfinished, res.Finished)
	}
	within(t, "a's GPU seconds", res.Jobs[0].GPUSeconds, 4*1800)
	within(t, "b's wait", res.Jobs[1].Wait, 1800)
}

func TestImpossibleJobsDoNotBlock(t *testing.T) {
	res := run(t, config(t, "2x4", "fifo"), job("huge", 9, 0, time.Hour), job("a", 4, 0, time.Hour))
	if res.Unfinished != 1 || res.Jobs[1].End != 3600 {
		t.Errorf("unfinished %d, a ends at %g; want 1 and 3600", res.Unfinished, res.Jobs[1].End)
	}
	if res.Jobs[0].WaitFor != sched.Impossible {
		t.Errorf("huge waits for %s, want %s", res.Jobs[0].WaitFor, sched.Impossible)
	}
}

// Every policy, on a generated workload: the same bytes twice, every job ends,
// and no more GPU time is held than there is.
func TestEveryPolicyIsDeterministic(t *testing.T) {
	for _, name := range policy.Builtin().Names() {
		t.Run(name, func(t *testing.T) {
			once := func() []byte {
				w, err := trace.Generate(trace.Gen{Kind: "philly", Jobs: 120, GPUs: 64, Seed: 7, Longest: 12 * time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				c := config(t, "8x8/4", name)
				c.Interval = time.Minute
				c.Interference = sim.PerModel
				res, _, err := sim.Run(c, w)
				if err != nil {
					t.Fatal(err)
				}
				if res.Unfinished != 0 {
					t.Errorf("%d jobs never ended", res.Unfinished)
				}
				if !(res.Allocation > 0 && res.Allocation <= 1+1e-9) {
					t.Errorf("allocation = %g", res.Allocation)
				}
				b, err := json.Marshal(res)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			if a, b := once(), once(); !bytes.Equal(a, b) {
				t.Error("two runs differ")
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	good := config(t, "1x4", "fifo")
	for _, tc := range []struct {
		name string
		work []sim.Work
		edit func(*sim.Config)
		want string
	}{
		{"no length", []sim.Work{{Spec: sched.Spec{ID: "a", GPUs: 1, Submitted: start}}}, nil, "run_time"},
		{"order", []sim.Work{job("a", 1, time.Hour, 1), job("b", 1, 0, 1)}, nil, "order of submission"},
		{"twice", []sim.Work{job("a", 1, 0, 1), job("a", 1, 0, 1)}, nil, "ids must differ"},
		{"gpus", []sim.Work{job("a", -1, 0, time.Hour)}, nil, "gpus = -1"},
		{"interval", nil, func(c *sim.Config) { c.Interval = -1 }, "interval"},
		{"interference", nil, func(c *sim.Config) { c.Interference = 2 }, "interference"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := good
			if tc.edit != nil {
				tc.edit(&c)
			}
			_, _, err := sim.Run(c, &sim.Workload{Name: "w", Start: start, Work: tc.work})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one about %q", err, tc.want)
			}
		})
	}
}
