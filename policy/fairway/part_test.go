// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestPartsAddUp: decisions that divide a part of the cluster each are, after some events,
// as good as decisions that divide all of it.
func TestPartsAddUp(t *testing.T) {
	t.Parallel()
	const events = 30
	after := func(whole int) float64 {
		c := Default()
		c.Whole, c.Share = whole, false
		p := newPolicy(t, c)
		size := size{500, 96, 8}
		w := crowd(t, p, size, elastic)
		rng := rand.New(rand.NewPCG(3, 0))
		parts := 0
		for n := range events {
			w.Now = w.Now.Add(20 * time.Second)
			happen(t, w, rng, n, elastic)
			s := w.State.Snapshot(w.Now)
			world := p.(*policy).weigh(s)
			if world.leave(world.fix()) != nil {
				parts++
			}
			_, _, err := w.Decide(p)
			must(t, err)
		}
		if whole == 0 && parts < events/2 {
			t.Errorf("%d of %d decisions divided a part of the cluster; want most of them", parts, events)
		}
		return worth(p.(*policy), w)
	}
	whole, parts := after(math.MaxInt), after(0)
	t.Logf("worth of all jobs: %.4g if every decision divides the whole cluster, %.4g if it divides a part", whole, parts)
	if parts < 0.97*whole {
		t.Errorf("the jobs are worth %.4g; want at least 0.97 of %.4g", parts, whole)
	}
}

// worth returns the sum of what the jobs of a world have, by the policy's objective.
func worth(p *policy, w *policytest.World) float64 {
	p.divider.Begin()
	world := p.weigh(w.State.Snapshot(w.Now))
	sum := 0.0
	for i, j := range world.s.Jobs {
		if v := &world.jobs[i]; j.Phase == sched.Running {
			sum += v.weight * math.Pow(world.speed(j, v.one, j.Placement.GPUs()), p.Power)
		}
	}
	return sum
}
