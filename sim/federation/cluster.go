// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"math"
	"slices"
)

// depth is how many waiting jobs of one size are looked at for backfilling.
const depth = 64

// held is a part of a node that a job runs on.
type held struct {
	job  int32
	gpus int32
	end  float64 // by the job's estimate
}

// node is a machine of perNode GPUs.
type node struct {
	free int
	kept bool  // for the first job that waits
	at   int32 // index in its bucket
	jobs []held
}

// buckets are nodes by their number of free GPUs.
type buckets [perNode + 1][]int32

// cluster is scheduled as policy fifo does it with backfill = easy: in the order of
// submission, and another job may overtake the first that does not fit if it uses none of
// the nodes that are reserved for that one, or ends before it would start there.
type cluster struct {
	nodes      []node
	open, kept buckets // kept: the nodes that are reserved
	free       int     // GPUs
	queue      [][]waiting
	length     int     // of the queue
	queued     float64 // estimated GPU-seconds of waiting jobs
	running    int     // GPUs
	ends       float64 // sum over running jobs of GPUs times estimated end

	reservedFor int32 // the job; -1: none
	reserved    []int32
	start       float64 // when the reserved nodes are expected to be free
	looked      float64 // when that was computed
	scratch     []float64

	empty   []float64 // when nodes are expected to be empty, soonest first
	emptied float64   // when that was computed
}

// waiting is a job in a queue.
type waiting struct {
	job int32
	seq int64 // of joining this queue
}

func newCluster(nodes int) *cluster {
	c := &cluster{nodes: make([]node, nodes), queue: make([][]waiting, len(mix)), reservedFor: -1, emptied: math.Inf(-1), free: nodes * perNode}
	for i := range c.nodes {
		c.nodes[i].free = perNode
		c.put(int32(i))
	}
	return c
}

// size returns the index of the queue for jobs of so many GPUs.
func size(gpus int) int {
	return slices.IndexFunc(mix, func(m struct{ gpus, share int }) bool { return m.gpus == gpus })
}

func (c *cluster) list(n *node) *[]int32 {
	if n.kept {
		return &c.kept[n.free]
	}
	return &c.open[n.free]
}

func (c *cluster) put(i int32) {
	n := &c.nodes[i]
	l := c.list(n)
	n.at = int32(len(*l))
	*l = append(*l, i)
}

func (c *cluster) take(i int32) {
	n := &c.nodes[i]
	l := c.list(n)
	last := (*l)[len(*l)-1]
	(*l)[n.at] = last
	c.nodes[last].at = n.at
	*l = (*l)[:len(*l)-1]
}

// tightest returns the fewest free GPUs that a node has of those with enough.
func (b *buckets) tightest(gpus int) (free int, ok bool) {
	for free = gpus; free <= perNode; free++ {
		if len(b[free]) > 0 {
			return free, true
		}
	}
	return 0, false
}

// fits reports whether a gang could start now, on reserved nodes too if it may.
func (c *cluster) fits(gpus int, onKept bool) bool {
	if gpus > c.free {
		return false
	}
	if gpus > perNode {
		n := len(c.open[perNode])
		if onKept {
			n += len(c.kept[perNode])
		}
		return n >= gpus/perNode
	}
	_, ok := c.open.tightest(gpus)
	if !ok && onKept {
		_, ok = c.kept.tightest(gpus)
	}
	return ok
}

// place starts a job that fits, on open nodes first, and returns its nodes.
func (c *cluster) place(job int32, gpus int, end float64) []int32 {
	var on []int32
	each := min(gpus, perNode)
	for left := gpus; left > 0; left -= each {
		from := &c.open
		free, ok := from.tightest(each)
		if !ok {
			from = &c.kept
			free, _ = from.tightest(each)
		}
		i := from[free][len(from[free])-1]
		c.take(i)
		c.nodes[i].free -= each
		c.nodes[i].jobs = append(c.nodes[i].jobs, held{job, int32(each), end})
		c.put(i)
		on = append(on, i)
	}
	c.free -= gpus
	c.running += gpus
	c.ends += float64(gpus) * end
	return on
}

// release ends a job.
func (c *cluster) release(job int32, gpus int, end float64, on []int32) {
	for _, i := range on {
		n := &c.nodes[i]
		k := slices.IndexFunc(n.jobs, func(h held) bool { return h.job == job })
		c.take(i)
		n.free += int(n.jobs[k].gpus)
		n.jobs = slices.Delete(n.jobs, k, k+1)
		c.put(i)
	}
	c.free += gpus
	c.running -= gpus
	c.ends -= float64(gpus) * end
}

// first returns the job that waits longest in this queue.
func (c *cluster) first() (job int32, ok bool) {
	oldest := int64(math.MaxInt64)
	for _, q := range c.queue {
		if len(q) > 0 && q[0].seq < oldest {
			oldest, job, ok = q[0].seq, q[0].job, true
		}
	}
	return job, ok
}

// keep moves nodes between the buckets.
func (c *cluster) keep(nodes []int32, kept bool) {
	for _, i := range nodes {
		c.take(i)
		c.nodes[i].kept = kept
		c.put(i)
	}
}

func (c *cluster) unreserve() {
	c.keep(c.reserved, false)
	c.reserved, c.reservedFor = c.reserved[:0], -1
}

// reserve chooses the nodes on which a job will start first, by the estimates of the jobs
// on them. Where these have proved wrong, it chooses again, once a minute.
func (c *cluster) reserve(job int32, gpus int, now float64) {
	if c.reservedFor == job && (now <= c.start || now < c.looked+60) {
		return
	}
	c.unreserve()
	c.reservedFor, c.looked = job, now
	each, count := min(gpus, perNode), max(1, gpus/perNode)
	c.scratch = c.scratch[:0]
	for i := range c.nodes {
		c.scratch = append(c.scratch, c.nodes[i].ready(each, now))
	}
	c.start = smallest(slices.Clone(c.scratch), count)
	for i, at := range c.scratch {
		if at < c.start {
			c.reserved = append(c.reserved, int32(i))
		}
	}
	for i, at := range c.scratch {
		if at == c.start && len(c.reserved) < count {
			c.reserved = append(c.reserved, int32(i))
		}
	}
	c.keep(c.reserved, true)
}

// ready returns when a node is expected to have so many free GPUs.
func (n *node) ready(gpus int, now float64) float64 {
	free := n.free
	if free >= gpus {
		return now
	}
	if gpus == perNode {
		at := now
		for i := range n.jobs {
			at = max(at, n.jobs[i].end)
		}
		return at
	}
	var buf [perNode]held
	jobs := append(buf[:0], n.jobs...)
	slices.SortFunc(jobs, func(a, b held) int {
		if a.end < b.end {
			return -1
		}
		return 1
	})
	for _, h := range jobs {
		if free += int(h.gpus); free >= gpus {
			return max(now, h.end)
		}
	}
	return math.Inf(1)
}

// empties returns when so many nodes are expected to be empty, if nothing new is started,
// from a look at the nodes that is up to a minute old.
func (c *cluster) empties(nodes int, now float64) float64 {
	if now >= c.emptied+60 {
		c.emptied, c.empty = now, c.empty[:0]
		for i := range c.nodes {
			c.empty = append(c.empty, c.nodes[i].ready(perNode, now))
		}
		slices.Sort(c.empty)
	}
	return max(now, c.empty[nodes-1])
}

// smallest returns the k-th smallest value, and reorders them.
func smallest(v []float64, k int) float64 {
	for {
		pivot := v[len(v)/2]
		lo, at, hi := 0, 0, len(v)
		for at < hi {
			switch {
			case v[at] < pivot:
				v[lo], v[at] = v[at], v[lo]
				lo++
				at++
			case v[at] > pivot:
				hi--
				v[hi], v[at] = v[at], v[hi]
			default:
				at++
			}
		}
		switch {
		case k <= lo:
			v = v[:lo]
		case k <= hi:
			return pivot
		default:
			v, k = v[hi:], k-hi
		}
	}
}

// may reports whether a job that is not the first may start now.
func (c *cluster) may(gpus int, estimate, now float64) bool {
	if c.fits(gpus, false) {
		return true
	}
	return now+estimate <= c.start && c.fits(gpus, true)
}
