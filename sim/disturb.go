// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import "slices"

// neighbours knows who runs on which node, and so who disturbs whom.
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

// disturbed returns, once each, the running jobs whose speed may have changed
// because of a change on one of their nodes.
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

// factor returns the share of its speed that a job keeps beside its
// neighbours.
func (r *run) factor(j *job) float64 {
	keep := 1.0
	if loss := r.interference(j); loss > 0 && len(j.setting.placement) > 1 && r.crowded(j) {
		keep = 1 - loss
	}
	if j.setting.placement.Shared() {
		keep *= r.shared(j)
	}
	return keep
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

// unknownInterference is the loss of a job whose model is not known, between
// the 5 % of DeepSpeech and the 47 % of ResNet-50 that Gandiva measured.
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

// shared returns the speed of a job whose GPUs are shared, by the sum of the
// utilisations on its fullest GPU: fitted to 1,388 measured pairs.
func (r *run) shared(j *job) float64 {
	worst := 0.0
	for _, s := range j.setting.placement {
		for g := s.GPUs; g != 0; g &= g - 1 {
			gpu := g & -g
			sum := 0.0
			for _, other := range r.neighbours.onNode[s.Node] {
				for _, o := range other.setting.placement {
					if o.Node == s.Node && o.GPUs&gpu != 0 {
						sum += utilisation(other.work)
					}
				}
			}
			worst = max(worst, sum)
		}
	}
	return max(0.1, 1-0.335*max(0, worst-0.9))
}

// utilisation is Philly's mean for a job that does not say.
func utilisation(w *Work) float64 {
	if w.GPUUtil > 0 {
		return w.GPUUtil
	}
	return 0.52
}
