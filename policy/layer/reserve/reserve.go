// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package reserve

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the layer.
type Config struct {
	GPUs      int            `json:"gpus" help:"smallest gang that gets a reservation, in GPUs"`
	Share     float64        `json:"share" help:"a gang that needs at least this share of the cluster also gets one; 0: gpus alone decides"`
	After     sched.Duration `json:"after" help:"how long a gang waits before it gets a reservation"`
	Part      float64        `json:"part" help:"the same as a part of its expected run time, if that is longer"`
	Most      int            `json:"most" help:"most reservations at a time"`
	Tolerance float64        `json:"tolerance" help:"a job may use reserved GPUs if it would end in time even at this many times its estimate"`
	Slack     float64        `json:"slack" help:"a reservation keeps its GPUs unless others shorten its wait by more than this part"`
	Unknown   sched.Duration `json:"unknown" help:"assumed run time of a running job without an estimate"`
}

// Default returns the layer's default settings.
func Default() Config {
	return Config{
		GPUs: 16, Share: 0.25, After: sched.Duration(10 * time.Minute), Most: 2,
		Tolerance: 1.5, Slack: 0.1, Unknown: sched.Duration(time.Hour),
	}
}

// longest bounds the knobs that are durations, so that sums of them are safe.
const longest = 365 * 24 * time.Hour

func (c Config) validate() error {
	switch {
	case c.GPUs < 1:
		return fmt.Errorf("gpus = %d; want 1 or more", c.GPUs)
	case !(c.Share >= 0 && c.Share <= 1):
		return fmt.Errorf("share = %g; want 0 to 1", c.Share)
	case c.After < 0 || c.After.D() > longest:
		return fmt.Errorf("after = %s; want 0s to 365d", c.After)
	case !(c.Part >= 0 && c.Part <= 100):
		return fmt.Errorf("part = %g; want 0 to 100 times the run time", c.Part)
	case c.Most < 0 || c.Most > 100:
		return fmt.Errorf("most = %d; want 0 to 100", c.Most)
	case !(c.Tolerance >= 1 && c.Tolerance <= 1000):
		return fmt.Errorf("tolerance = %g; want 1 to 1000 times the estimate", c.Tolerance)
	case !(c.Slack >= 0 && c.Slack <= 1000):
		return fmt.Errorf("slack = %g; want 0 to 1000 times the wait", c.Slack)
	case c.Unknown <= 0 || c.Unknown.D() > longest:
		return fmt.Errorf("unknown = %s; want more than 0s, and at most 365d", c.Unknown)
	}
	return nil
}

// New returns the layer.
func New(c Config) (func(sched.Policy) sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return func(inner sched.Policy) sched.Policy { return &layer{Config: c, inner: inner} }, nil
}

type layer struct {
	Config
	inner sched.Policy
	// Caches.
	free *place.Free
	kept map[sched.JobID]kept // by gang
}

// kept is what earlier decisions know about the reservation of a gang.
type kept struct {
	place   sched.Placement
	promise time.Time // the earliest time it was ever given
}

// Schedule implements sched.Policy.
func (l *layer) Schedule(s *sched.Snapshot) sched.Plan {
	plan := l.inner.Schedule(s)
	if len(plan.Want) != len(s.Jobs) || len(plan.Why) != len(s.Jobs) {
		return plan // the policy has a bug, which Decide reports
	}
	gangs := l.gangs(s, &plan)
	if len(gangs) == 0 {
		clear(l.kept)
		return plan
	}
	held := l.reserve(s, plan, gangs)
	l.kept = map[sched.JobID]kept{}
	for _, r := range held {
		l.kept[r.gang.ID] = kept{r.place, r.promise}
	}
	if !slices.ContainsFunc(held, func(r reservation) bool { return len(plan.Want[r.job]) == 0 }) {
		return plan
	}
	return l.plan(s, plan, held)
}

// gangs returns the jobs that may get a reservation, in order, and asks for a
// decision when the next gang has waited long enough.
func (l *layer) gangs(s *sched.Snapshot, plan *sched.Plan) []int {
	var out []int
	if l.Most == 0 {
		return nil
	}
	for i, j := range s.Jobs {
		if !l.large(s, j) || !place.Waits(*plan, i) {
			continue
		}
		if due := l.due(j); due.After(s.Now) {
			plan.WakeBy(s.Now, due)
			continue
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b int) int {
		x, y := s.Jobs[a], s.Jobs[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), x.Since.Compare(y.Since), cmp.Compare(x.Seq, y.Seq))
	})
	return out
}

// large reports whether a job is a gang that may get a reservation.
func (l *layer) large(s *sched.Snapshot, j *sched.Job) bool {
	if j.GPUs < l.GPUs && (l.Share == 0 || j.GPUs < 2 || float64(j.GPUs) < l.Share*float64(s.Cluster.GPUs())) {
		return false
	}
	return j.Phase == sched.Pending && !(j.Shareable && j.Milli() < sched.WholeGPU)
}

// due returns when a gang will have waited long enough.
func (l *layer) due(j *sched.Job) time.Time {
	return j.Since.Add(max(l.After.D(), place.Seconds(l.Part*j.Estimate.D().Seconds())))
}

// reservation is when and where a gang will start.
type reservation struct {
	job   int // index in Snapshot.Jobs
	gang  *sched.Job
	at    time.Time
	place sched.Placement
	held  sched.Placement // the part of it that is free now
	// supplied says that the CPUs and memory for that part are free too.
	supplied bool
	// promise is the earliest time it was ever given. Once that has passed, the
	// estimates were wrong, and no other job may use its GPUs any more.
	promise time.Time
}

// mostTried bounds the number of gangs that one decision considers.
const mostTried = 16

// reserve finds reservations for the first of the gangs. Gangs that have waited as
// long and that the plan starts on free GPUs count as served.
func (l *layer) reserve(s *sched.Snapshot, plan sched.Plan, gangs []int) []reservation {
	l.free = l.free.For(s.Cluster)
	held, quota := make([]sched.Placement, len(s.Jobs)), place.NewQuota(s)
	for i, j := range s.Jobs {
		if j.Phase == sched.Running {
			l.free.Take(j, j.Placement)
			held[i] = j.Placement
			quota.AddMilli(j, j.Placement.Milli())
		}
	}
	f := finder{layer: l, s: s, forecast: place.NewForecast(s, held, l.free, l.Unknown.D())}
	for i, j := range s.Jobs {
		p := plan.Want[i]
		if len(p) > 0 && l.large(s, j) && !l.due(j).After(s.Now) && p.GPUs() == j.GPUs && !p.Shared() && l.free.Fits(j, p) {
			f.found = append(f.found, reservation{job: i, gang: j, at: s.Now, place: p, held: p})
			quota.Add(j, j.GPUs)
		}
	}
	slices.SortFunc(f.found, func(a, b reservation) int { return cmp.Compare(a.gang.Seq, b.gang.Seq) })
	most := len(f.found) + l.Most
	for _, i := range gangs[:min(len(gangs), mostTried)] {
		j := s.Jobs[i]
		if len(f.found) == most {
			break
		}
		if quota.Left(j) < j.GPUs {
			continue
		}
		if r, ok := f.find(i); ok {
			quota.Add(j, j.GPUs)
			f.found = append(f.found, r)
		}
	}
	f.supply()
	return f.found
}

// supply determines for which reservations there are CPUs and memory now: jobs on
// other GPUs of a node may use them up.
func (f *finder) supply() {
	mark := f.free.Mark()
	for i := range f.found {
		if r := &f.found[i]; f.free.Fits(r.gang, r.held) {
			f.free.Take(r.gang, r.held)
			r.supplied = true
		}
	}
	f.free.Rollback(mark)
}

// finder searches for reservations, one gang after the other.
type finder struct {
	*layer
	s        *sched.Snapshot
	forecast *place.Forecast
	found    []reservation
}

func (f *finder) find(i int) (reservation, bool) {
	j := f.s.Jobs[i]
	r := reservation{job: i, gang: j}
	var ok bool
	if r.at, r.place, ok = f.best(j); !ok {
		return r, false
	}
	before, known := f.kept[j.ID]
	if p := before.place; known && !p.Equal(r.place) && f.usable(j, p) && f.s.Cluster.Level(p) <= f.s.Cluster.Level(r.place) {
		at := f.forecast.Clear(p)
		wait := at.Sub(f.s.Now).Seconds()
		starts := wait > 0 || f.free.Fits(j, p) // else its node lacks CPUs or memory
		if starts && wait <= (1+f.Slack)*r.at.Sub(f.s.Now).Seconds() {
			r.at, r.place = at, p
		}
	}
	r.held, r.promise = f.freeOf(r.place), r.at
	if known && before.promise.Before(r.at) {
		r.promise = before.promise
	}
	return r, true
}

// best returns the earliest time and placement for a gang, or a later one that is
// close enough together to be worth the wait.
func (f *finder) best(j *sched.Job) (time.Time, sched.Placement, bool) {
	if j.Consolidate {
		return f.forecast.Earliest(j, j.GPUs, f.around(place.FewestNodes))
	}
	at, p, ok := f.forecast.Earliest(j, j.GPUs, f.around(place.Consolidated))
	if !ok || f.s.Cluster.Level(p) <= sched.SameMachine {
		return at, p, ok
	}
	last := at.Add(place.StandardPatience().Budget(j))
	for _, nearer := range []place.Strategy{place.FewestNodes, place.RackLocal} {
		if later, q, ok := f.forecast.Earliest(j, j.GPUs, f.around(nearer)); ok && !later.After(last) {
			return later, q, true
		}
	}
	return at, p, true
}

// around returns a strategy that avoids what other gangs have reserved.
func (f *finder) around(find place.Strategy) place.Strategy {
	if len(f.found) == 0 {
		return find
	}
	return func(free *place.Free, j *sched.Job, n int) (sched.Placement, bool) {
		mark := free.Mark()
		for _, r := range f.found {
			free.Take(r.gang, f.freeOf(r.place))
		}
		p, ok := find(free, j, n)
		free.Rollback(mark)
		if ok {
			free.Take(j, p)
		}
		return p, ok
	}
}

// freeOf returns the part of a placement that is free in the view.
func (f *finder) freeOf(p sched.Placement) sched.Placement {
	var out sched.Placement
	for _, s := range p {
		if s.GPUs &= f.free.OnNode(int(s.Node)); s.GPUs != 0 {
			out = append(out, s)
		}
	}
	return out
}

// usable reports whether an earlier reservation can still be used.
func (f *finder) usable(j *sched.Job, p sched.Placement) bool {
	for _, s := range p {
		n := &f.s.Cluster.Nodes[s.Node]
		if n.State != sched.Ready || s.GPUs&^n.Usable() != 0 || !j.Suits(n) {
			return false
		}
		for _, r := range f.found {
			for _, other := range r.place {
				if other.Node == s.Node && other.GPUs&s.GPUs != 0 {
					return false
				}
			}
		}
	}
	return p.GPUs() == j.GPUs && j.Spreads(f.s.Cluster.Level(p))
}
