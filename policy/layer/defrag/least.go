// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// leastNodes caches the fewest nodes that gangs would need in an empty cluster.
type leastNodes struct {
	of    *sched.Cluster
	known map[gangShape]int
}

// gangShape is what makes two gangs equal in an empty cluster.
type gangShape struct {
	gpus, task int
	gpuMemory  int64
	types      string
	needs      string
}

// fewestFor returns the fewest nodes of one rack, or else of all, that a gang would
// need if nothing else ran: at least 1.
func (d *decision) fewestFor(j *sched.Job) int {
	n := j.GPUs
	if len(j.Placement) > 0 {
		n = j.Placement.GPUs()
	}
	if n <= d.s.Cluster.MaxGPUs() {
		return 1
	}
	const most = 10_000
	if d.least.of != d.s.Cluster || len(d.least.known) >= most {
		d.least = leastNodes{of: d.s.Cluster, known: map[gangShape]int{}}
	}
	key := gangShape{gpus: n, task: j.Task(), gpuMemory: j.GPUMemory, needs: j.Selector}
	if len(j.GPUTypes) > 0 {
		var b strings.Builder
		for _, t := range j.GPUTypes {
			b.WriteString(string(t))
			b.WriteByte(0)
		}
		key.types = b.String()
	}
	least, ok := d.least.known[key]
	if !ok {
		least = d.countNodes(j, n)
		d.least.known[key] = least
	}
	return least
}

func (d *decision) countNodes(j *sched.Job, n int) int {
	c := d.s.Cluster
	least := 0
	for kind, name := range c.Types {
		if !j.Accepts(name) {
			continue
		}
		all := []int{}
		for rack := range c.Racks {
			var sizes []int
			for _, node := range c.Racks[rack].Nodes {
				if c.TypeOf(node) == kind && c.Nodes[node].State != sched.Down && j.Suits(&c.Nodes[node]) {
					sizes = append(sizes, c.Nodes[node].Usable().Len()/j.Task()*j.Task())
				}
			}
			if k := cover(sizes, n); k > 0 && (least == 0 || k < least) {
				least = k
			}
			all = append(all, sizes...)
		}
		if k := cover(all, n); least == 0 && k > 0 {
			least = k
		}
	}
	return max(1, least)
}

// cover returns how few of the sizes add up to n; 0 if all of them together do not.
func cover(sizes []int, n int) int {
	slices.Sort(sizes)
	for k := len(sizes) - 1; k >= 0; k-- {
		if n -= sizes[k]; n <= 0 {
			return len(sizes) - k
		}
	}
	return 0
}
