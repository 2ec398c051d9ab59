// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pollux

import "github.com/fairway-gpu/fairway/sched"

// job is one job as a search sees it.
type job struct {
	*sched.Job
	index  int // in Snapshot.Jobs
	tenant int // index in Snapshot.Tenants; -1: no limit
	demand demand
	kinds  []kind // the GPU types it accepts

	held     row     // what it has and may keep; nil: nothing
	heldCost float64 // cost if it keeps held
	factor   float64 // on the value of any other row
	fewest   int     // GPUs it can run on
	most     int     // GPUs it may have
	widest   span    // the widest span it may have
}

// kind is what one type of GPU means to one job.
type kind struct {
	index int     // in Cluster.Types
	curve *curve  // nil: no model; its speed is assumed to be linear
	fair  float64 // goodput on a fair share
	reach reach
}

// kind returns the job's entry for a type of GPU; nil: it does not accept that
// type.
func (j *job) kind(t int) *kind {
	for i := range j.kinds {
		if j.kinds[i].index == t {
			return &j.kinds[i]
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
func (p *problem) prepare(j *job, c Config, known *curves) {
	j.demand = demand{
		task: j.Task(), cpus: j.CPUs, memory: j.Memory, gpuMemory: j.GPUMemory, island: j.MaxSpread == sched.SameSlot,
	}
	switch j.MaxSpread {
	case sched.NoLevel, sched.CrossRack:
		j.widest = far
	case sched.SameRack:
		j.widest = near
	}
	j.tenant = -1
	if t, ok := p.s.Tenant(j.Job); ok && p.s.Tenants[t].Limit() < sched.NoLimit {
		j.tenant = t
	}
	age, delta := max(0, j.Age(p.s.Now).Seconds()), c.Restart.D().Seconds()
	j.factor = 1
	if delta > 0 {
		j.factor = max(0, age-float64(j.Restarts())*delta) / (age + delta)
	}
	p.bound(j)
	p.confine(j)
	p.accept(j, known)
	if p.keepable(j) {
		j.held = rowOf(j.Placement)
		j.most = max(j.most, j.held.gpus())
		j.heldCost = p.cost(p.rowValue(j, j.held))
	}
}

// confine determines which nodes the job may use: those with the label it needs
// and, if they have room for it, none that it avoids.
func (p *problem) confine(j *job) {
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

// accept finds the types of GPU the job may have and its speed on them. Its fair
// share is made of the types that it has a model for, in the cluster's proportions.
func (p *problem) accept(j *job, known *curves) {
	reaches := p.reachOf(j.demand)
	sum, weight := 0.0, 0.0
	for t, name := range p.s.Cluster.Types {
		if !j.Accepts(name) {
			continue
		}
		k := kind{index: t, curve: known.of(j.Perf, name), reach: reaches[t]}
		if k.curve != nil {
			w := float64(p.s.Cluster.GPUsOf(t))
			sum += w * k.curve.fair(p.share)
			weight += w
		}
		j.kinds = append(j.kinds, k)
	}
	for i := range j.kinds {
		if sum > 0 {
			j.kinds[i].fair = sum / weight
		} else {
			j.kinds[i].curve = nil
		}
	}
}

// bound sets the fewest and the most GPUs the job may have. A job may have at most
// twice its largest size so far.
func (p *problem) bound(j *job) {
	if !j.Elastic() {
		j.fewest, j.most = j.GPUs, j.GPUs
		return
	}
	j.most = max(1, 2*j.MostGPUs)
	if j.Perf != nil && j.Perf.MostGPUs > 0 {
		j.most = j.Perf.MostGPUs
	}
	j.fewest = j.MinGPUs
	for j.fewest < j.MaxGPUs && !j.legal(j.fewest) {
		j.fewest++
	}
	j.most = max(min(j.most, j.MaxGPUs, p.s.Cluster.GPUs()), j.fewest)
}

// legal reports whether the job can run at that size.
func (j *job) legal(n int) bool { return j.Fits(n) && n%j.demand.task == 0 }

// keepable reports whether a running job may stay where it is: its nodes are still
// there, and it does not share its GPUs (an earlier policy may have shared them).
func (p *problem) keepable(j *job) bool {
	if j.Phase != sched.Running || j.Pinned() || j.Placement.Shared() {
		return false
	}
	return j.kind(p.s.Cluster.TypeOf(int(j.Placement[0].Node))) != nil && p.free.Fits(j.Job, j.Placement)
}
