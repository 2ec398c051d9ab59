// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import "github.com/fairway-gpu/fairway/sched"

// Job is one job as a search sees it.
type Job struct {
	// What the search asks for all the time is next to each other.
	tenant   int     // index in Snapshot.Tenants; -1: no limit
	held     row     // what it has and may keep; nil: nothing
	heldCost float64 // cost if it keeps held
	fewest   int     // GPUs it can run on
	most     int     // GPUs it may have

	*sched.Job
	Index  int    // in Snapshot.Jobs
	Kinds  []Kind // the GPU types it accepts
	demand demand
	widest Span // the widest span it may have
}

// Kind is what one type of GPU means to one job.
type Kind struct {
	Type  int    // index in Cluster.Types
	Curve *Curve // nil: no model
	reach reach
}

// kind returns the job's entry for a type of GPU; nil: it does not accept that
// type.
func (j *Job) kind(t int) *Kind {
	for i := range j.Kinds {
		if j.Kinds[i].Type == t {
			return &j.Kinds[i]
		}
	}
	return nil
}

// demand is the part of a job's request that decides how much of a node it can use.
type demand struct {
	task, cpus        int
	memory, gpuMemory int64
	island            bool // its GPUs must be in one island
	among             int  // the nodes that it may use: an index in board.sets; 0: all
}

// reach is the most GPUs of a type that a demand could get on one node, in one rack
// and in all, if only pinned jobs ran.
type reach struct{ node, rack, all int }

// prepare fills in what a search needs to know about a job.
func (p *problem) prepare(j *Job, known *Curves) {
	p.describe(j)
	p.accept(j, known)
	p.objective.Meet(j)
	if p.keepable(j) {
		j.held = rowOf(j.Placement)
		j.most = max(j.most, j.held.gpus())
		j.heldCost = p.costAt(j, j.held, true)
	}
}

// describe fills in what a job asks for.
func (p *problem) describe(j *Job) {
	j.demand = demand{
		task: j.Task(), cpus: j.CPUs, memory: j.Memory, gpuMemory: j.GPUMemory, island: j.MaxSpread == sched.SameSlot,
	}
	switch j.MaxSpread {
	case sched.NoLevel, sched.CrossRack:
		j.widest = Far
	case sched.SameRack:
		j.widest = Near
	}
	j.tenant = -1
	if t, ok := p.s.Tenant(j.Job); ok && p.limited[t] {
		j.tenant = t
	}
	p.bound(j)
	p.confine(j)
}

// confine determines which nodes the job may use: those with the label it needs
// and, if they have room for it, none that it avoids.
func (p *problem) confine(j *Job) {
	if len(j.Avoid) > 0 {
		j.demand.among = p.blank.among(j.Selector, j.Avoid)
		for _, r := range p.reachOf(j.demand) {
			if r.all >= j.fewest {
				return
			}
		}
	}
	j.demand.among = p.blank.among(j.Selector, nil)
}

// accept finds the types of GPU the job may have and, from the known curves, its speed on
// them.
func (p *problem) accept(j *Job, known *Curves) {
	reaches, kinds := p.reachOf(j.demand), p.memory.kinds
	for t, name := range p.s.Cluster.Types {
		if j.Accepts(name) {
			kinds = append(kinds, Kind{Type: t, Curve: known.of(j.Perf, name), reach: reaches[t]})
		}
	}
	j.Kinds = kinds[len(p.memory.kinds):len(kinds):len(kinds)]
	p.memory.kinds = kinds
}

// bound sets the fewest and the most GPUs the job may have.
func (p *problem) bound(j *Job) {
	if !j.Elastic() {
		j.fewest, j.most = j.GPUs, j.GPUs
		return
	}
	j.fewest = j.MinGPUs
	for j.fewest < j.MaxGPUs && !j.legal(j.fewest) {
		j.fewest++
	}
	j.most = max(min(p.objective.Most(j), j.MaxGPUs, p.s.Cluster.GPUs()), j.fewest)
}

// legal reports whether the job can run at that size.
func (j *Job) legal(n int) bool { return j.Fits(n) && n%j.demand.task == 0 }

// keepable reports whether a running job may stay where it is: its nodes are still
// there, and it does not share its GPUs (an earlier policy may have shared them).
func (p *problem) keepable(j *Job) bool {
	if j.Phase != sched.Running || p.fixedAt(j) != nil || j.Placement.Shared() {
		return false
	}
	return j.kind(p.s.Cluster.TypeOf(int(j.Placement[0].Node))) != nil && p.free.Fits(j.Job, j.Placement)
}
