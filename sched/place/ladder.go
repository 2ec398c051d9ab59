// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Ladder is Philly's relaxation of locality: a job begins by asking for the
// fewest nodes in one rack, and accepts one step wider each time it has waited
// through a rung.
type Ladder struct {
	Rack time.Duration // wait after which any nodes of one rack will do
	Any  time.Duration // wait after which any GPUs will do
}

// Rung returns what a job accepts after a wait: SameMachine stands for the
// fewest nodes possible, SameRack for any nodes of one rack, CrossRack for
// anything.
func (l Ladder) Rung(waited time.Duration) sched.Level {
	switch {
	case waited >= l.Any:
		return sched.CrossRack
	case waited >= l.Rack:
		return sched.SameRack
	}
	return sched.SameMachine
}

// Place takes n GPUs at the given rung.
func (l Ladder) Place(f *Free, j *sched.Job, n int, rung sched.Level) (sched.Placement, bool) {
	if rung > sched.SameMachine {
		return f.Within(j, n, rung)
	}
	return f.find(j, n, limits{level: sched.SameRack, strict: true})
}

// Patience is how long a job waits on each rung of its ladder: a part of its
// expected run time, because a long job pays for a bad place for longer.
type Patience struct {
	Part        float64       // of the expected run time
	Least, Most time.Duration // bounds of the wait on one rung
	Unknown     time.Duration // run time of a job without an estimate
}

// StandardPatience waits for a tenth of the run time on each rung. Two servers
// instead of one cost a job about a sixth of its speed (Philly, table 4), so a
// longer wait would not pay for most jobs. Nobody waits for less than a minute,
// about the cost of a restart, or for more than two hours.
func StandardPatience() Patience {
	return Patience{Part: 0.1, Least: time.Minute, Most: 2 * time.Hour, Unknown: 2 * time.Hour}
}

// Budget returns how long a job waits on each rung.
func (p Patience) Budget(j *sched.Job) time.Duration {
	run := j.Estimate.D()
	if run <= 0 {
		run = p.Unknown
	}
	return min(max(Seconds(p.Part*run.Seconds()), p.Least), p.Most)
}

// Ladder returns the ladder of a job.
func (p Patience) Ladder(j *sched.Job) Ladder {
	budget := p.Budget(j)
	return Ladder{Rack: budget, Any: 2 * budget}
}

// ladderStrategy places jobs by their ladders at one moment.
type ladderStrategy struct {
	Patience
	now time.Time
}

// waited returns how long a job has waited for its next start. One that runs,
// and has to go elsewhere, begins anew.
func (c ladderStrategy) waited(j *sched.Job) time.Duration {
	if j.Phase != sched.Pending {
		return 0
	}
	return c.now.Sub(j.Since)
}

func (c ladderStrategy) rung(j *sched.Job) sched.Level { return c.Ladder(j).Rung(c.waited(j)) }

// place is the Strategy. A gang that no rack could ever hold asks for the fewest
// nodes of all racks on the rungs on which others ask for one rack.
func (c ladderStrategy) place(f *Free, j *sched.Job, n int) (sched.Placement, bool) {
	rung := c.rung(j)
	if rung < sched.CrossRack && f.Ever(j, n, sched.SameRack) < n {
		return FewestNodes(f, j, n)
	}
	return Ladder{}.Place(f, j, n, rung)
}

// why explains a failure of place: how near the best place comes to what the
// rung asks for, and when the job will be content with less.
func (c ladderStrategy) why(f *Free, j *sched.Job, n int) sched.Reason {
	rung, ladder := c.rung(j), c.Ladder(j)
	accepts := func(l sched.Level) bool { return j.MaxSpread == sched.NoLevel || j.MaxSpread >= l }
	var next time.Duration // wait at which it is content with less; 0: never
	level, strict := rung, rung == sched.SameMachine
	switch {
	case rung == sched.CrossRack:
	case f.Ever(j, n, sched.SameRack) < n && accepts(sched.CrossRack):
		level, strict, next = sched.CrossRack, true, ladder.Any
	case rung == sched.SameRack && accepts(sched.CrossRack):
		next = ladder.Any
	case rung == sched.SameMachine && accepts(sched.SameRack):
		next = ladder.Rack
	}
	r := f.Why(j, n, level)
	if r.Code != sched.Fragmented {
		return r
	}
	if strict && r.Level >= sched.SameRack {
		r.Have, r.Where = f.onFewest(j, n, r.Level)
	}
	if next > 0 && j.Phase == sched.Pending {
		r.Until = j.Since.Add(next)
	}
	return r
}

// onFewest returns the most GPUs that are free on as few nodes as n of them
// would need within the level, and 1 + the index of their rack if it must be one.
func (f *Free) onFewest(j *sched.Job, n int, level sched.Level) (gpus int, where int32) {
	f.types(j, func(t int) bool {
		nodes := f.nodesNeeded(j, n, t, level)
		if level > sched.SameRack {
			gpus = max(gpus, f.typeHist[t].most(nodes))
			return false
		}
		for r := range f.c.Racks {
			if sum := f.inRack(r, t).most(nodes); sum > gpus {
				gpus, where = sum, int32(r+1)
			}
		}
		return false
	})
	return gpus, where
}

// most returns the sum of the free GPUs of the nodes with the most of them.
func (h histogram) most(nodes int) (gpus int) {
	for k := len(h) - 1; k > 0 && nodes > 0; k-- {
		full := min(int(h[k]), nodes)
		gpus += full * k
		nodes -= full
	}
	return gpus
}
