// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// decision is the work on one plan.
//
// A job is resident on the GPUs it runs on, or on those where its suspended
// state is. The height of a GPU is the number of its residents.
type decision struct {
	*policy
	s    *sched.Snapshot
	plan sched.Plan

	home    []sched.Placement // by job: where it is resident; nil: nowhere
	waiting []int             // jobs that should run but do not yet; after arrive: those with a home
	hosts   []int             // running jobs that might be packed with another
	elastic []int             // running jobs on one server that could run at another size, by Seq

	stride  int            // between the GPUs of two nodes in height
	height  []uint8        // by GPU
	load    []int          // by node: sum of the heights of its GPUs
	class   []uint8        // by node: its affinity, 1 + size class; 0: none
	runs    [][]int        // by node: jobs that run there in the plan
	claimed []sched.GPUSet // by node: GPUs that a waiting job gets next
	pinned  []sched.GPUSet // by node: GPUs of jobs that may not be stopped
	quota   place.Quota
	limits  limits

	requests map[requestKey]*request
	anyNode  bool    // nodes that a job avoids are acceptable too
	freed    int     // how often GPUs have become idle
	left     int     // how often a job has left its home
	memories []int64 // sizes of GPU memory in the cluster, ascending
	scratch  []int

	barred []bool // by GPU type: an earlier job waits for it
	queued int    // jobs that found no server
	now    turn
	moves  int // left
}

// turn is the position of a time in its slice. Slices begin at the same time
// everywhere, so that a gang can get all of its servers at once.
type turn struct {
	begin, end time.Time
	late       bool // what starts now may run on when the slice ends
}

func (p *policy) turnAt(t time.Time) turn {
	begin := t.Truncate(p.Slice.D())
	end := begin.Add(p.Slice.D())
	return turn{begin, end, end.Sub(t) < p.Slice.D()/2}
}

func newDecision(p *policy, s *sched.Snapshot) *decision {
	n := len(s.Cluster.Nodes)
	d := &decision{
		policy: p, s: s, plan: sched.NewPlan(s), memories: memoriesOf(s.Cluster),
		home:   make([]sched.Placement, len(s.Jobs)),
		stride: s.Cluster.MaxGPUs(),
		load:   make([]int, n), class: make([]uint8, n), runs: make([][]int, n),
		claimed: make([]sched.GPUSet, n), pinned: make([]sched.GPUSet, n),
		quota: place.NewQuota(s), limits: newLimits(s),
		requests: map[requestKey]*request{},
		barred:   make([]bool, len(s.Cluster.Types)),
		now:      p.turnAt(s.Now), moves: p.Moves,
	}
	d.height = make([]uint8, n*d.stride)
	room := make([]int, n*d.stride) // one job for each GPU; the few that pack need more
	for i := range d.runs {
		d.runs[i] = room[i*d.stride : i*d.stride : (i+1)*d.stride]
	}
	d.plan.Suspend = true
	return d
}

// keep leaves running jobs where they are, and finds the residents of each GPU and
// the waiting jobs.
func (d *decision) keep() {
	order := make([]int, len(d.s.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(d.s.Jobs[a].Seq, d.s.Jobs[b].Seq) })
	for _, i := range order {
		j := d.s.Jobs[i]
		if j.Note != (sched.Note{}) {
			d.notes() // notes that are not renewed are dropped
		}
		switch {
		case j.Phase == sched.Running && d.live.Fits(j, j.Placement):
			d.settle(i, j.Placement)
			d.run(i)
			if j.Elastic() && len(j.Placement) == 1 {
				d.elastic = append(d.elastic, i)
			}
			if d.Pack && d.packable(i) {
				d.hosts = append(d.hosts, i)
			}
		case j.Phase == sched.Pending && !j.Ready(d.s.Now):
			d.plan.Why[i] = sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
		default:
			if d.resumable(j) {
				d.settle(i, j.Suspended)
			}
			d.waiting = append(d.waiting, i)
		}
	}
	d.sortBy(d.waiting, func(j *sched.Job) time.Time { return j.Since })
}

// notes returns the notes of the plan, which start empty.
func (d *decision) notes() []sched.Note {
	if d.plan.Notes == nil {
		d.plan.Notes = make([]sched.Note, len(d.s.Jobs))
	}
	return d.plan.Notes
}

// resumable reports whether a job can resume where its suspended state is.
func (d *decision) resumable(j *sched.Job) bool {
	for _, s := range j.Suspended {
		if int(s.Node) >= len(d.s.Cluster.Nodes) {
			return false
		}
		n := &d.s.Cluster.Nodes[s.Node]
		if n.State != sched.Ready || s.GPUs&^n.Usable() != 0 || !n.Matches(j.Selector) {
			return false
		}
	}
	return len(j.Suspended) > 0
}

// sortBy sorts jobs by a time, the earliest first.
func (d *decision) sortBy(jobs []int, since func(*sched.Job) time.Time) {
	keys := make([]waitKey, len(jobs))
	for at, i := range jobs {
		j := d.s.Jobs[i]
		keys[at] = waitKey{d.s.Now.Sub(since(j)), j.Seq, i}
	}
	slices.SortFunc(keys, func(a, b waitKey) int {
		if a.waited != b.waited {
			return cmp.Compare(b.waited, a.waited)
		}
		return cmp.Compare(a.seq, b.seq)
	})
	for at, k := range keys {
		jobs[at] = k.job
	}
}

type waitKey struct {
	waited time.Duration
	seq    int64
	job    int
}

// ghost takes GPUs without CPUs or memory.
var ghost = &sched.Job{}

// settle makes a job resident.
func (d *decision) settle(i int, p sched.Placement) {
	j := d.s.Jobs[i]
	d.home[i] = p
	for _, s := range p {
		node := int(s.Node)
		if d.load[node] == 0 {
			d.class[node] = 1 + classOf(s.GPUs.Len())
		}
		d.load[node] += s.GPUs.Len()
		var fresh sched.GPUSet
		for g := s.GPUs; g != 0; g &= g - 1 {
			h := &d.height[node*d.stride+bits.TrailingZeros64(uint64(g))]
			if *h++; *h == 1 {
				fresh |= g & -g
			}
		}
		if fresh != 0 {
			d.idle.Take(ghost, sched.Placement{whole(node, fresh)})
		}
		d.limits.add(j, s)
	}
}

// leave ends a job's residence.
func (d *decision) leave(i int) {
	for _, s := range d.home[i] {
		node := int(s.Node)
		d.load[node] -= s.GPUs.Len()
		var empty sched.GPUSet
		for g := s.GPUs; g != 0; g &= g - 1 {
			h := &d.height[node*d.stride+bits.TrailingZeros64(uint64(g))]
			if *h--; *h == 0 {
				empty |= g & -g
			}
		}
		if empty != 0 {
			d.idle.Release(ghost, sched.Placement{whole(node, empty)})
			d.freed++
		}
	}
	d.home[i] = nil
	d.left++
}

// run lets a job run where it is resident.
func (d *decision) run(i int) {
	j, p := d.s.Jobs[i], d.home[i]
	d.live.Take(j, p)
	d.quota.Add(j, p.GPUs())
	d.plan.Want[i], d.plan.Why[i] = p, sched.Reason{}
	for _, s := range p {
		d.runs[s.Node] = append(d.runs[s.Node], i)
		if j.Pinned() {
			d.pinned[s.Node] |= s.GPUs
		}
	}
}

// stop takes a job off its GPUs; it stays resident.
func (d *decision) stop(i int) {
	j, p := d.s.Jobs[i], d.plan.Want[i]
	d.live.Release(j, p)
	d.quota.Add(j, -p.GPUs())
	d.plan.Want[i] = nil
	for _, s := range p {
		at := slices.Index(d.runs[s.Node], i)
		d.runs[s.Node] = slices.Delete(d.runs[s.Node], at, at+1)
	}
}

// relocate makes a running job run elsewhere, or at another size.
func (d *decision) relocate(i int, p sched.Placement) {
	d.stop(i)
	d.leave(i)
	d.settle(i, p)
	d.run(i)
}

// runsOn reports whether the plan runs a job where it ran until now.
func (d *decision) runsOn(i int) bool {
	j := d.s.Jobs[i]
	return j.Phase == sched.Running && d.plan.Want[i].Equal(j.Placement)
}

// movable reports whether a job has run alone in one place long enough to be worth
// a migration, and none has made it slower.
func (d *decision) movable(i int) bool {
	j := d.s.Jobs[i]
	return d.runsOn(i) && !j.Pinned() && !d.stays[j.ID] && d.s.Now.Sub(j.Since) >= d.Settle.D() && d.highest(j.Placement) == 1
}

// highest returns the largest height of the GPUs.
func (d *decision) highest(p sched.Placement) int {
	most := 0
	for _, s := range p {
		for g := s.GPUs; g != 0; g &= g - 1 {
			most = max(most, int(d.height[int(s.Node)*d.stride+bits.TrailingZeros64(uint64(g))]))
		}
	}
	return most
}

// classOf returns the size class of n GPUs: 0 for 1, 1 for 2, 2 for 3 to 4.
func classOf(n int) uint8 { return uint8(bits.Len(uint(n - 1))) }

func whole(node int, gpus sched.GPUSet) sched.Slice {
	return sched.Slice{Node: int32(node), Milli: sched.WholeGPU, GPUs: gpus}
}
