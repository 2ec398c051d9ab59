// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// wish is what makes two jobs the same for the search for GPUs.
type wish struct {
	n         int // GPUs
	task      int
	cpus      int
	memory    int64
	gpuMemory int64
	widest    sched.Level
	types     string
	needs     string
	tenant    sched.TenantID // if it has a limit
}

// ask is a wish with what is known about it in this decision.
type ask struct {
	wish
	ever bool // an empty cluster could fulfil it

	// What was tried in vain: on idle GPUs and in turns, at the times when
	// decision.freed and decision.left had these values, and by shrinking.
	noIdle, noShare int
	noShrink        bool

	why sched.Reason // if asked for
}

// ask returns what n GPUs for the job are for the search.
func (d *decision) ask(j *sched.Job, n int) *ask {
	w := d.wish(j, n)
	a, ok := d.asks[w]
	if !ok {
		a = &ask{wish: w, ever: d.could.host(j, w), noIdle: -1, noShare: -1}
		d.asks[w] = a
	}
	return a
}

func (d *decision) wish(j *sched.Job, n int) wish {
	w := wish{n: n, task: j.Task(), cpus: j.CPUs, memory: j.Memory, gpuMemory: d.gpuMemory(j), widest: j.MaxSpread, needs: j.Selector}
	switch len(j.GPUTypes) {
	case 0:
	case 1:
		w.types = string(j.GPUTypes[0])
	default:
		var b strings.Builder
		for _, t := range j.GPUTypes {
			b.WriteString(string(t))
			b.WriteByte(0)
		}
		w.types = b.String()
	}
	if _, limited := d.limits.of(j); limited {
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

// spreads reports whether the job accepts GPUs as far apart as the level.
func spreads(j *sched.Job, level sched.Level) bool {
	return j.MaxSpread == sched.NoLevel || j.MaxSpread >= level
}

// useful returns the largest size from least to most at which the job can run,
// or 0.
func useful(j *sched.Job, least, most int) int {
	if !j.Elastic() {
		if least <= j.GPUs && j.GPUs <= most {
			return j.GPUs
		}
		return 0
	}
	least, most = max(least, j.MinGPUs), min(most, j.MaxGPUs)
	if len(j.Sizes) == 0 {
		if n := most / j.Task() * j.Task(); n >= least {
			return n
		}
		return 0
	}
	best := 0
	for _, n := range j.Sizes {
		if n >= least && n <= most && n%j.Task() == 0 {
			best = n
		}
	}
	return best
}

// size returns the number of GPUs a job starts with: what was asked for or, if
// an elastic job cannot run at that size, the nearest smaller one that it can,
// or else the smallest.
func size(j *sched.Job) int {
	if n := useful(j, 1, j.GPUs); n > 0 {
		return n
	}
	return smallest(j)
}

// smallest returns the smallest size at which the job can run. If there is none
// at all it is more than any cluster has.
func smallest(j *sched.Job) int {
	switch {
	case !j.Elastic():
		return j.GPUs
	case len(j.Sizes) == 0:
		if n := (j.MinGPUs + j.Task() - 1) / j.Task() * j.Task(); n <= j.MaxGPUs {
			return n
		}
		return noSize
	}
	for _, n := range j.Sizes {
		if n%j.Task() == 0 && j.Fits(n) {
			return n
		}
	}
	return noSize
}

const noSize = math.MaxInt32

// could remembers what an empty cluster could give.
type could struct {
	cluster *sched.Cluster
	empty   *place.Free
	known   map[wish]bool
}

// maxWishes bounds the memory of the cache.
const maxWishes = 1 << 14

func (c *could) reset(cluster *sched.Cluster) {
	if c.cluster != cluster || len(c.known) > maxWishes {
		*c = could{cluster: cluster, empty: place.NewFree(cluster), known: map[wish]bool{}}
	}
}

// host reports whether nodes that take work could host the job if they were
// empty.
func (c *could) host(j *sched.Job, w wish) bool {
	w.tenant = ""
	ok, known := c.known[w]
	if !known {
		mark, anyNode := c.empty.Mark(), *j
		anyNode.Avoid = nil
		_, ok = c.empty.Within(&anyNode, w.n, sched.CrossRack)
		c.empty.Rollback(mark)
		c.known[w] = ok
	}
	return ok
}

// limits counts, for tenants with a limit, the GPUs on which
// they have residents. Jobs of one tenant that take turns on the same GPUs
// count once, so that a tenant at its limit can still share its own GPUs.
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

// of returns the index of a job's tenant if that has a limit.
func (l *limits) of(j *sched.Job) (t int, limited bool) {
	t, ok := l.s.Tenant(j)
	return t, ok && l.limit[t] < sched.NoLimit
}

func (l *limits) add(j *sched.Job, s sched.Slice) {
	t, limited := l.of(j)
	if !limited {
		return
	}
	l.used[t] += (s.GPUs &^ l.own[t][s.Node]).Len()
	l.own[t][s.Node] |= s.GPUs
}

// left returns on how many more GPUs the job's tenant may have residents.
func (l *limits) left(j *sched.Job) int {
	t, limited := l.of(j)
	if !limited {
		return sched.NoLimit
	}
	return l.limit[t] - l.used[t]
}

// room returns how many GPUs that it has no residents on the job's tenant may
// take. Two counts bound it: limits counts those who wait for a turn but two
// packed jobs on the same GPUs once; quota counts only who runs, but packed jobs
// one by one, as sched.Check does.
func (d *decision) room(j *sched.Job) int { return min(d.limits.left(j), d.quota.Left(j)) }
