// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"testing"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/interfere/learn"
	"github.com/fairway-gpu/fairway/sched"
)

// slowPair returns a measured time-sliced pair in which both jobs are slowed.
func slowPair(t *testing.T) learn.Pair {
	t.Helper()
	pairs, err := learn.Builtin("h200")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		if min(p.Sides[0].Slowdown, p.Sides[1].Slowdown) > 1.3 && p.Mode == interfere.TimeSlice {
			return p
		}
	}
	t.Fatal("no measured pair slows both of its jobs by 30 %")
	panic("unreachable")
}

// training makes the jobs of twoJobs train the models of a pair.
func training(p learn.Pair) *Workload {
	w := twoJobs(0.5, 0.5)
	for i, s := range p.Sides {
		w.Work[i].Model, w.Work[i].BatchSize, w.Work[i].TrueUtil = s.Model, s.Batch, s.Load.Util
	}
	return w
}

// Two jobs that were measured together are slowed by what was measured; if one
// has another batch size, the model says how much, and the result counts that.
func TestMeasuredPair(t *testing.T) {
	p := slowPair(t)
	a, b := p.Sides[0].Slowdown, p.Sides[1].Slowdown
	scattered := Config{Sharing: &Sharing{Scatter: true}}
	res := shareResult(t, training(p), scattered)
	endA := 500 + 500*a
	endB := endA + 1000 - 500*a/b
	if !near(res.Jobs[0].End, endA) || !near(res.Jobs[1].End, endB) {
		t.Errorf("the jobs end at %g and %g; want %g and %g, as slowed by %g and %g", res.Jobs[0].End, res.Jobs[1].End, endA, endB, a, b)
	}
	if s := res.Sharing; s.Measured != 2 || s.Modelled != 0 {
		t.Errorf("%d measured, %d modelled; want both measured", s.Measured, s.Modelled)
	}
	w := training(p)
	w.Work[1].BatchSize += 1000
	res = shareResult(t, w, scattered)
	if s := res.Sharing; s.Measured != 0 || s.Modelled != 2 {
		t.Errorf("%d measured, %d modelled; want none measured", s.Measured, s.Modelled)
	}
	if again := shareResult(t, w, scattered); again.Sharing.Slowdown != res.Sharing.Slowdown {
		t.Errorf("slowed by %g and by %g in the same run", res.Sharing.Slowdown, again.Sharing.Slowdown)
	}
}

// A pair that was not measured differs from the model as similar pairs do.
func TestRatioNear(t *testing.T) {
	table := &pairTable{}
	for i := range 20 {
		table.off = append(table.off, deviation{0.2, 0.2 + 0.001*float64(i), 1 + float64(i)}, deviation{0.9, 0.9, 100})
	}
	seen := map[float64]bool{}
	for seed := range uint64(1000) {
		seen[table.ratioNear(0.2, 0.2, seed)] = true
	}
	for i := range 20 {
		if ratio := 1 + float64(i); seen[ratio] != (i < nearest) {
			t.Errorf("the deviation of neighbour %d is drawn: %v; want only the %d nearest", i, seen[ratio], nearest)
		}
	}
	if seen[100] {
		t.Error("a pair far away is drawn")
	}
}

// uneven gives the first job most of a GPU and the others the rest.
type uneven struct{}

func (uneven) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		plan.Want[i] = sched.Placement{{Milli: 200, GPUs: 1}}
		if j.ID == "a" {
			plan.Want[i][0].Milli = 800
		}
	}
	return plan
}

// With a coordinator, a guest gets the time that the host leaves, and the host is
// slowed by 4 % at most; without one both are slowed alike.
func TestCoordinator(t *testing.T) {
	const util = 0.6
	res := shareResult(t, twoJobs(util, util), Config{Policy: uneven{}, Coordinator: true})
	if end := res.Jobs[0].End; end > 500+500*1.04 {
		t.Errorf("the host ends at %g; want at most 4 %% later than alone", end)
	}
	host := res.Jobs[0].End - 500
	if want := 500 + host + 1000 - host*(1-util)/util; math.Abs(res.Jobs[1].End-want) > 1 {
		t.Errorf("the guest ends at %g; want %g: beside the host it gets %.2f of its speed", res.Jobs[1].End, want, (1-util)/util)
	}
	without := shareResult(t, twoJobs(util, util), Config{Policy: uneven{}})
	if slow := 1 / (1 - 0.335*(2*util-0.9)); !near(without.Jobs[0].End, 500+500*slow) {
		t.Errorf("without a coordinator the host ends at %g; want %g", without.Jobs[0].End, 500+500*slow)
	}
	harmed := 0
	r := &run{Config: Config{Coordinator: true}}
	jobs := []*job{{work: &Work{}}, {work: &Work{}}}
	jobs[0].setting.placement, jobs[1].setting.placement = sched.Placement{{Milli: 800}}, sched.Placement{{Milli: 200}}
	for seed := range uint64(10_000) {
		s := r.coordinated(jobs[0], jobs[1:], 2, mix(seed, 7))
		if s > 1.04 {
			t.Fatalf("a host is slowed by %g", s)
		}
		if s > 1 {
			harmed++
		}
	}
	if harmed < 60 || harmed > 150 {
		t.Errorf("%d of 10,000 hosts are slowed; want about 105", harmed)
	}
}
