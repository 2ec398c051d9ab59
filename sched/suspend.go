// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"slices"
	"time"
)

// Suspending a job in place takes it off its GPUs without its help: its processes
// stay, what they had on the GPUs is in the memory of their node, and they go on
// there later as if nothing had happened. It is for jobs that would lose work if
// they were stopped. A job that saves its work is stopped, because it can then go
// on anywhere.

// Suspension is what is known about suspending a job.
type Suspension struct {
	Memory int64    `json:"memory,omitempty"` // bytes of host memory that hold what it had on its GPUs
	Out    Duration `json:"out,omitempty"`    // how long it took to leave its GPUs
	Back   Duration `json:"back,omitempty"`   // and to come back
	// Failed is why it could not be suspended; it is not tried again before Until
	// or, if that is zero, at all.
	Failed string    `json:"failed,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// fresh returns what another attempt of the job still knows: what is measured stays
// true, what failed may work.
func (s *Suspension) fresh() *Suspension {
	if s == nil || s.Failed == "" {
		return s
	}
	return &Suspension{Memory: s.Memory, Out: s.Out, Back: s.Back}
}

// How fast GPU memory goes to the host and back, in bytes for each second, measured
// on an H200 (docs/suspend.md).
const (
	outRate  = 1.6e9
	backRate = 4.5e9
)

// losesWork reports whether the job is protected because stopping it loses work.
func (j *Job) losesWork() bool { return j.Protected && (j.Can < Saves || j.SaveFailed) }

// Bound reports whether the job is suspended and can go on only where it was.
func (j *Job) Bound() bool { return len(j.Suspended) > 0 && j.losesWork() }

// Tied reports whether the job can be on certain GPUs only: those that it has or had.
func (j *Job) Tied() bool { return j.tied() != nil }

// tied returns the only GPUs that the job may have; nil: it is not tied to any.
func (j *Job) tied() Placement {
	switch {
	case j.Phase == Pending && j.Bound():
		return j.Suspended
	case j.Phase == Running && j.Suspends:
		return j.Placement
	}
	return nil
}

// AwayMemory returns the bytes of host memory that hold what the job has on its GPUs
// while it is suspended: as measured, or else as it asks for.
func (j *Job) AwayMemory() int64 {
	if j.Suspension != nil && j.Suspension.Memory > 0 {
		return j.Suspension.Memory
	}
	return j.GPUMemory * int64(max(j.Placement.GPUs(), j.Suspended.GPUs()))
}

// SuspendCost returns how long it takes to suspend the job and to let it go on: as
// measured, or else by its memory.
func (j *Job) SuspendCost() (out, back time.Duration) {
	memory := float64(j.AwayMemory())
	out, back = time.Duration(memory/outRate*1e9), time.Duration(memory/backRate*1e9)
	if s := j.Suspension; s != nil {
		out, back = cmp.Or(s.Out.D(), out), cmp.Or(s.Back.D(), back)
	}
	return out, back
}

// SuspendedMemory returns all bytes of its node that the job holds while suspended.
func (j *Job) SuspendedMemory() int64 {
	return j.AwayMemory() + j.Memory*int64(j.Suspended.GPUs())
}

// suspension records what was measured or, without a Suspension, that the state of a
// suspended job is lost.
func (j *Job) suspension(e Event) error {
	if e.Suspension == nil {
		j.Suspended = nil
		return nil
	}
	s := *e.Suspension
	if old := j.Suspension; old != nil {
		s.Memory, s.Out, s.Back = cmp.Or(s.Memory, old.Memory), cmp.Or(s.Out, old.Out), cmp.Or(s.Back, old.Back)
	}
	j.Suspension = &s
	return nil
}

// book brings up to date what suspended jobs hold of each node, and which running
// jobs can be suspended.
func (st *State) book(now time.Time) {
	if !st.cluster.suspends {
		return
	}
	suspended, asked := make([]int64, len(st.cluster.Nodes)), make([]int64, len(st.cluster.Nodes))
	sits := map[[2]int]int{} // suspended jobs, by node and GPU, where seats are counted
	for _, j := range st.jobs {
		if j.Bound() && j.Phase == Pending {
			at := j.Suspended[0]
			suspended[at.Node] += j.SuspendedMemory()
			if st.cluster.Nodes[at.Node].Seats > 0 {
				for _, g := range at.GPUs.Indexes() {
					sits[[2]int{int(at.Node), g}]++
				}
			}
		}
		for _, s := range j.Placement {
			asked[s.Node] += j.Memory * int64(s.GPUs.Len())
		}
	}
	changed := false
	for i, n := range st.cluster.Nodes {
		changed = changed || n.SuspendedMemory != suspended[i]
	}
	if changed {
		c := *st.cluster
		c.Nodes = slices.Clone(c.Nodes)
		for i := range c.Nodes {
			c.Nodes[i].SuspendedMemory = suspended[i]
		}
		st.cluster = &c
	}
	everywhere := st.cluster.suspendsEverywhere()
	for _, j := range st.jobs {
		j.Suspends = everywhere && st.cluster.couldSuspend(j, now)
		if p := j.Placement; len(p) == 1 && j.losesWork() && !j.Screening && !j.refuses(now) {
			n := &st.cluster.Nodes[p[0].Node]
			room := n.Memory - suspended[p[0].Node] - asked[p[0].Node]
			j.Suspends = n.Suspend && p[0].Milli == WholeGPU && (n.Memory == 0 || j.AwayMemory() <= room)
			if j.Suspends && n.Seats > 0 { // it keeps its seat, and whoever follows needs one
				for _, g := range p[0].GPUs.Indexes() {
					j.Suspends = j.Suspends && sits[[2]int{int(p[0].Node), g}]+2 <= n.Seats
				}
			}
		}
	}
}

// Suspends reports whether a job that waits can be suspended wherever it starts.
func (c *Cluster) Suspends(j *Job, now time.Time) bool {
	return c.suspends && c.suspendsEverywhere() && c.couldSuspend(j, now)
}

// suspendsEverywhere reports whether all nodes that are up suspend jobs.
func (c *Cluster) suspendsEverywhere() bool {
	return !slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.State != Down && !n.Suspend })
}

// couldSuspend reports whether a job waits that nodes which suspend jobs could suspend.
func (c *Cluster) couldSuspend(j *Job, now time.Time) bool {
	return j.Phase == Pending && j.losesWork() && !j.Shareable && !j.refuses(now) &&
		(j.GPUs == 1 || len(c.Nodes) == 1 || j.MaxSpread == SameSlot || j.MaxSpread == SameMachine)
}

// refuses reports whether suspending the job has failed and is not tried again yet.
func (j *Job) refuses(now time.Time) bool {
	s := j.Suspension
	return s != nil && s.Failed != "" && (s.Until.IsZero() || now.Before(s.Until))
}

// Tie returns the plan with every job that can go on only where its state is put
// there: a running job that the policy would move stays if nobody else gets its GPUs,
// and is suspended otherwise; a suspended one goes on where it was, or waits. So a
// policy needs to know nothing of this, though one that does wastes fewer GPUs.
func Tie(s *Snapshot, plan Plan) Plan {
	if !s.Cluster.suspends || len(plan.Want) != len(s.Jobs) || len(plan.Why) != len(s.Jobs) {
		return plan
	}
	var astray []int
	for i, j := range s.Jobs {
		if t := j.tied(); t != nil && len(plan.Want[i]) > 0 && !plan.Want[i].Equal(t) {
			astray = append(astray, i)
		}
	}
	if len(astray) == 0 {
		return plan
	}
	plan.Want, plan.Why, plan.Screening = slices.Clone(plan.Want), slices.Clone(plan.Why), slices.Clone(plan.Screening)
	for _, i := range astray {
		plan.Want[i] = nil
	}
	slices.SortFunc(astray, func(a, b int) int { return cmp.Compare(s.Jobs[a].Seq, s.Jobs[b].Seq) })
	for _, i := range astray {
		j := s.Jobs[i]
		if plan.Screening != nil {
			plan.Screening[i] = false
		}
		if t := j.tied(); plan.hasRoom(s, j, t[0]) {
			plan.Want[i] = t
		} else {
			plan.Why[i] = Reason{Code: Tied, Need: t.GPUs(), Where: t[0].Node + 1}
		}
	}
	return plan
}

// hasRoom reports whether a plan leaves a slice, and CPUs and memory for it, to a job.
func (p *Plan) hasRoom(s *Snapshot, j *Job, t Slice) bool {
	n := &s.Cluster.Nodes[t.Node]
	if n.State == Down || n.State == Cordoned && j.Phase == Pending || t.GPUs&^n.Usable() != 0 {
		return false
	}
	cpus, memory := t.GPUs.Len()*j.CPUs, int64(t.GPUs.Len())*j.Memory+n.SuspendedMemory
	for i, want := range p.Want {
		other := s.Jobs[i]
		for _, w := range want {
			if w.Node != t.Node {
				continue
			}
			if w.GPUs&t.GPUs != 0 {
				return false
			}
			cpus += w.GPUs.Len() * other.CPUs
			memory += int64(w.GPUs.Len()) * other.Memory
		}
	}
	if j.Phase == Pending {
		memory -= j.SuspendedMemory()
	}
	return (n.CPUs == 0 || cpus <= n.CPUs) && (n.Memory == 0 || memory <= n.Memory)
}
