// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
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

	onOffer [][]*job               // by node: running jobs whose GPUs are on offer
	rest    []int                  // scratch of speed
	marked  bool                   // labels of nodes matter: some job needs one, or some node is reserved for jobs that do
	like    map[string]*sched.Node // by auction.Machine.Kind, if marked: one of the nodes
}

func newRound(c Config, s *sched.Snapshot, free *place.Free) *round {
	r := &round{
		Config: c, s: s, free: free, quota: place.NewQuota(s), plan: sched.NewPlan(s),
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
		v := r.speedOf(j.Job)
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
func (r *round) speedOf(j *sched.Job) float64 {
	v := float64(j.Placement.Milli()) / sched.WholeGPU
	if slow, _, ok := r.observed(j); ok {
		return v / slow
	}
	return v / classOf(j)[r.s.Cluster.Level(j.Placement)]
}

// hungry reports whether some job waits that could be given GPUs.
func (r *round) hungry() bool {
	waits, offer := false, r.free.Total() > 0
	for _, j := range r.jobs {
		waits = waits || j.waits(r)
		offer = offer || j.expired || j.stays && r.movable(j.Job)
	}
	return waits && offer
}

// heir returns a job of the same app that must replace a job whose lease has ended,
// or nil: the app would end later if the heir waited one more lease, and not if the
// other job did.
func (r *round) heir(j *job) *job {
	if a := j.app; j.length()+r.lease+restartCost > a.end {
		return nil
	}
	for _, other := range j.app.jobs {
		if other.length()+r.lease > j.app.end && other.waits(r) && other.Priority >= j.Priority && alike(other.Job, j.Job) && r.welcome(other, j.Placement) {
			return other
		}
	}
	return nil
}

// alike reports whether a job can run wherever another does.
func alike(a, b *sched.Job) bool {
	return a.Fits(b.Placement.GPUs()) && a.Task() == b.Task() && a.CPUs == b.CPUs && a.Memory == b.Memory &&
		a.GPUMemory == b.GPUMemory && a.Tenant == b.Tenant && a.MaxSpread == b.MaxSpread && slices.Equal(a.GPUTypes, b.GPUTypes)
}

// welcome reports whether a job may use all nodes of a placement and avoids none of
// them.
func (r *round) welcome(j *job, p sched.Placement) bool {
	return !slices.ContainsFunc(p, func(s sched.Slice) bool {
		n := &r.s.Cluster.Nodes[s.Node]
		return !j.Suits(n) || j.avoids(n)
	})
}

// stagger is the number of tenths of a lease over which the ends of leases renewed
// together are spread. If all ended together, an app that arrives in between would
// find none that ends soon.
const stagger = 6

// renew lets a running job, or its heir, continue where it is for another lease.
func (r *round) renew(j *job) {
	if heir := r.heir(j); heir != nil {
		if !j.dropped {
			r.drop(j)
		}
		r.start(heir, j.Placement)
		return
	}
	if r.suffers(j.Job) && r.gatherIn(j) {
		return
	}
	if j.dropped {
		r.free.Take(j.Job, j.Placement)
		r.quota.Add(j.Job, j.Placement.GPUs())
		j.dropped = false
	}
	j.won = true
	r.plan.Want[j.index] = j.Placement
	r.since[j.index] = r.s.Now.Add(-time.Duration(j.Seq%stagger) * r.Lease.D() / 10)
	j.app.hold(j)
}

// suffers reports whether a running job loses more by being spread than allowed,
// and more than a move would cost.
func (r *round) suffers(j *sched.Job) bool {
	slow, _, ok := r.observed(j)
	return ok && slow > r.Slowdown && j.Placement.GPUs() <= r.s.Cluster.MaxGPUs() && len(j.Placement) > 1
}

// gatherIn moves a spread job to one node, if a node has enough idle GPUs and the
// gain soon exceeds the cost of the move.
func (r *round) gatherIn(j *job) bool {
	slow, _, _ := r.observed(j.Job)
	if j.length()*(slow-1) < 2*restartCost {
		return false
	}
	if !j.dropped {
		r.drop(j)
	}
	n := j.Placement.GPUs()
	node, ok := r.idleNode(j, n, r.s.Cluster.Nodes[j.Placement[0].Node].Type)
	if !ok {
		return false
	}
	r.start(j, sched.Placement{r.pick(node, n)})
	return true
}

// renewAll keeps every running job whose GPUs were not given away.
func (r *round) renewAll() {
	for _, a := range r.apps {
		for _, j := range a.jobs {
			if j.expired && !j.won && (!j.dropped || r.canReturn(j)) {
				r.renew(j)
			}
		}
	}
}

func (r *round) canReturn(j *job) bool {
	return r.free.Fits(j.Job, j.Placement) && r.quota.Left(j.Job) >= j.Placement.GPUs()
}

// drop takes a running job off its GPUs.
func (r *round) drop(j *job) {
	j.dropped = true
	r.free.Release(j.Job, j.Placement)
	r.quota.Add(j.Job, -j.Placement.GPUs())
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
	for _, s := range p {
		j.app.holds[int(s.Node)] += s.GPUs.Len()
	}
}

// fill starts what it can on GPUs that are still free, the worst-off apps first: no
// GPU idles that a waiting job could use. A job that must be consolidated waits for
// the fewest nodes.
func (r *round) fill() {
	apps := slices.Clone(r.apps)
	slices.SortStableFunc(apps, func(a, b *app) int { return cmp.Compare(b.expectedRho, a.expectedRho) })
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
		waiting = waiting || j.Phase == sched.Running && r.suffers(j.Job)
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
	step := max(1, r.Lease.D()/10)
	for i, j := range r.jobs {
		if !j.won || j.Pinned() {
			continue
		}
		at := r.since[i].Add(r.Lease.D())
		if !at.After(r.s.Now) {
			at = r.s.Now.Add(1) // it may not be offered now, but may be later
		}
		if whole := at.Truncate(step); !whole.Equal(at) {
			at = whole.Add(step)
		}
		r.plan.WakeBy(r.s.Now, at)
	}
}
