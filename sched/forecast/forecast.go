// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package forecast tells when waiting jobs will start. It plays the policy forward
// from a snapshot, many times, each time with other run times drawn for the jobs, another
// growth of their noise scale and other jobs submitted later, and returns the quantiles of
// what comes out. A Ledger compares forecasts with what came, and corrects the next ones.
// Coarse looks ahead where the queue is too long for that. The package is pure: its random
// numbers come from a seed.
//
// # What it leaves out
//
//   - nothing fails: a job that will be retried runs for as long as all its attempts;
//   - programs that bid are not asked;
//   - a job changes its speed with its size as its agent's model says, else in
//     proportion.
package forecast

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Config says how to look ahead.
type Config struct {
	Policy sched.Policy // not in use by anybody else
	// Future draws one future: how long each job still runs, at the size it has or asks
	// for; ok is false if nothing is known about it.
	Future func(r *rand.Rand) Left
	// Arrive, if set, draws the jobs that are submitted in one future.
	Arrive func(r *rand.Rand) Arrivals
	// Preempts says that the policy stops or resizes running jobs for those that wait.
	Preempts bool
	// Restart is how long a job makes no progress after it was started again.
	Restart time.Duration
	Seed    uint64
	Samples int // number of futures; 0: Samples
	// Most bounds the cost: the jobs that decisions look at, over all samples. 0:
	// MostJobs.
	Most int
	Stop func() bool // if set, asked between decisions: true ends the forecast
}

// Left returns how long a job still runs.
type Left func(j *sched.Job) (left time.Duration, ok bool)

// Arrivals returns the jobs that are submitted, one after the other; ok is false after
// the last.
type Arrivals func() (spec sched.Spec, ok bool)

const (
	// Samples is the default number of futures. Of that many, the second and the last
	// but one enclose 90 % of outcomes.
	Samples = 39
	// Fewest is the smallest number of samples that gives such a range: that of all.
	Fewest = 19
	// MostJobs is the default of Config.Most.
	MostJobs = 4_000_000
)

// Range is when a job is expected to start: in 9 of 10 cases between Early and Late. A
// time is zero if it lies beyond what was looked at.
type Range struct {
	Early, Middle, Late time.Time
	// Error is by which part of the wait Middle is expected to be wrong: in half of the
	// futures by less.
	Error float64
	// clockEarly and clockLate say that futures agree on an end to come, as run times never do:
	// it is the clock's, such as the end of the longest wait, and no part of a spread.
	clockEarly, clockLate bool
}

// roughError is the error from which Middle is no expected start, only the middle of a range.
const roughError = 0.2

// Rough reports whether run times are known so little that Middle is only a rough guess.
func (r Range) Rough() bool { return r.Error >= roughError }

// ErrStopped says that Config.Stop ended a forecast before it had enough futures.
var ErrStopped = errors.New("stopped before enough futures were played")

// Starts forecasts the start of the pending jobs that are asked for; nil: of all. A job
// that is not in the result has no forecast: it waits for one about which nothing is
// known, or the forecast would cost too much.
func Starts(s *sched.Snapshot, c Config, jobs ...sched.JobID) (map[sched.JobID]Range, error) {
	if len(jobs) == 0 {
		for _, j := range s.Jobs {
			if j.Phase == sched.Pending && !j.Paused {
				jobs = append(jobs, j.ID)
			}
		}
	}
	c.fill()
	waits := map[sched.JobID][]float64{}
	done := 0
	for ; done < c.Samples; done++ {
		w := newWorld(c, s, done)
		ok, err := w.run(jobs, c.Most/c.Samples)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		for _, id := range jobs {
			wait := math.Inf(1)
			if at, ok := w.started[id]; ok {
				wait = at.Sub(s.Now).Seconds()
			}
			waits[id] = append(waits[id], wait)
		}
	}
	if done < min(Fewest, c.Samples) {
		return nil, ErrStopped
	}
	out := make(map[sched.JobID]Range, len(jobs))
	for id, w := range waits {
		if r := quantiles(s.Now, w); !r.Early.IsZero() {
			out[id] = r
		}
	}
	return out, nil
}

func (c *Config) fill() {
	if c.Most == 0 {
		c.Most = MostJobs
	}
	if c.Samples == 0 {
		c.Samples = Samples
	}
}

// rand returns the random numbers of one future.
func (c *Config) rand(sample int) *rand.Rand { return rand.New(rand.NewPCG(c.Seed, uint64(sample))) }

// quantiles returns the range of 90 % and its middle.
func quantiles(now time.Time, waits []float64) Range {
	slices.Sort(waits)
	n := len(waits)
	edge := max(1, (n+1)/20) // of n+1 gaps between n draws, so many lie outside on each side
	at := func(i int) time.Time {
		if math.IsInf(waits[i], 1) {
			return time.Time{}
		}
		return now.Add(time.Duration(waits[i] * float64(time.Second)))
	}
	agree := func(i, k int) bool { return n > edge && waits[i] == waits[k] && waits[i] > 0 }
	return Range{at(edge - 1), at(n / 2), at(n - edge), relativeError(waits, waits[n/2]), agree(edge-1, edge), agree(n-edge, n-edge-1)}
}

// relativeError returns the median error of a forecast, over the wait, if each of the waits
// is as likely.
func relativeError(waits []float64, middle float64) float64 {
	errs := make([]float64, len(waits))
	for i, wait := range waits {
		errs[i] = math.Abs(middle-wait) / max(1, wait)
		if math.IsInf(wait, 1) {
			errs[i] = 1 // the limit
		}
	}
	slices.Sort(errs)
	return errs[len(errs)/2]
}
