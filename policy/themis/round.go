// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/fairness"
	"github.com/fairway-gpu/fairway/sched/place"
)

// round is the work on one plan.
type round struct {
	Config
	s      *sched.Snapshot
	free   *place.Free // without what runs, unless it was dropped
	quota  place.Quota // the same
	plan   sched.Plan
	since  []time.Time // by job: start of the lease it has in the plan
	lease  float64     // seconds
	gpus   float64     // of the cluster
	jobs   []*job      // as in the snapshot
	apps   []*app      // by name
	rng    *rand.Rand
	errors *rand.Rand // of Config.Error
	memory *memory

	onOffer [][]*job               // by node: running jobs whose GPUs are on offer
	rest    []int                  // scratch of speed
	facts   []fairness.Job         // scratch of know
	maker   *auction.Maker         // nil: nobody has bid yet
	marked  bool                   // labels of nodes matter: some job needs one, or some node is reserved for jobs that do
	like    map[string]*sched.Node // by auction.Machine.Kind, if marked: one of the nodes
}

func newRound(c Config, s *sched.Snapshot, free *place.Free, m *memory) *round {
	r := &round{
		Config: c, s: s, free: free, memory: m, quota: place.NewQuota(s), plan: sched.NewPlan(s),
		since: make([]time.Time, len(s.Jobs)), lease: c.Lease.D().Seconds(), gpus: float64(max(1, s.Cluster.GPUs())),
		rng:    rand.New(rand.NewPCG(c.Seed, uint64(s.Now.UnixNano()))),
		errors: rand.New(rand.NewPCG(^c.Seed, uint64(s.Now.UnixNano()))),
	}
	r.marked, r.like = s.Cluster.HasDedicated(), map[string]*sched.Node{}
	r.gather()
	for _, j := range r.jobs {
		if j.Phase == sched.Running {
			r.free.Take(j.Job, j.Placement)
			r.quota.Add(j.Job, j.Placement.GPUs())
		}
		if j.stays {
			r.plan.Want[j.index] = j.Placement
			r.since[j.index] = leaseOf(j.Job)
			j.won = true
		}
	}
	for _, a := range r.apps {
		r.forecast(a)
	}
	return r
}

// leaseOf returns when the lease of a running job began.
func leaseOf(j *sched.Job) time.Time {
	if j.Note.Since.After(j.Since) {
		return j.Note.Since
	}
	return j.Since
}

// isExpired reports whether the GPUs of a running job may be offered again.
func (r *round) isExpired(j *sched.Job) bool {
	return r.movable(j) && !r.s.Now.Before(leaseOf(j).Add(r.Lease.D()))
}

// movable reports whether the GPUs of a running job could be offered: not if it may
// not be stopped, holds parts of a GPU, or is on a node that takes no new work.
func (r *round) movable(j *sched.Job) bool {
	if j.Pinned() || j.Placement.Shared() {
		return false
	}
	return !slices.ContainsFunc(j.Placement, func(s sched.Slice) bool { return r.s.Cluster.Nodes[s.Node].State != sched.Ready })
}

// forecast computes the expected rho of an app.
func (r *round) forecast(a *app) {
	var now, kept power
	waiting, lost := 0.0, 0.0 // seconds of the longest job that waits now, or would
	for _, j := range a.jobs {
		length := j.length()
		if !j.stays {
			lost = max(lost, length)
		}
		if j.Phase != sched.Running {
			waiting = max(waiting, length)
			continue
		}
		v := r.speedOf(j)
		now.speed += v
		now.gangs++
		if j.stays {
			kept.speed += v
			kept.gangs++
		}
	}
	a.end = max(r.lease, a.span(now))
	a.expectedRho, a.rhoIfLost = r.expect(a, now, waiting), r.expect(a, kept, lost)
	r.ask(a)
}

// speedOf returns the speed of a running job, in well-placed GPUs.
func (r *round) speedOf(j *job) float64 {
	v := float64(j.Placement.Milli()) / sched.WholeGPU
	if j.Elastic() {
		v = j.speed(j.Placement.GPUs())
	}
	if slow, _, ok := r.observed(j); ok {
		return v / slow
	}
	return v / classOf(j.Job)[r.s.Cluster.Level(j.Placement)]
}

// hungry reports whether some job waits, or could grow, and could be given GPUs.
func (r *round) hungry() bool {
	needs, offer := false, r.free.Total() > 0
	for _, j := range r.jobs {
		needs = needs || j.waits(r) || r.short(j) > 0
		offer = offer || j.expired || j.stays && r.movable(j.Job)
	}
	return needs && offer
}

// start gives a job GPUs that are free.
func (r *round) start(j *job, p sched.Placement) {
	r.free.Take(j.Job, p)
	r.begin(j, p)
}

// begin records a start on GPUs that were taken.
func (r *round) begin(j *job, p sched.Placement) {
	r.quota.Add(j.Job, p.GPUs())
	j.won = true
	r.plan.Want[j.index] = p
	r.since[j.index] = r.s.Now
	j.app.hold(p)
}

// fill starts what it can on GPUs that are still free, the worst-off apps first: no
// GPU idles that a waiting job could use. A job that must be consolidated waits for
// the fewest nodes.
func (r *round) fill() {
	if r.free.Total() == 0 {
		return
	}
	apps := slices.DeleteFunc(slices.Clone(r.apps), func(a *app) bool {
		return !slices.ContainsFunc(a.jobs, func(j *job) bool { return j.waits(r) && r.free.Total() >= j.size })
	})
	slices.SortFunc(apps, worseOff)
	for _, a := range apps {
		for _, j := range a.jobs {
			if !j.waits(r) || r.free.Total() < j.size {
				continue
			}
			for _, n := range []int{j.GPUs, j.size} {
				if r.quota.Left(j.Job) < n {
					continue
				}
				if p, ok := r.near(j)(r.free, j.Job, n); ok {
					r.begin(j, p)
					break
				}
			}
		}
	}
}

// near returns how a job is placed outside an auction.
func (r *round) near(j *job) place.Strategy {
	if classOf(j.Job)[sched.SameRack] > r.Slowdown {
		return place.FewestNodes
	}
	return place.Consolidated
}

// finish fills in reasons, notes and the time of the next decision.
func (r *round) finish() sched.Plan {
	changed, waiting := false, false // an app gains from the end of a lease
	notes := make([]sched.Note, len(r.jobs))
	for i, j := range r.jobs {
		if !j.won {
			r.plan.Why[i] = r.why(j)
			waiting = waiting || place.Waits(r.plan, i)
		}
		waiting = waiting || j.Phase == sched.Running && r.suffers(j) || r.couldGrow(j)
		notes[i] = sched.Note{
			Level: j.app.mostEver, Count: int(min(math.Ceil(j.app.total), 1<<53)), Since: r.since[i],
		}
		changed = changed || notes[i] != j.Note
	}
	if changed {
		r.plan.Notes = notes
	}
	if waiting {
		r.wake()
	}
	return r.plan
}

func (r *round) why(j *job) sched.Reason {
	switch {
	case j.Phase == sched.Pending && !j.Ready(r.s.Now):
		return sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
	case r.quota.Left(j.Job) < j.size:
		return r.quota.Why(j.Job, j.size)
	}
	level := sched.CrossRack
	if j.Consolidate {
		level = sched.SameMachine
	}
	why := r.free.Why(j.Job, j.size, level)
	if why.Code == sched.Full {
		why.Code = sched.Behind
	}
	return why
}

// wake asks for a decision at the next end of a lease, rounded up to a tenth of
// a lease, so that GPUs that come free about the same time are offered together.
func (r *round) wake() {
	var next time.Time
	for i, j := range r.jobs {
		if !j.won || j.Pinned() {
			continue
		}
		at := r.since[i].Add(r.Lease.D())
		if !at.After(r.s.Now) {
			at = r.s.Now.Add(1) // it may not be offered now, but may be later
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if next.IsZero() {
		return
	}
	step := max(1, r.Lease.D()/10)
	if whole := next.Truncate(step); !whole.Equal(next) {
		next = whole.Add(step)
	}
	r.plan.WakeBy(r.s.Now, next)
}
