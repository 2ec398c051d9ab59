// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
)

// seer is a policy that forecasts the starts of jobs that begin to wait. It sees what a
// daemon would see.
type seer struct {
	knowledge
	inner   sched.Policy
	spec    string
	about   policy.About
	seed    uint64
	table   policy.Registry
	told    *seer // of the same simulation, to its end; nil: this is the first
	odds    *odds // nil: nobody knows how the workload came about
	lengths experience.Lengths
	ledger  forecast.Ledger
	coarse  forecast.Ledger               // of forecasts without the policy
	last    map[sched.JobID]sched.Job     // as of the last decision
	ran     map[sched.JobID]time.Duration // of the jobs that have ended
	seen    []sched.Spec                  // in order of submission
	restart restartMean
	tracks  map[sched.JobID]experience.Track // of jobs that report, since they have their size
	sizes   map[sched.JobID]int              // of those
	open    map[sched.JobID]int              // index of the case
	cases   []foreseen
	err     error // the first of a forecast
}

func newSeer(spec string, k knowledge, seed uint64, told *seer) *seer {
	table := policy.Builtin()
	return &seer{
		spec: spec, table: table, knowledge: k, seed: seed, told: told, about: table.About(spec),
		last: map[sched.JobID]sched.Job{}, ran: map[sched.JobID]time.Duration{}, tracks: map[sched.JobID]experience.Track{}, sizes: map[sched.JobID]int{}, open: map[sched.JobID]int{},
	}
}

// restartMean is the mean time without progress after a restart.
type restartMean struct {
	n   int
	sum time.Duration
}

func (r restartMean) mean() time.Duration { return r.sum / time.Duration(max(1, r.n)) }

// Schedule implements sched.Policy.
func (p *seer) Schedule(s *sched.Snapshot) sched.Plan {
	p.learn(s)
	plan := p.inner.Schedule(s)
	p.begin(s, plan)
	if p.told == nil {
		return plan
	}
	for i, j := range s.Jobs {
		at, asked := p.open[j.ID]
		starts := len(plan.Want[i]) > 0
		switch {
		case starts && asked && p.cases[at].start.IsZero():
			f := &p.cases[at]
			f.start = s.Now
			if f.known {
				p.ledger.Add(f.Asked, s.Now)
			}
			if f.coarse.known {
				p.coarse.Add(f.coarse.Asked, s.Now)
			}
		case !starts && !asked && j.Starts == 0 && plan.Why[i].Code != sched.Impossible:
			p.open[j.ID] = len(p.cases)
			p.cases = append(p.cases, p.ask(s, i, plan.Why[i].Promised))
		}
	}
	return plan
}

// learn notes what has happened since the last decision.
func (p *seer) learn(s *sched.Snapshot) {
	now := make(map[sched.JobID]sched.Job, len(s.Jobs))
	for _, j := range s.Jobs {
		now[j.ID] = *j
		p.track(j, s.Now)
		before, there := p.last[j.ID]
		if !there {
			p.seen = append(p.seen, j.Spec)
		}
		if j.Starts > max(1, before.Starts) && j.ReportedAt.After(j.Since) {
			p.restart.n, p.restart.sum = p.restart.n+1, p.restart.sum+j.ReportedAt.Sub(j.Since)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.last)) { // the same order in every run
		j := p.last[id]
		if _, there := now[id]; !there {
			p.ran[id] = j.RanBy(s.Now)
			p.lengths.Learn(p.run(&j, s.Now), p.tracks[id])
		}
	}
	p.last = now
}

// begin notes the jobs that start now: one that ends soon is not there any more at the
// next decision.
func (p *seer) begin(s *sched.Snapshot, plan sched.Plan) {
	for i, j := range s.Jobs {
		if j.Phase == sched.Pending && len(plan.Want[i]) > 0 {
			c := p.last[j.ID]
			c.Phase, c.Since = sched.Running, s.Now
			p.last[j.ID] = c
		}
	}
}

// track notes what a running job reports.
func (p *seer) track(j *sched.Job, now time.Time) {
	r := p.run(j, now)
	if r.Whole == 0 || j.Phase != sched.Running {
		return
	}
	if n := j.Placement.GPUs(); p.sizes[j.ID] != n { // its rate is another, and the forecast knows that of each size
		p.tracks[j.ID], p.sizes[j.ID] = experience.Track{}, n
	}
	if t := p.tracks[j.ID]; t[r.Tenth()].Left == 0 {
		t[r.Tenth()] = experience.Tenth{Ran: r.Ran, Left: r.Whole - r.Done}
		p.tracks[j.ID] = t
	}
}

// run returns what is known about the run time of a job.
func (p *seer) run(j *sched.Job, now time.Time) experience.Run {
	r := experience.Run{
		Key:      experience.JobKey{App: string(j.App), Tenant: string(j.Tenant), User: j.User, Model: j.Model, GPUs: j.GPUs},
		Estimate: j.Estimate.D(), Ran: j.RanBy(now),
	}
	if p.reports && j.Work > 0 && j.Rate > 0 {
		second := float64(time.Second)
		r.Whole, r.Done = time.Duration(j.Work/j.Rate*second), time.Duration(j.DoneBy(now)/j.Rate*second)
	}
	return r
}

// ask forecasts the start of the i-th job: with what a daemon knows, with the policy and
// without, with the true run times, and with the jobs that will be submitted later.
func (p *seer) ask(s *sched.Snapshot, i int, promised time.Time) foreseen {
	id := s.Jobs[i].ID
	lengths := p.lengths.Fresh()
	for _, o := range s.Jobs {
		if o.Phase == sched.Running {
			lengths.Watch(p.run(o, s.Now))
		}
	}
	c := forecast.Config{Seed: p.seed, Most: forecast.MostJobs / 4, Restart: p.restart.mean(), Preempts: p.about.Promises&policy.NeverPreempts == 0, Future: func(r *rand.Rand) forecast.Left {
		draw := lengths.Future(r)
		return func(j *sched.Job) (time.Duration, bool) {
			left, basis := draw(p.run(j, s.Now))
			return left, basis != experience.Nothing
		}
	}}
	if p.about.Promises&policy.InOrder == 0 {
		c.Arrive = forecast.Again(p.seen[max(0, len(p.seen)-recent):], s.Now)
	}
	f := foreseen{answer: answer{Asked: forecast.Asked{At: s.Now}}}
	f.Range, f.known = p.start(s, c, id)
	played, coarse := p.waiting()
	f.told = p.ledger.Correct(f.Asked, played, s.Now)
	few := c
	few.Samples, f.coarse.At = forecast.Fewest, s.Now
	f.coarse.Range, f.coarse.known = forecast.Coarse(s, few, p.about.Order.Waiting(s, i), s.Jobs[i], promised)
	f.coarse.told = p.coarse.Correct(f.coarse.Asked, coarse, s.Now)
	if p.odds != nil {
		best := c
		best.Samples, best.Future = forecast.Fewest, p.odds.future(s, p)
		floor, _ := p.start(s, best, id)
		f.floor = floor.Middle
	}
	c.Samples, c.Arrive = 1, nil
	c.Future = func(*rand.Rand) forecast.Left {
		return func(j *sched.Job) (time.Duration, bool) { return max(0, p.told.ran[j.ID]-j.RanBy(s.Now)), true }
	}
	known, _ := p.start(s, c, id)
	c.Arrive = func(*rand.Rand) forecast.Arrivals {
		rest := p.told.seen[len(p.seen):]
		return func() (spec sched.Spec, ok bool) {
			if len(rest) == 0 {
				return spec, false
			}
			spec, rest = rest[0], rest[1:]
			return spec, true
		}
	}
	all, _ := p.start(s, c, id)
	f.runTimes, f.oracle = known.Middle, all.Middle
	return f
}

// recent is the number of submissions from which later ones are foreseen.
const recent = 200

func (p *seer) start(s *sched.Snapshot, c forecast.Config, id sched.JobID) (r forecast.Range, ok bool) {
	var starts map[sched.JobID]forecast.Range
	var err error
	if c.Policy, err = p.table.New(p.spec); err == nil {
		starts, err = forecast.Starts(s, c, id)
	}
	p.err = cmp.Or(p.err, err)
	r, ok = starts[id]
	return r, ok
}

// waiting returns the forecasts, with the policy and without, whose jobs have not started yet.
func (p *seer) waiting() (played, coarse []forecast.Asked) {
	for _, f := range p.cases {
		if f.known && f.start.IsZero() {
			played = append(played, f.Asked)
		}
		if f.coarse.known && f.start.IsZero() {
			coarse = append(coarse, f.coarse.Asked)
		}
	}
	return played, coarse
}
