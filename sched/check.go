// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Violation is a rule of the house that a plan breaks: a bug of the policy.
type Violation struct {
	Rule string // "capacity", "gang", "quota", ...
	Job  JobID  // empty if no single job is at fault
	Text string
}

func (v Violation) String() string {
	if v.Job == "" {
		return v.Rule + ": " + v.Text
	}
	return fmt.Sprintf("%s: job %s: %s", v.Rule, v.Job, v.Text)
}

// PlanError is a plan that was refused.
type PlanError struct {
	Policy     string
	Violations []Violation
}

func (e *PlanError) Error() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "bug in policy %s: its plan breaks %d rule(s) and was not carried out", e.Policy, len(e.Violations))
	for i, v := range e.Violations {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Violations)-most)
			break
		}
		b.WriteString("; ")
		b.WriteString(v.String())
	}
	return b.String()
}

// Check returns every rule of the house that the plan breaks:
//
//   - known: the plan speaks of the jobs of the snapshot, and of nodes that
//     exist;
//   - reason: a job that does not run has a reason, and one that runs has none;
//   - capacity: no GPU is held for more than the whole of it, or while others
//     hold it, those that share one fit into its memory together, and no node
//     gives more CPUs or memory than it has;
//   - node: nothing new on a node that is not Ready, nothing at all on one that
//     is Down;
//   - gang: a job runs at a size it can run at, in whole tasks, or not at all; to
//     be screened, at any size up to what it asks for;
//   - fit: GPU type, GPU memory, locality and the mark of a node that it comes to
//     are what the job accepts, and a GPU is shared only by jobs that allow it (a
//     job may stay on a node that has lost its mark, or whose domain has changed);
//   - quota: no tenant gets more GPUs while it, with all below it, holds more than
//     its limit, where a part of a GPU counts as that part (a limit that was lowered
//     stops nobody by itself), and none starts jobs beyond its limit of their type;
//   - guarantee: no pinned job starts beyond what its tenant is guaranteed
//     (Guarantees);
//   - pinned: a running job that is not preemptible, or is protected and has not
//     shown that it can save its work, stays where it is; one that can be suspended
//     may have to wait, but it goes on where it was;
//   - back-off: no job is started before its time.
func Check(s *Snapshot, p Plan) []Violation {
	c := checker{s: s, p: p}
	if len(p.Want) != len(s.Jobs) || len(p.Why) != len(s.Jobs) || (p.Notes != nil && len(p.Notes) != len(s.Jobs)) || (p.Screening != nil && len(p.Screening) != len(s.Jobs)) {
		c.fail("known", nil, "the plan has %d placements, %d reasons, %d notes and %d screenings for %d jobs: it speaks of jobs that do not exist or leaves some out",
			len(p.Want), len(p.Why), len(p.Notes), len(p.Screening), len(s.Jobs))
		return c.out
	}
	c.held = make([]GPUSet, len(s.Cluster.Nodes))
	c.cpus = make([]int, len(s.Cluster.Nodes))
	c.memory = make([]int64, len(s.Cluster.Nodes))
	c.tenant = make([]int, len(s.Tenants))
	c.grows = make([]bool, len(s.Tenants))
	c.guarantees = s.Guarantees()
	c.pinned, c.pins = make([]int, len(c.guarantees)), make([]*Job, len(c.guarantees))
	for i, n := range s.Cluster.Nodes {
		c.memory[i] = n.SuspendedMemory
	}
	for i, j := range s.Jobs {
		if len(p.Want[i]) > 0 && j.Phase == Pending && j.Bound() {
			c.memory[j.Suspended[0].Node] -= j.SuspendedMemory() // it goes on
		}
	}
	for i, j := range s.Jobs {
		c.job(j, p.Want[i], p.Why[i])
		c.size(j, p.Want[i], p.screens(i))
	}
	for i, t := range s.Tenants {
		if limit := t.Limit(); c.grows[i] && c.tenant[i] > limit*WholeGPU {
			c.fail("quota", nil, "tenant %s would hold %g GPUs; its limit is %d", t.ID, float64(c.tenant[i])/WholeGPU, limit)
		}
	}
	c.checkBounds()
	for i, most := range c.guarantees {
		if c.pins[i] != nil && c.pinned[i] > most {
			c.fail("guarantee", c.pins[i], "it starts and cannot be preempted: such jobs would hold %g GPUs of a guarantee of %g",
				float64(c.pinned[i])/WholeGPU, float64(most)/WholeGPU)
		}
	}
	return c.out
}

// sharers sums up the jobs that share a GPU.
type sharers struct {
	milli  int
	jobs   int
	fresh  bool  // one of them comes now
	memory int64 // bytes
}

type checker struct {
	s   *Snapshot
	p   Plan
	out []Violation

	held   []GPUSet             // by node: GPUs held whole
	parts  map[[2]int32]sharers // by node and GPU
	cpus   []int
	memory []int64
	tenant []int  // thousandths of GPUs by tenant, with all below it
	grows  []bool // by tenant: some job of it or below gets more of GPUs than it has

	guarantees Guarantees
	pinned     []int  // by guarantee: thousandths of GPUs that pinned jobs hold
	pins       []*Job // by guarantee: a pinned job that starts
}

func (c *checker) fail(rule string, j *Job, format string, args ...any) {
	v := Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
	if j != nil {
		v.Job = j.ID
	}
	c.out = append(c.out, v)
}

func (c *checker) job(j *Job, want Placement, why Reason) {
	if j.Phase == Running && j.Pinned() && !want.Equal(j.Placement) {
		c.fail("pinned", j, "it runs on %s and has to stay there; the plan says %s",
			j.Placement.Text(c.s.Cluster), c.text(want))
	}
	if t := j.tied(); t != nil && len(want) > 0 && !want.Equal(t) {
		c.fail("pinned", j, "its state is on %s; the plan says %s", t.Text(c.s.Cluster), c.text(want))
	}
	if len(want) == 0 {
		if why.Code == Ok {
			c.fail("reason", j, "it does not run and the plan does not say why")
		}
		return
	}
	if why.Code != Ok {
		c.fail("reason", j, "it runs and the plan gives a reason (%s) why it does not", why.Code)
	}
	if j.Phase == Pending && !j.Ready(c.s.Now) {
		c.fail("back-off", j, "it may not start before %s", j.NotBefore.Format("15:04:05"))
	}
	for i, s := range want {
		if s.Node < 0 || int(s.Node) >= len(c.s.Cluster.Nodes) {
			c.fail("known", j, "node %d does not exist; there are %d", s.Node, len(c.s.Cluster.Nodes))
			return
		}
		for _, other := range want[:i] {
			if other.Node == s.Node {
				c.fail("gang", j, "node %s appears twice in its placement", c.s.Cluster.Nodes[s.Node].Name)
			}
		}
		c.slice(j, s)
	}
	c.locality(j, want)
	if j.Pinned() {
		i := c.guarantees.Of(c.s, j)
		c.pinned[i] += want.Milli()
		if j.Phase == Pending {
			c.pins[i] = j
		}
	}
	if i, ok := c.s.Tenant(j); ok {
		milli := want.Milli()
		for ; i >= 0; i = c.s.Parent(i) {
			c.tenant[i] += milli
			c.grows[i] = c.grows[i] || milli > j.Placement.Milli()
		}
	}
}

// locality checks how far apart the GPUs are. A job may stay where it is: the nodes may
// have moved.
func (c *checker) locality(j *Job, want Placement) {
	if j.MaxSpread == NoLevel && len(j.Topology) == 0 || want.Equal(j.Placement) || want.Equal(j.Suspended) {
		return
	}
	if l := c.s.Cluster.Level(want); j.MaxSpread != NoLevel && l > j.MaxSpread {
		c.fail("fit", j, "its GPUs would span level %s; it accepts %s at the widest", l, j.MaxSpread)
	}
	for _, b := range c.s.Cluster.RequiredBounds(j) {
		if !want.keeps(&b) {
			c.fail("fit", j, "on %s it would break its rule %q", c.text(want), Rule{Segment: b.Segment % NoSize, Required: b.Name}.String())
		}
	}
}

func (c *checker) slice(j *Job, s Slice) {
	n := &c.s.Cluster.Nodes[s.Node]
	k := s.GPUs.Len()
	if k == 0 || s.GPUs&^FirstGPUs(n.GPUs) != 0 {
		c.fail("known", j, "GPUs %s of node %s do not exist; it has %d", s.GPUs, n.Name, n.GPUs)
		return
	}
	if k%j.Task() != 0 {
		c.fail("gang", j, "node %s would hold %d of its GPUs; its tasks need %d each", n.Name, k, j.Task())
	}
	if n.State == Down || (n.State == Cordoned && !j.holds(s)) {
		c.fail("node", j, "node %s takes no new work", n.Name)
	}
	if taken := s.GPUs & n.Others; taken != 0 {
		c.fail("capacity", j, "GPUs %s of node %s are held by programs outside of Fairway", taken, n.Name)
	}
	if !j.Accepts(n.Type) {
		c.fail("fit", j, "node %s has GPUs of type %s; it accepts %v", n.Name, n.Type, j.GPUTypes)
	}
	if n.GPUMemory > 0 && j.GPUMemory > n.GPUMemory {
		c.fail("fit", j, "it needs %d bytes on a GPU; those of node %s have %d", j.GPUMemory, n.Name, n.GPUMemory)
	}
	if !n.Matches(j.Selector) && !j.isOn(s.Node) {
		c.fail("fit", j, "it requires the label %q; node %s has %q", j.Selector, n.Name, n.Labels)
	}
	c.hold(j, s, n)
	c.cpus[s.Node] += k * j.CPUs
	c.memory[s.Node] += int64(k) * j.Memory
	if n.CPUs > 0 && c.cpus[s.Node] > n.CPUs {
		c.fail("capacity", j, "node %s would give %d CPUs; it has %d", n.Name, c.cpus[s.Node], n.CPUs)
	}
	if n.Memory > 0 && c.memory[s.Node] > n.Memory {
		c.fail("capacity", j, "node %s would give %d bytes of memory; it has %d", n.Name, c.memory[s.Node], n.Memory)
	}
}

// hold books the GPUs of a slice and reports what is held twice.
func (c *checker) hold(j *Job, s Slice, n *Node) {
	if s.Milli <= 0 || s.Milli > WholeGPU {
		c.fail("capacity", j, "it would hold %d thousandths of each GPU of node %s; want 1 to %d", s.Milli, n.Name, WholeGPU)
		return
	}
	if s.Milli < j.Milli() && !j.Shareable {
		c.fail("fit", j, "it would hold %d thousandths of a GPU; it needs %d and may not be squeezed", s.Milli, j.Milli())
	}
	if twice := c.held[s.Node] & s.GPUs; twice != 0 {
		c.fail("capacity", j, "GPUs %s of node %s are held by another job", twice, n.Name)
	}
	if s.Milli == WholeGPU {
		c.held[s.Node] |= s.GPUs
		if len(c.parts) == 0 {
			return
		}
	}
	for g := s.GPUs; g != 0; g &= g - 1 {
		key := [2]int32{s.Node, int32(bits.TrailingZeros64(uint64(g)))}
		if c.parts == nil {
			c.parts = map[[2]int32]sharers{}
		}
		sum := c.parts[key]
		sum.milli += int(s.Milli)
		sum.jobs++
		sum.fresh = sum.fresh || !j.holds(s)
		sum.memory += j.GPUMemory
		c.parts[key] = sum
		if sum.milli > WholeGPU {
			c.fail("capacity", j, "GPU %d of node %s would be held for %d thousandths", key[1], n.Name, sum.milli)
		}
		if n.Seats > 0 && sum.jobs > n.Seats && sum.fresh {
			c.fail("capacity", j, "%d jobs would be on GPU %d of node %s; it takes %d", sum.jobs, key[1], n.Name, n.Seats)
		}
		if n.GPUMemory > 0 && sum.memory > n.GPUMemory {
			c.fail("capacity", j, "the jobs on GPU %d of node %s would need %d bytes of it; it has %d", key[1], n.Name, sum.memory, n.GPUMemory)
		}
	}
}

// size checks the number of GPUs. A running job may keep the size it has: one
// that is screened under a policy that knows of no screening, or that was pinned
// at another size.
func (c *checker) size(j *Job, want Placement, screening bool) {
	n := want.GPUs()
	switch {
	case n == 0 || j.Fits(n) || want.Equal(j.Placement):
	case screening && n > j.GPUs:
		c.fail("gang", j, "it would be screened on %d GPUs; it asks for %d", n, j.GPUs)
	case !screening:
		c.fail("gang", j, "it would run on %d GPUs; it runs at %s", n, j.sizes())
	}
}

func (c *checker) text(p Placement) string {
	for _, s := range p {
		if s.Node < 0 || int(s.Node) >= len(c.s.Cluster.Nodes) {
			return fmt.Sprint([]Slice(p))
		}
	}
	return p.Text(c.s.Cluster)
}

// holds reports whether the job already has that slice.
func (j *Job) holds(s Slice) bool { return slices.Contains(j.Placement, s) }

// isOn reports whether the job has GPUs of that node.
func (j *Job) isOn(node int32) bool {
	return slices.ContainsFunc(j.Placement, func(h Slice) bool { return h.Node == node })
}

func (j *Job) sizes() string {
	switch {
	case !j.Elastic():
		return fmt.Sprint(j.GPUs)
	case len(j.Sizes) > 0:
		return fmt.Sprintf("%v within %d to %d", j.Sizes, j.MinGPUs, j.MaxGPUs)
	}
	return fmt.Sprintf("%d to %d", j.MinGPUs, j.MaxGPUs)
}
