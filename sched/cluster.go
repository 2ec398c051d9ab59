// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
)

// GPUType names a kind of GPU, such as "t4" or "h200".
type GPUType string

// CPUSlot is the type of nodes without GPUs, whose CPU slots count as GPUs.
const CPUSlot GPUType = "cpu"

// NodeState says whether a node may be used.
type NodeState uint8

// The states of a node.
const (
	Ready    NodeState = iota // takes new work
	Cordoned                  // keeps what runs on it, takes nothing new
	Down                      // holds nothing
)

// Node is one machine.
type Node struct {
	Name      string    `json:"name"`
	GPUs      int       `json:"gpus"`
	Type      GPUType   `json:"gpu_type,omitempty"`
	GPUMemory int64     `json:"gpu_memory,omitempty"` // bytes of each GPU; 0: unknown, not checked
	CPUs      int       `json:"cpus,omitempty"`       // 0: unknown, not checked
	Memory    int64     `json:"memory,omitempty"`     // bytes; 0: unknown, not checked
	Rack      string    `json:"rack,omitempty"`       // RDMA domain; nodes of one rack share a fast network
	Domains   []Domain  `json:"domains,omitempty"`    // where it is in a topology with more levels than racks, the widest first
	Islands   []GPUSet  `json:"islands,omitempty"`    // NVLink islands; none: all GPUs are one island
	Others    GPUSet    `json:"others,omitempty"`     // held by programs outside of Fairway now: nobody gets them
	Seats     int       `json:"seats,omitempty"`      // jobs that may be on each GPU at a time; 0: any number, 1: nobody shares
	State     NodeState `json:"state,omitempty"`
	// Suspend says that jobs can be suspended in place there, and SuspendedMemory is
	// how many bytes of its memory suspended jobs hold. Only a State sets the latter.
	Suspend         bool  `json:"suspend,omitempty"`
	SuspendedMemory int64 `json:"suspended_memory,omitempty"`
	// Labels name what the node offers beyond its numbers, in ascending order. A
	// job that selects one runs only on nodes that have it.
	Labels []string `json:"marks,omitempty"`
	// Dedicated reserves the node for jobs that select one of its labels.
	Dedicated bool `json:"kept,omitempty"`
}

// Rack is a set of nodes that share a fast network (an RDMA domain).
type Rack struct {
	Name  string
	Nodes []int // ascending
	GPUs  int   // usable ones of its nodes that are not Down
}

// Cluster is a set of nodes with the indexes over them that every policy
// needs. It is immutable: a change of the nodes makes a new Cluster.
type Cluster struct {
	Nodes []Node
	Racks []Rack    // in order of first appearance
	Types []GPUType // in order of first appearance

	levels    []level // the widest first
	rackOf    []int   // by node
	typeOf    []int   // by node, index into Types
	gpus      int     // usable ones of nodes that are not Down
	byType    []int   // the same by index into Types
	maxGPUs   int
	dedicated bool // some node is
	suspends  bool // some node can suspend jobs
	nodeByID  map[string]int
}

// NewCluster checks the nodes and builds the indexes.
func NewCluster(nodes []Node) (*Cluster, error) {
	c := &Cluster{
		Nodes:    slices.Clone(nodes),
		rackOf:   make([]int, len(nodes)),
		typeOf:   make([]int, len(nodes)),
		nodeByID: make(map[string]int, len(nodes)),
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if err := n.check(); err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
		if at := slices.IndexFunc(n.Domains, func(d Domain) bool { return d.Level == RackLevel }); at >= 0 {
			n.Rack = n.Domains[at].Name
		}
	}
	c.buildLevels()
	racks := c.bound(RackLevel, NoSize)
	types := map[GPUType]int{}
	for i, n := range c.Nodes {
		if _, dup := c.nodeByID[n.Name]; dup {
			return nil, fmt.Errorf("node %d: name %q is taken by another node; names must differ", i, n.Name)
		}
		c.nodeByID[n.Name] = i
		r := racks.DomainOf(i)
		if r == len(c.Racks) {
			c.Racks = append(c.Racks, Rack{Name: n.Rack})
		}
		t, ok := types[n.Type]
		if !ok {
			t = len(c.Types)
			types[n.Type] = t
			c.Types = append(c.Types, n.Type)
			c.byType = append(c.byType, 0)
		}
		c.rackOf[i], c.typeOf[i] = r, t
		c.Racks[r].Nodes = append(c.Racks[r].Nodes, i)
		c.maxGPUs = max(c.maxGPUs, n.GPUs)
		c.dedicated = c.dedicated || n.Dedicated
		c.suspends = c.suspends || n.Suspend
		if n.State != Down {
			usable := n.Usable().Len()
			c.gpus += usable
			c.byType[t] += usable
			c.Racks[r].GPUs += usable
		}
	}
	return c, nil
}

func (n Node) check() error {
	switch {
	case n.Name == "":
		return fmt.Errorf("name is empty; every node needs one")
	case n.GPUs < 0 || n.GPUs > MaxGPUs:
		return fmt.Errorf("gpus = %d; want 0 to %d", n.GPUs, MaxGPUs)
	case n.CPUs < 0:
		return fmt.Errorf("cpus = %d; want 0 or more", n.CPUs)
	case n.Memory < 0 || n.GPUMemory < 0:
		return fmt.Errorf("memory = %d, gpu_memory = %d; want 0 or more", n.Memory, n.GPUMemory)
	case n.Others&^FirstGPUs(n.GPUs) != 0:
		return fmt.Errorf("others = %s; want some of GPUs 0 to %d", n.Others, n.GPUs-1)
	case n.Seats < 0 || n.Seats > WholeGPU:
		return fmt.Errorf("seats = %d; want 0 (any number) to %d", n.Seats, WholeGPU)
	case n.State > Down:
		return fmt.Errorf("state = %d; want 0 (ready), 1 (cordoned) or 2 (down)", n.State)
	}
	var seen GPUSet
	for _, island := range n.Islands {
		if island&^FirstGPUs(n.GPUs) != 0 || island&seen != 0 {
			return fmt.Errorf("islands = %v; want disjoint sets of GPUs 0 to %d", n.Islands, n.GPUs-1)
		}
		seen |= island
	}
	if err := n.checkDomains(); err != nil {
		return err
	}
	return n.checkLabels()
}

// Usable returns the GPUs of the node that are Fairway's to give: all but those
// that others hold.
func (n *Node) Usable() GPUSet { return FirstGPUs(n.GPUs) &^ n.Others }

// GPUs returns the number of usable GPUs of all nodes that are not Down.
func (c *Cluster) GPUs() int { return c.gpus }

// GPUsOf returns the same for one type, by its index in Types.
func (c *Cluster) GPUsOf(t int) int { return c.byType[t] }

// MaxGPUs returns the size of the largest node.
func (c *Cluster) MaxGPUs() int { return c.maxGPUs }

// HasDedicated reports whether some node is dedicated to jobs that select it. If
// not, a job without a selector fits every node of its type.
func (c *Cluster) HasDedicated() bool { return c.dedicated }

// RackOf returns the index in Racks of a node's rack.
func (c *Cluster) RackOf(node int) int { return c.rackOf[node] }

// TypeOf returns the index in Types of a node's GPU type.
func (c *Cluster) TypeOf(node int) int { return c.typeOf[node] }

// Node returns the index of the node with that name.
func (c *Cluster) Node(name string) (int, bool) {
	i, ok := c.nodeByID[name]
	return i, ok
}

// Level is how far apart the GPUs of a placement are.
type Level uint8

// The levels, from near to far. The zero Level means "not limited" in a
// request and "no GPUs" in an answer.
const (
	NoLevel     Level = iota
	SameSlot          // one NVLink island
	SameMachine       // one node
	SameRack          // one RDMA domain
	CrossRack         // anywhere
)

var levelNames = [...]string{"none", "slot", "machine", "rack", "cross-rack"}

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(b []byte) error {
	i := slices.Index(levelNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("level %q: want one of %v", b, levelNames[1:])
	}
	*l = Level(i)
	return nil
}

// Level returns the widest level that the placement spans.
func (c *Cluster) Level(p Placement) Level {
	switch {
	case len(p) == 0:
		return NoLevel
	case len(p) == 1:
		islands := c.Nodes[p[0].Node].Islands
		for _, island := range islands {
			if p[0].GPUs&^island == 0 {
				return SameSlot
			}
		}
		if len(islands) == 0 || p[0].GPUs.Len() == 1 {
			return SameSlot
		}
		return SameMachine
	}
	rack := c.rackOf[p[0].Node]
	for _, s := range p[1:] {
		if c.rackOf[s.Node] != rack {
			return CrossRack
		}
	}
	return SameRack
}
