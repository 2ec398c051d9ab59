// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import "slices"

// neighbours tracks which jobs run on each node and can slow each other down.
type neighbours struct {
	onNode  [][]*job
	touched []int32 // nodes whose jobs have changed
}

func (n *neighbours) add(j *job) {
	for _, s := range j.setting.placement {
		n.onNode[s.Node] = append(n.onNode[s.Node], j)
		n.touched = append(n.touched, s.Node)
	}
}

func (n *neighbours) remove(j *job) {
	for _, s := range j.setting.placement {
		on := n.onNode[s.Node]
		i := slices.Index(on, j)
		n.onNode[s.Node] = slices.Delete(on, i, i+1)
		n.touched = append(n.touched, s.Node)
	}
}

// disturbed returns, once each, the running jobs whose speed may have changed because
// of a change on one of their nodes.
func (n *neighbours) disturbed() []*job {
	if len(n.touched) == 0 {
		return nil
	}
	slices.Sort(n.touched)
	var out []*job
	for i, node := range n.touched {
		if i > 0 && node == n.touched[i-1] {
			continue
		}
		for _, j := range n.onNode[node] {
			if len(j.setting.placement) > 1 || j.setting.placement.Shared() {
				out = append(out, j)
			}
		}
	}
	n.touched = n.touched[:0]
	slices.SortFunc(out, func(a, b *job) int { return a.result - b.result })
	return slices.Compact(out)
}

// factor returns the share of its speed that a job keeps beside jobs on the same
// nodes, and its slowdown by jobs on the same GPUs; 0: it does not share GPUs.
func (r *run) factor(j *job) (keep, slowdown float64) {
	keep = 1
	if loss := r.interference(j); loss > 0 && len(j.setting.placement) > 1 && r.crowded(j) {
		keep = 1 - loss
	}
	shares := false
	if j.setting.placement.Shared() {
		slowdown, shares = r.shared(j)
		keep /= slowdown
	}
	r.record.usage.adjust(r, j, pacing{slowdown, shares, keep * placed(j)})
	return keep, slowdown
}

func (r *run) interference(j *job) float64 {
	if r.Interference != PerModel {
		return r.Interference
	}
	if m, ok := r.Zoo.Model(j.work.Model); ok {
		return m.Interference
	}
	return unknownInterference
}

// unknownInterference is the loss of a job of unknown model, between the 5 % of
// DeepSpeech and the 47 % of ResNet-50 that Gandiva measured.
const unknownInterference = 0.2

// crowded reports whether the job shares a node with another job that spans
// several nodes.
func (r *run) crowded(j *job) bool {
	for _, s := range j.setting.placement {
		for _, other := range r.neighbours.onNode[s.Node] {
			if other != j && len(other.setting.placement) > 1 {
				return true
			}
		}
	}
	return false
}
