// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Why says why n GPUs for the job cannot be had within the level.
func (f *Free) Why(j *sched.Job, n int, level sched.Level) sched.Reason {
	level = bound(j, level)
	if len(j.Topology) > 0 {
		return f.whyDomains(j, n, level)
	}
	if most := f.Ever(j, n, level); most < n {
		return sched.Reason{Code: sched.Impossible, Need: n, Have: most, Level: level, Marked: j.Selector != ""}
	}
	if f.picky(j) {
		return f.whyMarked(j, n, level)
	}
	free := 0
	f.types(j, func(t int) bool {
		free = max(free, f.typeFree[t])
		return false
	})
	if free < n {
		return sched.Reason{Code: sched.Full, Need: n, Have: free}
	}
	r := sched.Reason{Code: sched.Fragmented, Need: n, Level: level, Have: free}
	switch {
	case level < sched.SameRack && f.Ever(j, n, sched.SameRack) < n:
		r.Level = sched.CrossRack
		r.Have, r.Where = f.onFewest(j, n, r.Level)
	case level == sched.SameRack, level == sched.SameMachine && n > f.c.MaxGPUs():
		r.Level, r.Have = sched.SameRack, 0
		for i, free := range f.rackFree {
			if free > r.Have {
				r.Have, r.Where = free, int32(i+1)
			}
		}
	case level < sched.SameRack:
		r.Have = 0
		for k := len(f.buckets) - 1; k > 0 && r.Have == 0; k-- {
			if f.filled[k] > 0 {
				f.types(j, func(t int) bool {
					if i, ok := f.first(k, region{t, anyRack}, func(int) bool { return true }); ok {
						r.Have, r.Where = k, int32(i+1)
						return true
					}
					return false
				})
			}
		}
	}
	return r
}

// whyMarked is Why for a job that not all nodes take, and that an empty cluster
// could host on those that do: only they count.
func (f *Free) whyMarked(j *sched.Job, n int, level sched.Level) sched.Reason {
	types, racks, best := make([]int, len(f.c.Types)), make([]int, len(f.c.Racks)), sched.Reason{}
	for i := range f.c.Nodes {
		if !f.ready.has(i) || !j.Suits(&f.c.Nodes[i]) {
			continue
		}
		k := f.whole[i].Len()
		types[f.c.TypeOf(i)] += k
		racks[f.c.RackOf(i)] += k
		if k > best.Have {
			best.Have, best.Where = k, int32(i+1)
		}
	}
	free := slices.Max(types)
	if free < n {
		return sched.Reason{Code: sched.Full, Need: n, Have: free, Marked: j.Selector != ""}
	}
	r := sched.Reason{Code: sched.Fragmented, Need: n, Level: level, Have: free, Marked: j.Selector != ""}
	switch {
	case level < sched.SameRack && f.Ever(j, n, sched.SameRack) < n:
		r.Level = sched.CrossRack
	case level == sched.SameRack, level == sched.SameMachine && n > f.c.MaxGPUs():
		r.Level, r.Have = sched.SameRack, slices.Max(racks)
		r.Where = int32(1 + slices.Index(racks, r.Have))
	case level < sched.SameRack:
		r.Have, r.Where = best.Have, best.Where
	}
	return r
}

// Ever returns how many GPUs the job could have within the level if nothing
// else ran, up to n.
func (f *Free) Ever(j *sched.Job, n int, level sched.Level) int {
	key := shapeOf(j, everLevel(j, level))
	if len(j.Topology) > 0 {
		most := 0
		f.types(j, func(t int) bool {
			most = max(most, f.everInDomains(j, n, t, key))
			return false
		})
		return most
	}
	f.types(j, func(t int) bool {
		key.types |= 1 << min(t, 63)
		return false
	})
	most, known := f.ever[key]
	if !known {
		f.types(j, func(t int) bool {
			most = max(most, f.most(j, t, key.level))
			return false
		})
		f.recall(key, most)
	}
	return min(most, n)
}

// EverOn is Ever for GPUs of one type, whether the job accepts it or not.
func (f *Free) EverOn(t int, j *sched.Job, n int, level sched.Level) int {
	key := shapeOf(j, everLevel(j, level))
	if len(j.Topology) > 0 {
		return f.everInDomains(j, n, t, key)
	}
	key.types = 1 << min(t, 63)
	most, known := f.ever[key]
	if !known {
		most = f.most(j, t, key.level)
		f.recall(key, most)
	}
	return min(most, n)
}

// everLevel is the level of Ever: one below the rack is a wish that grows with the job,
// unless the job itself set the bound.
func everLevel(j *sched.Job, level sched.Level) sched.Level {
	if level = bound(j, level); level <= sched.SameMachine {
		return bound(j, sched.CrossRack)
	}
	return level
}

// recall adds an answer of Ever to its cache.
func (f *Free) recall(key shape, most int) {
	if len(f.c.Types) < 64 { // else two sets of types may share a key
		f.ever = remember(f.ever, key, most)
	}
}

// shape is all of a job that decides how much of an empty cluster it could use.
type shape struct {
	types     uint64 // a set of indexes into Cluster.Types
	level     sched.Level
	task      int
	cpus      int
	memory    int64
	gpuMemory int64
	needs     string
	topology  string
}

func shapeOf(j *sched.Job, level sched.Level) shape {
	return shape{level: level, task: j.Task(), cpus: j.CPUs, memory: j.Memory, gpuMemory: j.GPUMemory, needs: j.Selector, topology: j.TopologyKey()}
}

// need is a shape with a number of GPUs.
type need struct {
	shape
	gpus int
}

// remember adds a value to a cache.
func remember[K comparable](cache map[K]int, key K, value int) map[K]int {
	const limit = 10_000 // shapes; a queue has few
	if cache == nil || len(cache) >= limit {
		cache = map[K]int{}
	}
	cache[key] = value
	return cache
}

// most returns how many GPUs of a type the job could have within the level if nothing
// else ran.
func (f *Free) most(j *sched.Job, t int, level sched.Level) int {
	most, all := 0, 0
	racks := make([]int, len(f.c.Racks))
	for i := range f.c.Nodes {
		node := &f.c.Nodes[i]
		if f.c.TypeOf(i) != t || node.State == sched.Down {
			continue
		}
		k := f.capacity(j, i)
		racks[f.c.RackOf(i)] += k
		all += k
		switch {
		case level == sched.SameSlot && len(node.Islands) > 0:
			for _, island := range node.Islands {
				most = max(most, min(k, (island&node.Usable()).Len()))
			}
		case level <= sched.SameMachine:
			most = max(most, k)
		}
	}
	switch {
	case level == sched.SameRack:
		most = slices.Max(racks)
	case level > sched.SameRack:
		most = all
	}
	return most
}

// When returns the time at which a waiting job could start if the running jobs
// end as estimated, nothing new is started, and it is content with the level.
// It is zero when too few of the running jobs have an estimate.
//
// It is meant for explaining a plan to a person, not for every decision: it
// costs one trial placement for each running job.
func When(s *sched.Snapshot, plan sched.Plan, j *sched.Job, level sched.Level) time.Time {
	f := NewFree(s.Cluster)
	type end struct {
		at  time.Time
		job int
	}
	var ends []end
	for i, other := range s.Jobs {
		if len(plan.Want[i]) == 0 {
			continue
		}
		f.Take(other, plan.Want[i])
		if left, ok := other.Remaining(s.Now); ok {
			ends = append(ends, end{s.Now.Add(left), i})
		}
	}
	slices.SortFunc(ends, func(a, b end) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(s.Jobs[a.job].Seq, s.Jobs[b.job].Seq))
	})
	for _, e := range ends {
		f.Release(s.Jobs[e.job], plan.Want[e.job])
		if f.total < j.GPUs {
			continue
		}
		if _, ok := f.Within(j, j.GPUs, level); ok {
			return e.at
		}
	}
	return time.Time{}
}
