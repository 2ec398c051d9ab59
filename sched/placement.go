// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
	"strings"
)

// WholeGPU is the share, in thousandths, of a GPU that is not shared.
const WholeGPU = 1000

// Slice is what a job holds on one node.
type Slice struct {
	Node  int32  `json:"node"`  // index into Cluster.Nodes
	Milli int32  `json:"milli"` // thousandths held of each of the GPUs; WholeGPU is all of it
	GPUs  GPUSet `json:"gpus"`
}

// Placement is where a job runs: one Slice for each node, in rank order (the
// first slice hosts rank 0). No Slice means that the job does not run.
type Placement []Slice

// GPUs returns the number of GPUs held, whole or in part.
func (p Placement) GPUs() int {
	n := 0
	for _, s := range p {
		n += s.GPUs.Len()
	}
	return n
}

// Milli returns the thousandths of GPUs held: 1000 for each whole one.
func (p Placement) Milli() int {
	n := 0
	for _, s := range p {
		n += s.GPUs.Len() * int(s.Milli)
	}
	return n
}

// Shared reports whether any GPU is held only in part.
func (p Placement) Shared() bool {
	for _, s := range p {
		if s.Milli < WholeGPU {
			return true
		}
	}
	return false
}

// Equal reports whether two placements hold the same GPUs in the same order.
func (p Placement) Equal(q Placement) bool { return slices.Equal(p, q) }

// SameNodes reports whether two placements have the same number of GPUs on
// the same nodes, in the same order.
func (p Placement) SameNodes(q Placement) bool {
	return slices.EqualFunc(p, q, func(a, b Slice) bool {
		return a.Node == b.Node && a.GPUs.Len() == b.GPUs.Len()
	})
}

// Text prints a placement with the names of the nodes: "n0[0-3] n1[0-1]".
func (p Placement) Text(c *Cluster) string {
	if len(p) == 0 {
		return "-"
	}
	var b strings.Builder
	for i, s := range p {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s[%s]", c.Nodes[s.Node].Name, s.GPUs)
		if s.Milli < WholeGPU {
			fmt.Fprintf(&b, "x%.2g", float64(s.Milli)/WholeGPU)
		}
	}
	return b.String()
}
