// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Ends returns when a running job is expected to end: by its rate and the work
// that is left, else by its estimate. One that has run for longer than its
// estimate says is taken to need twice as long in all, then four times, and so
// on, so that a wrong estimate becomes less wrong and the answer does not change
// with every moment that passes. A job without an estimate is treated as if it
// had been given unknown.
func Ends(j *sched.Job, now time.Time, unknown time.Duration) time.Time {
	if j.Estimate > 0 {
		if j.Work > 0 && j.Rate > 0 {
			if left := j.Work - j.DoneBy(now); left > 0 {
				return now.Add(Seconds(left / j.Rate))
			}
		} else if left, _ := j.Remaining(now); left > 0 {
			return now.Add(left)
		}
		unknown = j.Estimate.D()
	}
	ran, total := j.RanBy(now), max(unknown, time.Minute)
	for total <= ran && total < century {
		total *= 2
	}
	return now.Add(total - ran)
}

// Forecast knows which GPUs come free when, if nothing new is started.
type Forecast struct {
	now  time.Time
	free *Free
	ends []end // by time
}

type end struct {
	in   time.Duration // from now
	job  *sched.Job
	held sched.Placement
}

// NewForecast looks ahead from s. Free is a view in which the placements of held,
// parallel to s.Jobs, are taken; unknown is the run time of a job without an
// estimate.
func NewForecast(s *sched.Snapshot, held []sched.Placement, free *Free, unknown time.Duration) *Forecast {
	f := &Forecast{now: s.Now, free: free}
	for i, j := range s.Jobs {
		if len(held[i]) > 0 {
			f.ends = append(f.ends, end{Ends(j, s.Now, unknown).Sub(s.Now), j, held[i]})
		}
	}
	slices.SortFunc(f.ends, func(a, b end) int {
		if a.in != b.in {
			return cmp.Compare(a.in, b.in)
		}
		return cmp.Compare(a.job.Seq, b.job.Seq)
	})
	return f
}

// Earliest returns the earliest time at which the strategy finds n GPUs for the
// job, and which; ok is false if it does not even when all others have ended.
// The view is left as it was.
//
// It assumes that what fits still fits when more is free, and so needs few trial
// placements, however many jobs run.
func (f *Forecast) Earliest(j *sched.Job, n int, find Strategy) (at time.Time, p sched.Placement, ok bool) {
	begin := f.free.Mark()
	defer func() { f.free.Rollback(begin) }()
	trial := func() (sched.Placement, bool) {
		if f.free.Total() < n {
			return nil, false
		}
		mark := f.free.Mark()
		p, ok := find(f.free, j, n)
		f.free.Rollback(mark)
		return slices.Clone(p), ok
	}
	if p, ok = trial(); ok {
		return f.now, p, true
	}
	// It does not fit once ends[:fails] have ended; it does after ends[:fits],
	// if fits has been tried. The view is that after ends[:fails].
	fails, fits := 0, len(f.ends)+1
	for fits-fails > 1 {
		middle := (fails + fits) / 2
		mark := f.free.Mark()
		for _, e := range f.ends[fails:middle] {
			f.free.Release(e.job, e.held)
		}
		if q, found := trial(); found {
			p, fits = q, middle
			f.free.Rollback(mark)
		} else {
			fails = middle
		}
	}
	if fits > len(f.ends) {
		return time.Time{}, nil, false
	}
	return f.now.Add(f.ends[fits-1].in), p, true
}

// Moved says that the view now has a job in another place.
func (f *Forecast) Moved(j *sched.Job, to sched.Placement) {
	for i := range f.ends {
		if f.ends[i].job == j {
			f.ends[i].held = to
		}
	}
}

// Clear returns when every GPU of a placement will be free.
func (f *Forecast) Clear(p sched.Placement) time.Time {
	at := f.now
	for _, e := range f.ends {
		if overlap(e.held, p) {
			at = f.now.Add(e.in) // they are in order
		}
	}
	return at
}

func overlap(p, q sched.Placement) bool {
	for _, a := range p {
		for _, b := range q {
			if a.Node == b.Node && a.GPUs&b.GPUs != 0 {
				return true
			}
		}
	}
	return false
}
