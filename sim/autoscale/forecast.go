// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package autoscale

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/num"
)

// forecast predicts the total speedup of a snapshot's jobs on any number of nodes.
//
// Every job has a list of sizes and its speedup at each, packed on as few nodes as
// possible. For a single job, the best total on n nodes is the best of its sizes that
// fit. For several, it is the sum over the upper concave hulls of their lists, filled
// where the next GPU helps most: an upper bound of what whole sizes can reach, and
// close to it when there are many jobs. The hulls make the total concave in the
// number of GPUs, so that the utility of several jobs never rises with the number of
// nodes.
type forecast struct {
	perNode int    // GPUs
	single  []size // the sizes of the only job
	steps   []step // of several jobs, steepest first
	most    []int  // GPUs of each job at its largest useful size
}

// size is a size of a job and its speedup there.
type size struct {
	gpus    int
	speedup float64
}

// step is a segment of a hull: that many more GPUs, each adding slope.
type step struct {
	gpus  int
	slope float64
}

func newForecast(s *sched.Snapshot, rule Rule, nodes int) *forecast {
	f := &forecast{perNode: s.Cluster.MaxGPUs()}
	if f.perNode == 0 {
		return f
	}
	rack := 0 // nodes of the largest one
	for _, r := range s.Cluster.Racks {
		rack = max(rack, len(r.Nodes))
	}
	gpuType := s.Cluster.Nodes[0].Type
	for _, j := range s.Jobs {
		c := curveOf(j, rule)
		var sizes []size
		for _, n := range sizesOf(j, f.perNode, nodes*f.perNode) {
			shape := goodput.Shape{Nodes: num.CeilDiv(n, f.perNode), GPUs: n}
			shape.CrossRack = shape.Nodes > rack
			sizes = append(sizes, size{n, c.at(gpuType, shape)})
		}
		hull := hullOf(sizes)
		if len(s.Jobs) == 1 {
			f.single = sizes
		}
		end := 0
		for _, h := range hull {
			end += h.gpus
		}
		f.most = append(f.most, end)
		f.steps = append(f.steps, hull...)
	}
	slices.SortStableFunc(f.steps, func(a, b step) int { return cmp.Compare(b.slope, a.slope) })
	return f
}

// speedup returns the best sum of speedups on that many GPUs.
func (f *forecast) speedup(gpus int) float64 {
	best := 0.0
	if f.single != nil {
		for _, s := range f.single {
			if s.gpus <= gpus {
				best = max(best, s.speedup)
			}
		}
		return best
	}
	for _, s := range f.steps {
		n := min(s.gpus, gpus)
		best += float64(n) * s.slope
		if gpus -= n; gpus == 0 {
			break
		}
	}
	return best
}

// utility returns the predicted utility of that many nodes.
func (f *forecast) utility(nodes int) float64 {
	gpus := nodes * f.perNode
	if gpus == 0 {
		return 0
	}
	return f.speedup(gpus) / float64(gpus)
}

// needed returns the fewest nodes on which every job can start alone.
func needed(s *sched.Snapshot) int {
	widest := 0
	for _, j := range s.Jobs {
		widest = max(widest, smallest(j))
	}
	return num.CeilDiv(widest, max(1, s.Cluster.MaxGPUs()))
}

// usable returns the nodes that all jobs fill at their largest useful sizes, packed:
// whole nodes first, the rest of each job on the fullest node that has room.
func (f *forecast) usable() int {
	if f.perNode == 0 {
		return 0
	}
	nodes := 0
	rest := make([]int, f.perNode) // by size: jobs
	for _, n := range f.most {
		nodes += n / f.perNode
		rest[n%f.perNode]++
	}
	left := make([]int, f.perNode) // by free GPUs: nodes
	for n := f.perNode - 1; n > 0; n-- {
		for range rest[n] {
			at := n
			for at < f.perNode && left[at] == 0 {
				at++
			}
			if at < f.perNode {
				left[at]--
			} else {
				nodes++
			}
			left[at-n]++
		}
	}
	return nodes
}

// smallest returns the fewest GPUs the job runs on.
func smallest(j *sched.Job) int {
	if !j.Elastic() {
		return j.GPUs
	}
	for _, n := range j.Sizes {
		if n >= j.MinGPUs {
			return n
		}
	}
	return num.CeilDiv(j.MinGPUs, j.Task()) * j.Task()
}

// sizesOf returns the sizes of a job to consider, ascending: all within one node,
// then whole nodes, and its bounds; none above limit but the smallest.
func sizesOf(j *sched.Job, perNode, limit int) []int {
	least := smallest(j)
	if !j.Elastic() {
		return []int{least}
	}
	limit = max(least, min(limit, j.MaxGPUs, growth(j)))
	var sizes []int
	if len(j.Sizes) > 0 {
		for _, n := range j.Sizes {
			if n >= least && n <= limit {
				sizes = append(sizes, n)
			}
		}
		return sizes
	}
	last := limit / j.Task() * j.Task()
	for n := least; n < last; n += j.Task() {
		if n <= perNode || n%perNode == 0 || n == least {
			sizes = append(sizes, n)
		}
	}
	return append(sizes, last)
}

// growth returns the most GPUs that a job may get next: its agent's limit, or twice
// the most it has had.
func growth(j *sched.Job) int {
	if j.Perf != nil && j.Perf.MostGPUs > 0 {
		return j.Perf.MostGPUs
	}
	return max(1, 2*j.MostGPUs)
}

// hullOf returns the upper concave hull of the sizes from zero GPUs on, as far
// as it rises.
func hullOf(sizes []size) []step {
	points := []size{{}}
	for _, s := range sizes {
		for len(points) > 1 && slope(points[len(points)-2], points[len(points)-1]) <= slope(points[len(points)-2], s) {
			points = points[:len(points)-1]
		}
		points = append(points, s)
	}
	var steps []step
	for i := 1; i < len(points); i++ {
		if up := slope(points[i-1], points[i]); up > 0 {
			steps = append(steps, step{points[i].gpus - points[i-1].gpus, up})
		}
	}
	return steps
}

func slope(a, b size) float64 { return (b.speedup - a.speedup) / float64(b.gpus-a.gpus) }
