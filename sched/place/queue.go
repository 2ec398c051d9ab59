// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Queue turns an order of jobs into a plan: the step that most policies share.
//
// It first chooses, in order, the jobs whose GPUs the cluster has by number, on
// nodes that they accept. Chosen jobs that run keep their GPUs, unless a job
// ahead needs their nodes; the others are placed, in order, on what is then
// free. A running job that was not chosen is stopped only if its GPUs are
// really used: when a chosen job finds no place, the running jobs that would
// have made room for it continue.
type Queue struct {
	// Place finds GPUs for a job that does not run. Nil: Consolidated.
	Place Strategy
	// Level says what Place insists on for a job, for the reason given when it
	// fails. Nil: CrossRack.
	Level func(*sched.Job) sched.Level
	// Patience, if set, replaces Place and Level: every job has its own ladder of
	// locality, which relaxes while it waits.
	Patience *Patience
	// Preempt lets a job take the GPUs of one behind it. Without it, every
	// running job stays.
	Preempt bool
	// Keep, if set, names running jobs that stay although Preempt is set.
	Keep func(*sched.Job) bool
	// Strict makes a job that cannot run hold back all behind it.
	Strict bool
}

// At returns the queue at a moment, with Place and Level filled in.
func (q Queue) At(now time.Time) Queue {
	if q.Patience != nil {
		c := ladderStrategy{*q.Patience, now}
		q.Place, q.Level = c.place, c.rung
	}
	if q.Place == nil {
		q.Place = Consolidated
	}
	if q.Level == nil {
		q.Level = func(*sched.Job) sched.Level { return sched.CrossRack }
	}
	return q
}

// Plan runs the jobs of s, given as indexes in order, on free, a view of the
// cluster in which every GPU is free.
func (q Queue) Plan(s *sched.Snapshot, order []int, free *Free) sched.Plan {
	r := run{Queue: q.At(s.Now), s: s, free: free, plan: sched.NewPlan(s), quota: NewQuota(s)}
	r.budget = make([]int, len(s.Cluster.Types))
	for t := range r.budget {
		r.budget[t] = s.Cluster.GPUsOf(t)
	}
	r.pools = newPools(s)
	r.bind()
	chosen, rest := r.choose(order)
	for _, i := range chosen {
		if !r.moving[i] {
			r.resume(i)
		}
	}
	for _, i := range chosen {
		if r.moving[i] {
			r.resume(i) // nobody needed its GPUs after all
		}
		r.start(i)
	}
	for _, i := range rest {
		r.resume(i)
	}
	for _, i := range rest {
		r.start(i)
	}
	return r.plan
}

type run struct {
	Queue
	s       *sched.Snapshot
	free    *Free
	plan    sched.Plan
	quota   Quota
	budget  []int          // GPUs that nobody has claimed, by type
	pools   pools          // the same, by label
	shared  []sched.GPUSet // by node: GPUs held in part that are claimed; nil: none
	moving  map[int]bool   // running jobs that were chosen, to continue elsewhere
	blocked bool           // Strict, and a job ahead cannot run

	// Where jobs are suspended, by node: the GPUs of chosen jobs that run or go on,
	// and of these the GPUs of the latter. Nil: nowhere.
	kept, due []sched.GPUSet
}

// stays reports whether a running job may not be stopped.
func (r *run) stays(j *sched.Job) bool {
	return j.Phase == sched.Running && (!r.Preempt || j.Pinned() || (r.Keep != nil && r.Keep(j)))
}

// choose splits the order into the jobs whose demand fits by number, and the
// rest. Jobs that may not be stopped are chosen before all others.
func (r *run) choose(order []int) (chosen, rest []int) {
	chosen = make([]int, 0, len(order))
	for _, i := range order {
		if j := r.s.Jobs[i]; r.stays(j) {
			r.claim(j)
			r.keep(j.Placement)
			r.quota.AddMilli(j, j.Placement.Milli())
			chosen = append(chosen, i)
		}
	}
	full := false // Strict, and a job ahead does not fit by number
	for _, i := range order {
		j := r.s.Jobs[i]
		if r.stays(j) {
			continue
		}
		milli := j.GPUs * sched.WholeGPU
		if j.Phase == sched.Running {
			milli = j.Placement.Milli()
		}
		within := r.quota.FitsMilli(j, milli)
		if full || !r.mayStart(j) || !within || !r.reserve(i) {
			rest = append(rest, i)
			full = full || (r.Strict && r.mayStart(j) && within)
			continue
		}
		r.quota.AddMilli(j, milli)
		chosen = append(chosen, i)
	}
	// Only what runs holds quota from here on; the others ask again.
	r.quota.Clear()
	return chosen, rest
}

// mayStart reports whether a job may run now if it gets GPUs. One that may not must claim
// neither GPUs nor quota: nobody behind it waits for its sake.
func (r *run) mayStart(j *sched.Job) bool {
	return j.Phase == sched.Running || (j.Ready(r.s.Now) && r.free.Ever(j, j.GPUs, r.Level(j)) >= j.GPUs)
}

// reserve takes the GPUs of a job, of a type it accepts, from the budget. A running
// job on nodes that somebody ahead needs keeps its turn: it may go on elsewhere.
func (r *run) reserve(i int) bool {
	j := r.s.Jobs[i]
	if j.Bound() {
		return r.goOn(j)
	}
	if j.Phase == sched.Running {
		taken, wanted := false, r.isDue(j.Placement)
		if !wanted {
			taken, wanted = r.keepRunning(j)
		}
		if taken {
			r.keep(j.Placement)
		}
		if taken || !wanted || j.Tied() {
			return taken
		}
	}
	found := r.free.types(j, func(t int) bool {
		if r.budget[t] < j.GPUs || !r.pools.reserve(j, t) {
			return false
		}
		r.budget[t] -= j.GPUs
		return true
	})
	if found && j.Phase == sched.Running {
		if r.moving == nil {
			r.moving = map[int]bool{}
		}
		r.moving[i] = true
	}
	return found
}

// keepRunning takes the GPUs of a running job from the budget, if they are there. If they
// are not, it says whether that is because others need its nodes.
func (r *run) keepRunning(j *sched.Job) (taken, wanted bool) {
	t, n := r.typeOf(j), 0
	for _, s := range j.Placement {
		k := r.unclaimed(s)
		n += k
		wanted = !r.pools.take(int(s.Node), t, k) || wanted
	}
	if wanted || r.budget[t] < n {
		for _, s := range j.Placement {
			r.pools.take(int(s.Node), t, -r.unclaimed(s))
		}
		return false, wanted
	}
	r.budget[t] -= n
	r.share(j)
	return true, false
}

// claim takes the GPUs of a job that may not be stopped, whether they are there or
// not.
func (r *run) claim(j *sched.Job) {
	t := r.typeOf(j)
	for _, s := range j.Placement {
		n := r.unclaimed(s)
		r.budget[t] -= n
		r.pools.take(int(s.Node), t, n)
	}
	r.share(j)
}

func (r *run) typeOf(j *sched.Job) int { return r.s.Cluster.TypeOf(int(j.Placement[0].Node)) }

// unclaimed returns how many GPUs have to be taken from the budget for a part of a
// placement: one that is shared with somebody chosen before is paid for.
func (r *run) unclaimed(s sched.Slice) int {
	if r.shared == nil || s.Milli == sched.WholeGPU {
		return s.GPUs.Len()
	}
	return (s.GPUs &^ r.shared[s.Node]).Len()
}

// share records the GPUs that a job holds in part as claimed.
func (r *run) share(j *sched.Job) {
	if !j.Placement.Shared() {
		return
	}
	if r.shared == nil {
		r.shared = make([]sched.GPUSet, len(r.s.Cluster.Nodes))
	}
	for _, s := range j.Placement {
		r.shared[s.Node] |= s.GPUs
	}
}

// resume lets a running job go on where it is, if its GPUs are still free.
func (r *run) resume(i int) {
	j := r.s.Jobs[i]
	if j.Phase != sched.Running || !r.free.Fits(j, j.Placement) || (!r.quota.Fits(j, j.Placement) && !r.stays(j)) {
		return
	}
	r.free.Take(j, j.Placement)
	r.quota.AddMilli(j, j.Placement.Milli())
	r.plan.Want[i] = j.Placement
}

// start places a job that is not running yet in this plan.
func (r *run) start(i int) {
	j := r.s.Jobs[i]
	switch {
	case len(r.plan.Want[i]) > 0:
		return
	case j.Phase == sched.Pending && !j.Ready(r.s.Now):
		r.plan.Why[i] = sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
		return
	case r.quota.Left(j) < j.GPUs: // also when blocked: it does not wait for GPUs
		r.plan.Why[i] = r.quota.Why(j, j.GPUs)
		return
	case j.Phase == sched.Running && j.Tied():
		r.plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs, Have: r.free.Total()}
		return
	case r.blocked:
		r.plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs, Have: r.free.Total()}
		return
	}
	if r.free.Total() >= j.GPUs {
		if p, ok := r.Place(r.free, j, j.GPUs); ok {
			r.quota.Add(j, j.GPUs)
			r.plan.Want[i] = p
			return
		}
	}
	r.plan.Why[i] = r.why(j)
	if r.Preempt && r.plan.Why[i].Code == sched.Full {
		r.plan.Why[i].Code = sched.Behind
	}
	r.blocked = r.blocked || (r.Strict && r.plan.Why[i].Code != sched.Impossible)
}

// why says why a job finds no place. One on a ladder asks to be tried again when
// it accepts more.
func (r *run) why(j *sched.Job) sched.Reason {
	if r.Patience == nil {
		return r.free.Why(j, j.GPUs, r.Level(j))
	}
	why := ladderStrategy{*r.Patience, r.s.Now}.why(r.free, j, j.GPUs)
	r.plan.WakeBy(r.s.Now, why.Until)
	return why
}

// OrderBy returns the indexes of s.Jobs by ascending key, first a, then b, then
// order of submission, so that the order of s.Jobs never matters.
func OrderBy(s *sched.Snapshot, key func(*sched.Job) (a, b float64)) []int {
	return Order(s, func(i int) (a, b float64) { return key(s.Jobs[i]) })
}

// Order is OrderBy with the key of a job by its index in s.Jobs.
func Order(s *sched.Snapshot, key func(i int) (a, b float64)) []int {
	type entry struct {
		a, b float64
		seq  int64
		job  int
	}
	entries := make([]entry, len(s.Jobs))
	for i, j := range s.Jobs {
		a, b := key(i)
		entries[i] = entry{a, b, j.Seq, i}
	}
	slices.SortFunc(entries, func(x, y entry) int {
		switch { // much faster than cmp.Compare, which looks for NaN first
		case x.a < y.a:
			return -1
		case x.a > y.a:
			return 1
		case x.a == y.a && x.b < y.b:
			return -1
		case x.a == y.a && x.b > y.b:
			return 1
		case x.a == y.a && x.b == y.b:
			return cmp.Compare(x.seq, y.seq)
		}
		return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b), cmp.Compare(x.seq, y.seq))
	})
	order := make([]int, len(entries))
	for i, e := range entries {
		order[i] = e.job
	}
	return order
}
