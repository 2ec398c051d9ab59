// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// requestKey identifies requests for GPUs that have the same answer.
type requestKey struct {
	place.Shape
	tenant sched.TenantID // if it has a limit
}

// request is a request for GPUs, with what is known about it in this decision.
type request struct {
	requestKey
	ever bool // an empty cluster could fulfil it

	// What failed: on idle GPUs and in turns, when decision.freed and decision.left
	// had these values, and by shrinking.
	noIdle, noShare int
	noShrink        bool

	why sched.Reason // if asked for
}

// request returns the request of a job for n GPUs.
func (d *decision) request(j *sched.Job, n int) *request {
	w := d.keyOf(j, n)
	a, ok := d.requests[w]
	if !ok {
		a = &request{requestKey: w, ever: d.could.Of(j, w.Shape, host(n)), noIdle: -1, noShare: -1}
		d.requests[w] = a
	}
	return a
}

func (d *decision) keyOf(j *sched.Job, n int) requestKey {
	w := requestKey{Shape: place.ShapeOf(j, n)}
	w.GPUMemory = d.gpuMemory(j)
	for range d.limits.of(j) {
		w.tenant = j.Tenant
	}
	return w
}

// gpuMemory rounds a job's need of GPU memory up to what makes a difference in
// this cluster.
func (d *decision) gpuMemory(j *sched.Job) int64 {
	at, _ := slices.BinarySearch(d.memories, j.GPUMemory)
	switch at {
	case 0:
		return 0
	case len(d.memories):
		return math.MaxInt64
	}
	return d.memories[at]
}

func memoriesOf(c *sched.Cluster) []int64 {
	var out []int64
	for i := range c.Nodes {
		if m := c.Nodes[i].GPUMemory; m > 0 && (len(out) == 0 || out[len(out)-1] != m) {
			out = append(out, m)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// useful returns the largest size from least to most at which the job can run,
// or 0.
func useful(j *sched.Job, least, most int) int {
	if n := j.LargestSize(most); n >= least {
		return n
	}
	return 0
}

// smallest returns the smallest size at which the job can run.
func smallest(j *sched.Job) int { return cmp.Or(j.NextSize(0), sched.NoSize) }

// host reports whether nodes that take new work could host the job if they were
// empty.
func host(n int) func(*place.Free, *sched.Job) bool {
	return func(empty *place.Free, j *sched.Job) bool {
		_, ok := empty.Within(j, n, sched.CrossRack)
		return ok
	}
}

// limits counts, for tenants with a limit, the GPUs on which they have residents.
// Jobs of one tenant that take turns on the same GPUs count once, so that a tenant
// at its limit can still share its own GPUs.
type limits struct {
	s     *sched.Snapshot
	limit []int            // by tenant
	used  []int            // by tenant
	own   [][]sched.GPUSet // by tenant with a limit, by node
}

func newLimits(s *sched.Snapshot) limits {
	n := len(s.Tenants)
	l := limits{s: s, limit: make([]int, n), used: make([]int, n), own: make([][]sched.GPUSet, n)}
	for t := range s.Tenants {
		l.limit[t] = s.Tenants[t].Limit()
		if l.limit[t] < sched.NoLimit {
			l.own[t] = make([]sched.GPUSet, len(s.Cluster.Nodes))
		}
	}
	return l
}

// of returns those with a limit of a job's tenant and the ones above it.
func (l *limits) of(j *sched.Job) iter.Seq[int] {
	return func(yield func(int) bool) {
		t, ok := l.s.Tenant(j)
		for ; ok && t >= 0; t = l.s.Parent(t) {
			if l.limit[t] < sched.NoLimit && !yield(t) {
				return
			}
		}
	}
}

func (l *limits) add(j *sched.Job, s sched.Slice) {
	for t := range l.of(j) {
		l.used[t] += (s.GPUs &^ l.own[t][s.Node]).Len()
		l.own[t][s.Node] |= s.GPUs
	}
}

// left returns on how many more GPUs the job's tenant may have residents.
func (l *limits) left(j *sched.Job) int {
	left := sched.NoLimit
	for t := range l.of(j) {
		left = min(left, l.limit[t]-l.used[t])
	}
	return left
}

// room returns how many GPUs without its own residents the job's tenant may take.
// Two counts bound it: limits counts jobs that wait for a turn, but two packed jobs
// on the same GPUs once; quota counts only running jobs, but packed jobs one by
// one, as sched.Check does.
func (d *decision) room(j *sched.Job) int { return min(d.limits.left(j), d.quota.Left(j)) }
