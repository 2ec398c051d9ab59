// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// pools counts the GPUs that jobs with a need can have: a job that is ahead of
// others may be kept waiting by those who hold the nodes that it needs, however
// many GPUs are free elsewhere. Pools overlap, as a node may bear several marks.
type pools struct {
	marks []string // that jobs who wait need
	left  [][]int  // by mark and type: GPUs not spoken for; may fall below 0
	of    [][]int  // by node: the marks that it bears, as indexes
}

// newPools returns the pools of the jobs that wait; without any it costs nothing.
func newPools(s *sched.Snapshot) pools {
	var p pools
	for _, j := range s.Jobs {
		if (j.Selector != "" || s.Cluster.HasDedicated()) && j.Phase != sched.Running && !slices.Contains(p.marks, j.Selector) {
			p.marks = append(p.marks, j.Selector)
		}
	}
	if p.marks == nil {
		return p
	}
	p.of = make([][]int, len(s.Cluster.Nodes))
	for m, mark := range p.marks {
		p.left = append(p.left, make([]int, len(s.Cluster.Types)))
		for i := range s.Cluster.Nodes {
			if n := &s.Cluster.Nodes[i]; n.State != sched.Down && n.Matches(mark) {
				p.of[i] = append(p.of[i], m)
				p.left[m][s.Cluster.TypeOf(i)] += n.Usable().Len()
			}
		}
	}
	return p
}

// take books n GPUs of a node, or gives them back if n is negative, and reports
// whether its pools had them.
func (p pools) take(node, t, n int) bool {
	if p.of == nil {
		return true
	}
	had := true
	for _, m := range p.of[node] {
		p.left[m][t] -= n
		had = had && p.left[m][t] >= 0
	}
	return had
}

// reserve books the GPUs of a job that waits, wherever in its pool it will be.
func (p pools) reserve(j *sched.Job, t int) bool {
	m := slices.Index(p.marks, j.Selector)
	switch {
	case m < 0:
		return true // it may run anywhere
	case p.left[m][t] < j.GPUs:
		return false
	}
	p.left[m][t] -= j.GPUs
	return true
}
