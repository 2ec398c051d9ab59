// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// odds knows how the generator of a workload draws run times, but not what it drew: as much
// as there is to know before jobs end.
type odds struct {
	redraw func(id sched.JobID, r *rand.Rand) sim.Work // nil: a run time follows from model and size
	drawn  map[sched.JobID][]drawnRun
}

// drawnRun is how long a job may run, in seconds: the attempt that succeeds, and those
// that fail before it.
type drawnRun struct {
	run, failing, longest float64
	attempts              int  // that fail
	lost                  bool // none succeeds
}

// oddsOf is nil for a workload of which nobody knows how it came about.
func (c ForecastConfig) oddsOf(name string, seed uint64) (*odds, error) {
	if !slices.Contains([]string{trace.KindPhilly, trace.KindPollux}, name) || !slices.Contains(c.Kinds, name) {
		return nil, nil
	}
	redraw, err := trace.Redraw(c.gen(name, seed))
	return &odds{redraw, map[sched.JobID][]drawnRun{}}, err
}

// redraws is the number of times that a job is drawn again.
const redraws = 500

// runs returns how long a job may run, as the generator would draw it.
func (o *odds) runs(j *sched.Job, told *seer) []drawnRun {
	id := j.ID
	if _, known := told.ran[id]; !known { // submitted again in a future
		i := slices.IndexFunc(told.seen, func(s sched.Spec) bool {
			return s.Tenant == j.Tenant && s.User == j.User && s.Model == j.Model && s.GPUs == j.GPUs
		})
		if i < 0 {
			return nil
		}
		id = told.seen[i].ID
	}
	if runs, known := o.drawn[id]; known {
		return runs
	}
	var runs []drawnRun
	if o.redraw == nil {
		for _, s := range told.seen {
			if ran := told.ran[s.ID]; s.Model == j.Model && s.GPUs == j.GPUs && ran > 0 {
				runs = append(runs, drawnRun{run: ran.Seconds()})
			}
		}
	} else {
		r := rand.New(rand.NewPCG(told.seed, uint64(len(o.drawn))))
		for range redraws {
			w := o.redraw(id, r)
			d := drawnRun{run: w.RunTime.D().Seconds(), attempts: len(w.Failures), lost: w.Outcome == sched.Failed}
			for _, f := range w.Failures {
				d.failing, d.longest = d.failing+f.After.D().Seconds(), max(d.longest, f.After.D().Seconds())
			}
			runs = append(runs, d)
		}
	}
	o.drawn[id] = runs
	return runs
}

// future draws how long jobs still run, given what is known about them.
func (o *odds) future(s *sched.Snapshot, p *seer) func(r *rand.Rand) forecast.Left {
	known := map[sched.JobID]*choices{}
	return func(r *rand.Rand) forecast.Left {
		return func(j *sched.Job) (time.Duration, bool) {
			c, ok := known[j.ID]
			if !ok {
				c = o.choices(j, s.Now, p)
				known[j.ID] = c
			}
			return c.draw(r), true
		}
	}
}

// choices are the times that a job may still run, in seconds, with the running sum of
// their weights.
type choices struct {
	left, sums []float64
	otherwise  time.Duration
}

// choices returns what is possible of a job that has run for so long, failed so often, of
// which so much was estimated or reported. Of failed attempts only the sum of their times
// is compared.
func (o *odds) choices(j *sched.Job, now time.Time, p *seer) *choices {
	run := p.run(j, now)
	ran, rest := run.Ran.Seconds(), max(0, run.Whole-run.Done).Seconds()
	c := &choices{otherwise: max(run.Ran, time.Minute)}
	if run.Whole > 0 {
		c.otherwise = max(0, run.Whole-run.Done)
	}
	sum := 0.0
	for _, d := range o.runs(j, p.told) {
		if d.attempts < j.Failures || d.lost && d.attempts == j.Failures {
			continue
		}
		weight, left := 1.0, d.failing-ran
		switch {
		case run.Whole > 0 && d.lost && d.longest > run.Whole.Seconds():
			continue // it would have announced more
		case run.Whole > 0 && !d.lost && d.attempts > j.Failures && left > 0:
			left += run.Whole.Seconds()
		case run.Whole > 0 && !d.lost:
			left = rest
		case !d.lost:
			left += d.run
		}
		if run.Whole == 0 && run.Estimate > 0 {
			weight = sim.GuessOdds(run.Estimate, time.Duration(d.run*float64(time.Second)))
		}
		if left > 0 && weight > 0 {
			sum += weight
			c.left, c.sums = append(c.left, left), append(c.sums, sum)
		}
	}
	return c
}

func (c *choices) draw(r *rand.Rand) time.Duration {
	u := r.Float64()
	if len(c.left) == 0 {
		return c.otherwise
	}
	i, _ := slices.BinarySearch(c.sums, u*c.sums[len(c.sums)-1])
	return time.Duration(c.left[min(i, len(c.left)-1)] * float64(time.Second))
}
