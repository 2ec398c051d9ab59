// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"cmp"
	"time"

	"github.com/fairway-gpu/fairway/policy/division"
	"github.com/fairway-gpu/fairway/sched"
)

// unknown is the work, in seconds, that a job is taken to have left on each GPU of its
// gang if nothing is known of it.
const unknown = 300

// left returns the work that a job is expected to have left, in seconds on one GPU: by
// what its agent has announced and reports, by its estimate, which comes from its user
// or from similar jobs, or by what it has had so far. What is announced may be wrong too.
//
// Of a job without a model of its speed, the part of its work that it reports to be done is
// that of its estimate, until it has run for twice as long. Beyond, the estimate is wrong:
// a job of a day whose like ran for a second would rank first until it ends, and no move
// would seem to pay off for it.
//
// Estimates that a job outlives, and service without an estimate, double from step to
// step rather than grow with time: otherwise every moment would change the order of
// jobs, and they would preempt each other without end. That a job without an estimate
// has as much left as it has had is what heavy-tailed lengths imply (Harchol-Balter and
// Downey, 1997).
func (w *world) left(j *sched.Job, one *division.Curve) float64 {
	if unit := unit(j, one); unit > 0 {
		if whole := w.whole(j, unit); whole > 0 {
			done := j.DoneBy(w.s.Now) * unit
			return max(1, outlived(whole, done)-done)
		}
	}
	size := w.speed(j, one, j.GPUs)
	if j.Estimate > 0 {
		estimate, ran := j.Estimate.D().Seconds(), j.RanBy(w.s.Now).Seconds()
		if left, _ := j.Remaining(w.s.Now); j.Work > 0 && left > 0 && ran < 2*estimate {
			return max(1, left.Seconds()*size)
		}
		return max(1, (outlived(estimate, ran)-ran)*size)
	}
	return outlived(unknown*size, j.AttainedBy(w.s.Now))
}

// whole returns the work that a job with a model of its speed is expected to have in all, in
// seconds on one GPU, of which a unit of its work takes so many; 0: nobody knows. What it
// announces counts, as far as that can be believed.
func (w *world) whole(j *sched.Job, unit float64) float64 {
	announced, typical := j.Announced(), j.Perf.Typical
	switch {
	case announced == 0:
		return typical * unit
	case typical > 0 && w.doubts(j):
		const off = 2 // similar jobs differ by as much
		return max(typical/off, min(announced, typical*off)) * unit
	}
	return credible(j, announced*unit)
}

// doubts reports whether nobody can vouch for the length that a job announces: it announces
// none, or jobs that finished were off theirs by more than a quarter on average.
func (w *world) doubts(j *sched.Job) bool {
	const off = 0.25
	return j.Announced() == 0 || w.s.Announcements.Off > off
}

// unit returns the seconds on one GPU of a unit of the work that a job's agent announces and
// reports; 0: nobody knows.
func unit(j *sched.Job, one *division.Curve) float64 {
	if one == nil || !j.Perf.Runs() || !(one.One() > 0) {
		return 0
	}
	return cmp.Or(j.Perf.Examples, float64(j.Perf.Limits.Initial)) / one.One()
}

// done returns the work that a job has done, in seconds on one GPU: by what its agent
// reports, else its GPU time.
func (w *world) done(j *sched.Job, one *division.Curve) float64 {
	if done := j.DoneBy(w.s.Now) * unit(j, one); done > 0 && (j.Announced() > 0 || j.Perf.Examples > 0) {
		return done
	}
	return j.AttainedBy(w.s.Now)
}

// credible returns the work that a job is believed to have in all, in seconds on one GPU, of
// what its agent has announced: no more than twice the GPU time that similar jobs took, by its
// estimate, and no less than an eighth of it, as GPUs are worth less the more a job has.
func credible(j *sched.Job, announced float64) float64 {
	past := j.Estimate.D().Seconds() * float64(j.GPUs)
	if past == 0 {
		return announced
	}
	return max(past/8, min(announced, 2*past))
}

// outlived returns what is expected in all of a job that has had so much: the estimate,
// or its double, and so on, until it is more than that.
func outlived(estimate, had float64) float64 {
	for estimate <= had {
		estimate *= 2
	}
	return estimate
}

// speed returns how much faster a job is on n GPUs, close together, than on one.
func (w *world) speed(j *sched.Job, one *division.Curve, n int) float64 {
	if one != nil {
		if g := one.One(); g > 0 {
			if at := one.Goodput(division.Local, n); at > 0 {
				return at / g
			}
		}
	}
	return float64(max(1, n))
}

// restart returns what a change of GPUs costs a job, in seconds; for one that is
// suspended instead, what it costs to leave its GPUs and to come back.
func (p *policy) restart(j *sched.Job) float64 {
	if p.Restart == 0 {
		return 0
	}
	if j.Tied() {
		if out, back := j.SuspendCost(); out+back > 0 {
			return (out + back).Seconds()
		}
	}
	if j.Perf != nil && j.Perf.Restart > 0 {
		return j.Perf.Restart
	}
	return p.Restart.D().Seconds()
}

// horizon returns for how long a change of GPUs is expected to last, in seconds, at a
// speed over one GPU: until the job ends, or until the next change. A job that was
// changed often gets a short horizon, and settles.
func (p *policy) horizon(j *sched.Job, now time.Time, left, speed float64) float64 {
	h := left / max(speed, 1e-9)
	if j.Phase == sched.Running {
		h = min(h, (p.Settle.D()+j.RanBy(now)).Seconds()/float64(1+j.Starts))
	}
	return h
}
