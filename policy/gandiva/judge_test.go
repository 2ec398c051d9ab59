// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"math/bits"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// judge watches a policy and fails the test when it breaks a promise.
type judge struct {
	sched.Policy
	Config
	fatalf func(format string, args ...any)
	// everyTurn says that GPUs are the only thing a job can wait for, so that the
	// that has waited longest for its turn must get it within two slices.
	everyTurn bool

	oldest sched.JobID // among those that wait for a turn
	since  time.Time   // it has been the oldest
}

func newJudge(p sched.Policy, fatalf func(string, ...any)) *judge {
	return &judge{Policy: p, Config: p.(*policy).Config, fatalf: fatalf}
}

func (g *judge) Schedule(s *sched.Snapshot) sched.Plan {
	plan := g.Policy.Schedule(s)
	held := g.pairs(s, plan)
	g.idle(s, plan, held)
	if g.everyTurn {
		g.turn(s, plan)
	}
	return plan
}

type gpu struct {
	node int32
	gpu  int
}

func each(p sched.Placement, visit func(gpu)) {
	for _, s := range p {
		for set := s.GPUs; set != 0; set &= set - 1 {
			visit(gpu{s.Node, bits.TrailingZeros64(uint64(set))})
		}
	}
}

// pairs checks that only jobs share a GPU that agree to it and that should do
// better together than in turns. It returns who holds which GPU.
func (g *judge) pairs(s *sched.Snapshot, plan sched.Plan) map[gpu]*sched.Job {
	held := map[gpu]*sched.Job{}
	for i, j := range s.Jobs {
		each(plan.Want[i], func(at gpu) {
			other := held[at]
			held[at] = j
			if other == nil {
				return
			}
			memory := s.Cluster.Nodes[at.node].GPUMemory
			switch {
			case !j.Shareable || !other.Shareable:
				g.fatalf("jobs %s and %s share GPU %v, and not both agree to that", j.ID, other.ID, at)
			case j.GPUUtil == 0 || other.GPUUtil == 0 || j.GPUUtil+other.GPUUtil > g.MaxPackedUtil:
				g.fatalf("jobs %s and %s share GPU %v with utilisations %g and %g", j.ID, other.ID, at, j.GPUUtil, other.GPUUtil)
			case memory > 0 && j.GPUMemory > 0 && other.GPUMemory > 0 && j.GPUMemory+other.GPUMemory > memory:
				g.fatalf("jobs %s and %s share GPU %v and need %d and %d of its %d bytes", j.ID, other.ID, at, j.GPUMemory, other.GPUMemory, memory)
			}
		})
	}
	return held
}

// idle checks that in the first half of a slice no suspended job waits for GPUs
// that nobody holds.
func (g *judge) idle(s *sched.Snapshot, plan sched.Plan, held map[gpu]*sched.Job) {
	end := s.Now.Truncate(g.Slice.D()).Add(g.Slice.D())
	if !g.everyTurn || end.Sub(s.Now) < g.Slice.D()/2 {
		return
	}
	for i, j := range s.Jobs {
		if plan.Why[i].Code != sched.TurnWait || j.Phase != sched.Pending || len(j.Suspended) == 0 {
			continue
		}
		busy := false
		each(j.Suspended, func(at gpu) { busy = busy || held[at] != nil })
		if !busy {
			g.fatalf("job %s waits for its turn on %s, and nobody is there", j.ID, j.Suspended.Text(s.Cluster))
		}
	}
}

// turn checks that nobody is the one who has waited longest for two slices.
func (g *judge) turn(s *sched.Snapshot, plan sched.Plan) {
	var oldest *sched.Job
	var since time.Time // it has waited
	for i, j := range s.Jobs {
		if plan.Why[i].Code != sched.TurnWait || j.Phase != sched.Pending {
			continue
		}
		due := j.Since
		if len(j.Suspended) == 0 {
			due = plan.Notes[i].Since // when it found GPUs to share
		}
		if oldest == nil || due.Before(since) || (due.Equal(since) && j.Seq < oldest.Seq) {
			oldest, since = j, due
		}
	}
	switch {
	case oldest == nil:
		g.oldest = ""
	case oldest.ID != g.oldest:
		g.oldest, g.since = oldest.ID, s.Now
	case s.Now.Sub(g.since) > 2*g.Slice.D():
		g.fatalf("job %s (%d GPUs) has waited longest since %s and did not get its turn by %s", oldest.ID, oldest.GPUs, g.since, s.Now)
	}
}
