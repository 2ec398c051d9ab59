// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestScreenTime: who is screened, and for how long.
func TestScreenTime(t *testing.T) {
	const standard = 5 * time.Minute
	d := open(t, withTable(t), func(c *Config) { c.Screen = standard })
	screen := func(s api.Submission) time.Duration {
		t.Helper()
		return d.job(d.submit(ann, s)).Spec.Screen.D()
	}
	gang := submission("gang", 4)
	if got := screen(gang); got != standard {
		t.Errorf("a new gang is screened for %s; want %s", got, standard)
	}
	if got := screen(submission("one", 1)); got != 0 {
		t.Errorf("a job of one GPU is screened for %s; want 0", got)
	}
	asks := submission("one", 1)
	asks.Screen = "2m"
	if got := screen(asks); got != 2*time.Minute {
		t.Errorf("a job that asks for 2m is screened for %s", got)
	}
	asks = gang
	asks.Screen = api.ScreenOff
	if got := screen(asks); got != 0 {
		t.Errorf("a gang that asks for none is screened for %s", got)
	}
	d.decide(wants{"gang-1": on(0, 1, 2, 3)})
	d.clock.add(10 * time.Minute)
	d.exited(exitOf("gang-1", 1))
	if got := screen(gang); got != 0 {
		t.Errorf("a gang whose like ran well is screened for %s; want 0", got)
	}
	other := gang
	other.Command = []string{"python3", "train.py", "--lr", "1"}
	if got := screen(other); got != standard {
		t.Errorf("another command is screened for %s; want %s", got, standard)
	}
	d.command("gang-4", api.Cancel)
	d.decide(wants{"gang-5": on(0, 1, 2, 3)})
	d.clock.add(time.Minute)
	d.exited(crash("gang-5", 1, traceback))
	if got := screen(gang); got != standard {
		t.Errorf("a gang whose like failed since is screened for %s; want %s", got, standard)
	}
	for _, bad := range []string{"soon", "-1s", "0s", "25h"} {
		s := gang
		s.Screen = bad
		_, err := d.Submit(t.Context(), ann, []api.Submission{s})
		wantCode(t, "screen "+bad, err, api.Invalid)
	}
	d.wantDurable()
}

// screens is a policy that starts jobs on fewer GPUs than they ask for until
// they are proven.
type screens struct{}

func (screens) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	plan.Screening = make([]bool, len(s.Jobs))
	for i, j := range s.Jobs {
		switch {
		case j.OnProbation(s.Now):
			plan.Want[i], plan.Screening[i] = on(0), true
		default:
			plan.Want[i] = on(0, 1, 2, 3)
		}
	}
	return plan
}

// TestScreening: a screened gang runs on one GPU, its attempt says so, and the
// end of the screening is no preemption.
func TestScreening(t *testing.T) {
	d := open(t, withTable(t), func(c *Config) { c.Screen = time.Minute })
	id := d.submit(ann, submission("gang", 4))
	d.decide(screens{})
	list := d.Attempts()
	if len(list) != 1 || !list[0].Screening || list[0].Placement.GPUs() != 1 || !d.job(id).Status.Screening {
		t.Fatalf("attempts %+v; want one on a GPU, screening", list)
	}
	d.wantDurable()
	d.clock.add(time.Minute)
	d.decide(screens{})
	e := exitOf(id, 1)
	e.Code, e.Yielded, e.Noticed = api.YieldCode, true, true
	d.exited(e)
	d.decide(screens{})
	list = d.Attempts()
	j := d.job(id)
	if len(list) != 1 || list[0].Screening || list[0].Placement.GPUs() != 4 || !j.Status.ProbationPassed || j.Status.Preemptions+j.Status.Moves != 0 {
		t.Errorf("attempts %+v, status %+v; want all four GPUs, proven, and no preemption", list, j.Status)
	}
	d.wantDurable()
}

func seat(gpu int) sched.Placement {
	p := on(gpu)
	p[0].Milli = sched.WholeGPU / 2
	return p
}

func steps(seconds float64) api.AgentReport {
	limits := goodput.Limits{Initial: 8, Max: 64, LocalMin: 1, LocalMax: 32}
	return api.AgentReport{Done: 1, Rate: 8 / seconds, Training: &api.Training{Limits: limits, Fixed: 8,
		Samples: []goodput.Sample{{Nodes: 1, GPUs: 1, Local: 8, Step: seconds}}}}
}

// TestSlowdown: the time of a step beside others over that alone, and nothing
// while that is not known.
func TestSlowdown(t *testing.T) {
	d := open(t)
	for _, name := range []string{"a", "b"} {
		s := submission(name, 1)
		s.Shareable = true
		d.submit(ann, s)
	}
	tell := func(id sched.JobID, seconds, want float64) {
		t.Helper()
		d.clock.add(30 * time.Second)
		d.report(id, 1, steps(seconds))
		if got := d.job(id).Status.Slowdown; math.Abs(got-want) > 1e-9 {
			t.Errorf("slowdown of %s is %g; want %g", id, got, want)
		}
	}
	d.decide(wants{"a-1": seat(0)})
	tell("a-1", 0.1, 0)
	tell("a-1", 0.1, 0)
	d.decide(wants{"a-1": seat(0), "b-2": seat(0)})
	tell("b-2", 0.4, 0) // never alone: nobody knows
	tell("a-1", 0.12, 0)
	d.wantDurable()
	tell("a-1", 0.15, 1.5) // the one before was measured in part alone
	tell("b-2", 0.4, 0)
	d.wantDurable()
	d.exited(exitOf("b-2", 1))
	tell("a-1", 0.12, 1.5)
	tell("a-1", 0.1, 1)
	d.wantDurable()
}

// TestHarmDecides: under antman the guest leaves a GPU where agents measure that it slows
// the job with the guarantee by more than harm, goes on there once that job has ended, and
// stays where it does no harm.
func TestHarmDecides(t *testing.T) {
	for _, tc := range []struct {
		beside float64 // seconds of a step of the job with the guarantee; 0.1 alone
		stays  bool
	}{{0.105, true}, {0.15, false}} {
		d := open(t, func(c *Config) { c.Node.GPUs = 1 })
		p := built(t, "antman")
		begin := func(name string) {
			s := submission(name, 1)
			s.Shareable, s.GPUUtil, s.GPUMemory = true, 0.3, 1<<30
			d.submit(ann, s)
			d.run(p)
		}
		tell := func(seconds float64) {
			for range 3 {
				d.clock.add(30 * time.Second)
				d.report("host-1", 1, steps(seconds))
			}
		}
		begin("host")
		tell(0.1)
		begin("guest")
		if got := d.job("guest-2").Status.Placement; got.GPUs() != 1 || got[0].Milli >= sched.WholeGPU/2 {
			t.Fatalf("the guest is at %v; want a small part of the GPU", got)
		}
		tell(tc.beside)
		d.run(p)
		if got := d.job("guest-2").Status.Phase; (got == sched.Running) != tc.stays {
			t.Errorf("steps take %g s beside the guest, 0.1 s alone: the guest is %s", tc.beside, got)
		}
		if got := d.job("host-1").Status; got.Phase != sched.Running || got.Starts != 1 {
			t.Errorf("the job with the guarantee is %s after %d starts", got.Phase, got.Starts)
		}
		d.exited(exitOf("host-1", 1))
		d.run(p)
		if got := d.job("guest-2").Status.Phase; got != sched.Running {
			t.Errorf("alone on the GPU the guest is %s", got)
		}
		d.wantDurable()
	}
}

// TestUseOverTime: the measurements of a job hold what its GPUs did when they came.
func TestUseOverTime(t *testing.T) {
	use := []*api.GPUUse{{Util: 0.5, MemoryUsed: 7 << 30}, {Util: 0.7, MemoryUsed: 9 << 30}, nil, nil}
	d := open(t, func(c *Config) { c.Use = func() []*api.GPUUse { return use } })
	id := d.submit(ann, submission("x", 2))
	d.decide(wants{id: on(0, 1)})
	d.Started(api.AttemptID{Job: id, Number: 1})
	for range 4 {
		d.clock.add(5 * time.Second)
		d.takeSample()
	}
	d.report(id, 1, api.AgentReport{Done: 1, Point: &api.Point{Batch: 8, Util: 0.1, Memory: 1}})
	points, err := d.Points(ann, id)
	if err != nil || len(points) != 1 || points[0].Util != 0.6 || points[0].Memory != 9<<30 {
		t.Errorf("points %+v, %v; want utilisation 0.6 and 9 GiB", points, err)
	}
}

// TestUse: what a job used of its GPU while it was alone there fills in what the
// next one of its kind does not say.
func TestUse(t *testing.T) {
	use := []*api.GPUUse{{Util: 0.4, MemoryUsed: 10 << 30}, nil, nil, nil}
	d := open(t, func(c *Config) { c.Use = func() []*api.GPUUse { return use } })
	s := submission("x", 1)
	s.Shareable = true
	d.submit(ann, s)
	other := d.submit(bob, s)
	d.decide(wants{"x-1": seat(0)})
	d.Started(api.AttemptID{Job: "x-1", Number: 1})
	for range 6 {
		d.takeSample()
	}
	d.decide(wants{"x-1": seat(0), other: seat(0)})
	use[0] = &api.GPUUse{Util: 1, MemoryUsed: 70 << 30}
	d.takeSample() // not its own any more
	d.exited(exitOf("x-1", 1))
	if got := d.job("x-1").Exit.Use; got == nil || math.Abs(got.Util-0.4) > 1e-9 || got.Memory != 10<<30 || got.Samples != 4 {
		t.Fatalf("use %+v; want 0.4 and 10 GiB of 4 samples", got)
	}
	if j := d.job(d.submit(ann, s)); math.Abs(j.GPUUtil-0.4) > 1e-9 || j.GPUMemory != 11<<30 {
		t.Errorf("the next one: %g, %d; want 0.4 and 11 GiB", j.GPUUtil, j.GPUMemory)
	}
	s.GPUUtil, s.GPUMemory = 0.7, 1
	if j := d.job(d.submit(ann, s)); j.GPUUtil != 0.7 || j.GPUMemory != 1 {
		t.Errorf("what the user said was replaced: %g, %d", j.GPUUtil, j.GPUMemory)
	}
	use = nil // no journal keeps what is measured now
	d.wantDurable()
}
