// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// halves puts every job on half of the GPUs of the first node, GPU 0 first.
type halves struct{ gpus sched.GPUSet }

func (h halves) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i := range s.Jobs {
		plan.Want[i] = sched.Placement{{Milli: 500, GPUs: h.gpus}}
	}
	return plan
}

// twoJobs runs for 1000 s alone each, the second from half time on.
func twoJobs(util, predicted float64) *Workload {
	start := time.Unix(1e9, 0).UTC()
	w := &Workload{Name: "two", Start: start}
	for i, id := range []sched.JobID{"a", "b"} {
		w.Work = append(w.Work, Work{
			Spec: sched.Spec{
				ID: id, Submitted: start.Add(time.Duration(i) * 500 * time.Second), GPUs: 1,
				Shareable: true, GPUUtil: predicted, GPUMemory: 1 << 30,
			},
			RunTime: sched.Duration(1000 * time.Second), TrueUtil: util,
		})
	}
	return w
}

func shareResult(t *testing.T, w *Workload, c Config) *Result {
	t.Helper()
	var err error
	if c.Cluster, err = sched.NewCluster([]sched.Node{{Name: "n", GPUs: 2, Type: "h200"}}); err != nil {
		t.Fatal(err)
	}
	if c.Zoo, err = zoo.Builtin(); err != nil {
		t.Fatal(err)
	}
	if c.Policy == nil {
		c.Policy = halves{1}
	}
	res, _, err := Run(c, w)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

// Two jobs on one GPU slow each other by the published curve while both run:
// the other GPU is idle.
func TestSharedSpeed(t *testing.T) {
	const util = 0.8
	slow := 1 / (1 - 0.335*(2*util-0.9))
	res := shareResult(t, twoJobs(util, 0), Config{})
	// a has half of its work left when b comes.
	endA := 500 + 500*slow
	endB := endA + (1000 - 500)
	if !near(res.Jobs[0].End, endA) || !near(res.Jobs[1].End, endB) {
		t.Errorf("the jobs end at %g and %g; want %g and %g", res.Jobs[0].End, res.Jobs[1].End, endA, endB)
	}
	s := res.Sharing
	if s == nil || s.Jobs != 2 || !near(s.Slowdown, slow) || !near(s.Part, 2*500*slow/(endA+endB-500)) || s.Over != 1 {
		t.Errorf("sharing %+v; want both jobs, slowed by %g, always by more than 15 %%", s, slow)
	}
	// The GPU is busy for the same time as if the two had it one after the other, as
	// long as that is possible: here both together want 2 x 0.8 / slow of it, more
	// than there is.
	busy := 500*util + 500*slow*min(1, 2*util/slow) + 500*util
	if !near(res.GPUUtil, busy/(2*endB)) || !near(res.GPUsHeld, 0.5) {
		t.Errorf("utilisation %g, held %g; want %g and half of the two GPUs", res.GPUUtil, res.GPUsHeld, busy/(2*endB))
	}
}

// The truth follows from the true utilisation, whatever was predicted, and from
// the model of the GPU's type if asked for.
func TestSharedTruth(t *testing.T) {
	light := shareResult(t, twoJobs(0.2, 0.9), Config{})
	if end := light.Jobs[1].End; !near(end, 1500) {
		t.Errorf("two light jobs end at %g; want 1500, as alone", end)
	}
	m, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	want := m.Slowdown(interfere.TimeSlice, interfere.Load{Util: 0.9}, []interfere.Load{{Util: 0.9}}).Mean
	heavy := shareResult(t, twoJobs(0.9, 0.1), Config{Sharing: &Sharing{}})
	if got := heavy.Sharing.Slowdown; !near(got, want) {
		t.Errorf("slowdown %g; want that of the model of the type, %g", got, want)
	}
	given := shareResult(t, twoJobs(0.9, 0.1), Config{Sharing: &Sharing{Model: interfere.Published()}})
	if got, want := given.Sharing.Slowdown, 1/(1-0.335*0.9); !near(got, want) {
		t.Errorf("slowdown %g; want that of the model given, %g", got, want)
	}
}

// With scatter, the same seed gives the same slowdown and another seed another.
func TestSharedScatter(t *testing.T) {
	run := func(seed uint64) float64 {
		return shareResult(t, twoJobs(0.9, 0.9), Config{Seed: seed, Sharing: &Sharing{Model: interfere.Published(), Scatter: true}}).Sharing.Slowdown
	}
	if a, b := run(1), run(1); a != b {
		t.Errorf("the same seed gives %g and %g", a, b)
	}
	if a, b := run(1), run(2); a == b {
		t.Errorf("two seeds give %g", a)
	}
}

// watchful notes what jobs report.
type watchful struct {
	halves
	seen map[sched.JobID]float64
}

func (w watchful) Schedule(s *sched.Snapshot) sched.Plan {
	for _, j := range s.Jobs {
		w.seen[j.ID] = max(w.seen[j.ID], j.Slowdown)
	}
	plan := w.halves.Schedule(s)
	if len(s.Jobs) > 0 {
		plan.WakeBy(s.Now, s.Now.Add(200*time.Second))
	}
	return plan
}

// The policy sees the slowdown of sharing jobs.
func TestSharedReports(t *testing.T) {
	p := watchful{halves{1}, map[sched.JobID]float64{}}
	res := shareResult(t, twoJobs(0.9, 0.9), Config{Policy: p})
	if want := res.Sharing.Slowdown; !near(p.seen["b"], want) {
		t.Errorf("reported %v; want %g", p.seen, want)
	}
}

// A job of several GPUs goes at the pace of the worst of them.
func TestSharedGang(t *testing.T) {
	w := twoJobs(0.8, 0.8)
	w.Work[0].GPUs = 2
	res := shareResult(t, w, Config{Policy: gang{}})
	slow := 1 / (1 - 0.335*(1.6-0.9))
	if end := res.Jobs[0].End; !near(end, 500+500*slow) {
		t.Errorf("the gang ends at %g; want %g", end, 500+500*slow)
	}
}

// gang gives the first job both GPUs and the second one a half of one.
type gang struct{}

func (gang) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		plan.Want[i] = sched.Placement{{Milli: 500, GPUs: sched.FirstGPUs(j.GPUs)}}
	}
	return plan
}
