// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package autoscale

import (
	"fmt"
	"math"

	"github.com/fairway-gpu/fairway/sched"
)

// Scaler decides about the nodes of one cluster. It keeps the results of its last
// checks.
type Scaler struct {
	c      Config
	window []float64 // rule Utility: of the last checks, oldest first
	grows  bool      // the other rules: the cluster is growing until about L is left
}

// New returns a scaler.
func New(c Config) (*Scaler, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("autoscale: %w", err)
	}
	return &Scaler{c: c}, nil
}

// Desired checks the cluster and returns how many nodes it should have. The nodes of
// the snapshot that are not Down exist now; nodes is how many are paid for, including
// those that are starting. Call it at equal intervals.
func (s *Scaler) Desired(snap *sched.Snapshot, nodes int) int {
	b := bounds{low: min(s.c.Max, max(s.c.Min, needed(snap))), now: nodes}
	if s.c.Rule == Utility {
		nodes = s.band(snap, b)
	} else {
		nodes = s.perGPU(snap, b)
	}
	return min(s.c.Max, max(b.low, nodes))
}

// bounds are numbers of nodes: the fewest allowed, the current ones, and the most
// that are useful.
type bounds struct{ low, now, high int }

// forecast predicts the utility of other numbers of nodes, and fills in the most that
// are useful.
func (s *Scaler) forecast(snap *sched.Snapshot, b *bounds) *forecast {
	f := newForecast(snap, s.c.Rule, s.c.Max)
	b.high = min(s.c.Max, max(b.low, f.usable()))
	return f
}

// band keeps the mean utility of the window within its bounds.
func (s *Scaler) band(snap *sched.Snapshot, b bounds) int {
	s.window = append(s.window, UtilityOf(snap))
	if over := len(s.window) - s.c.Window; over > 0 {
		s.window = append(s.window[:0], s.window[over:]...)
	}
	if len(s.window) < s.c.Window {
		return b.now
	}
	mean := 0.0
	for _, u := range s.window {
		mean += u / float64(len(s.window))
	}
	fall, rise := mean < s.c.Low && b.now > b.low, mean > s.c.High && b.now < s.c.Max
	if !fall && !rise {
		return b.now
	}
	s.window = s.window[:0]
	f := s.forecast(snap, &b)
	// Whatever the prediction, the cluster never scales against the measurement.
	if fall {
		b.high = min(b.high, b.now)
	} else {
		b.low, b.high = b.now, max(b.now, b.high)
	}
	return f.nearest((s.c.Low+s.c.High)/2, b)
}

// nearest returns, by bisection, the number of nodes between b.low and b.high whose
// predicted utility is nearest to the goal. On a tie, it is the most nodes if they
// are used well enough, else the fewest.
func (f *forecast) nearest(goal float64, b bounds) int {
	// The utility is at least the goal at below and less at above, unless these
	// are still the bounds.
	below, above := b.low, b.high
	for above-below > 1 {
		if mid := below + (above-below)/2; f.utility(mid) >= goal {
			below = mid
		} else {
			above = mid
		}
	}
	if u := f.utility(above); u >= goal || goal-u < math.Abs(f.utility(below)-goal) {
		return above
	}
	return below
}

// perGPU follows the speedup per GPU of the running jobs, relative to one GPU alone.
func (s *Scaler) perGPU(snap *sched.Snapshot, b bounds) int {
	if len(snap.Jobs) == 0 {
		return b.low
	}
	f := s.forecast(snap, &b)
	now := heldIn(snap, s.c.Rule)
	b.now = min(b.now, b.high) // no job can use more
	switch share := now.perGPU(); {
	case now.gpus == 0: // all jobs wait: nothing is known
		return b.now
	case share > s.c.U || s.grows && share >= s.c.L:
		n := f.around(s.c, bounds{low: b.now, high: b.high})
		// A job that may not take all of it at once grows later.
		s.grows = n == b.high && n < s.c.Max
		return n
	case share < s.c.least():
		b.now = f.around(s.c, bounds{low: b.low, high: b.now})
	}
	s.grows = false
	return b.now
}

// around returns the number of nodes between b.low and b.high whose predicted utility
// is about L: the most that reach it, or one more if that is nearer and would not be
// released at once; b.low if none reach it.
func (f *forecast) around(c Config, b bounds) int {
	n := b.high
	for n > b.low && f.utility(n) < c.L {
		n--
	}
	if n < b.high {
		more := f.utility(n + 1)
		if more >= c.least() && c.L-more < f.utility(n)-c.L {
			n++
		}
	}
	return n
}
