// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"maps"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// milli returns how much of each GPU of a node the job takes: the part it asked
// for if it may share, and if its memory fits into the same part of the GPU's.
func (f *Free) milli(j *sched.Job, node int) int32 {
	part := j.Milli()
	memory := f.c.Nodes[node].GPUMemory
	if !j.Shareable || (memory > 0 && j.GPUMemory > memory*int64(part)/sched.WholeGPU) {
		return sched.WholeGPU
	}
	return part
}

// beside takes n GPUs of one node that others hold in part and that have room
// for the job's part, the fullest first; for a job that needs whole GPUs there
// are none.
func (f *Free) beside(j *sched.Job, n int) (sched.Placement, bool) {
	if len(f.parts) == 0 || j.Milli() == sched.WholeGPU || !j.Shareable {
		return nil, false
	}
	for _, node := range slices.Sorted(maps.Keys(f.parts)) {
		part := f.milli(j, int(node))
		if part == sched.WholeGPU || !f.ready.has(int(node)) || !j.Suits(&f.c.Nodes[node]) || n%j.Task() != 0 {
			continue
		}
		if f.bounded && f.room(j, int(node), n) < n {
			continue
		}
		if gpus := f.roomy(j, node, part, n); gpus != 0 {
			p := sched.Placement{{Node: node, Milli: part, GPUs: gpus}}
			if j.MaxSpread == sched.SameSlot && f.c.Level(p) > sched.SameSlot || !f.c.Keeps(p, f.c.RequiredBounds(j)) {
				continue
			}
			f.Take(j, p)
			return p, true
		}
	}
	return nil, false
}

// roomy returns the n fullest GPUs of a node that are held in part and have room
// for one more part and for the job's memory; none if there are fewer.
func (f *Free) roomy(j *sched.Job, node, part int32, n int) sched.GPUSet {
	held, memory := f.parts[node], f.c.Nodes[node].GPUMemory
	var fits []int
	for i, h := range held.milli {
		if h > 0 && int32(h)+part <= sched.WholeGPU && held.seat(&f.c.Nodes[node], i) && (memory == 0 || held.memory[i]+j.GPUMemory <= memory) {
			fits = append(fits, i)
		}
	}
	if len(fits) < n {
		return 0
	}
	slices.SortStableFunc(fits, func(a, b int) int { return int(held.milli[b]) - int(held.milli[a]) })
	var set sched.GPUSet
	for _, i := range fits[:n] {
		set |= 1 << i
	}
	return set
}
