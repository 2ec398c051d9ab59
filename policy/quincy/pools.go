// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/policy/flow"
	"github.com/fairway-gpu/fairway/sched"
)

// addSpots adds the GPUs of the nodes that jobs of the flow may use.
func (n *network) addSpots() {
	c := n.s.Cluster
	held := make([]int, len(c.Nodes)) // by jobs that are not part of the flow
	mine := make([]int, len(c.Nodes)) // by those that are
	for _, j := range n.s.Jobs {
		for _, s := range j.Placement {
			if j.Pinned() {
				held[s.Node] += s.GPUs.Len()
			} else {
				mine[s.Node] += s.GPUs.Len()
			}
		}
		if t, ok := n.s.Tenant(j); ok && j.Pinned() && j.Phase == sched.Running {
			n.pinned[t] += j.Placement.GPUs()
		}
	}
	n.spots = make([]spot, len(c.Nodes))
	pools := map[poolKey]int{}
	for i := range c.Nodes {
		node := &c.Nodes[i]
		room := node.Usable().Len() - held[i]
		switch {
		case node.State == sched.Cordoned:
			n.spots[i] = spot{at: flow.Sink, pool: -1}
		case node.State != sched.Ready || room <= 0:
			n.spots[i] = spot{pool: -1, down: true}
		default:
			p := n.poolOf(node, pools)
			n.spots[i] = spot{at: n.pools[p].node, pool: p}
			if n.pools[p].room += room; mine[i] > room { // not all that are there can stay
				at := n.Node()
				n.Hang(at, n.Arc(at, n.pools[p].node, room, 0))
				n.spots[i] = spot{at: at, pool: -1}
			}
		}
	}
	for p := range n.pools {
		n.pools[p].out = n.Arc(n.pools[p].node, flow.Sink, n.pools[p].room, 0)
		n.memories = append(n.memories, n.pools[p].memory)
	}
	slices.Sort(n.memories)
	n.memories = slices.Compact(n.memories)
}

// poolOf returns the pool of a node.
func (n *network) poolOf(node *sched.Node, known map[poolKey]int) int {
	k := poolKey{gpu: node.Type, memory: node.GPUMemory}
	if n.marked {
		k.marks = fmt.Sprint(node.Dedicated, node.Labels)
	}
	p, ok := known[k]
	if !ok {
		p = len(n.pools)
		at := n.Node()
		known[k], n.poolAt[at] = p, p
		n.pools = append(n.pools, pool{node: at, gpu: node.Type, memory: node.GPUMemory, like: node})
	}
	return p
}

// poolKey is what the nodes of a pool have in common.
type poolKey struct {
	gpu    sched.GPUType
	memory int64
	marks  string
}

// anywhereFor returns the flow node that stands for all places where a job could
// run; -1: there is none.
func (n *network) anywhereFor(j *sched.Job) int32 {
	k := kind{needs: j.Selector}
	k.memory, _ = slices.BinarySearch(n.memories, j.GPUMemory)
	if len(j.GPUTypes) > 0 {
		names := make([]string, len(j.GPUTypes))
		for i, t := range j.GPUTypes {
			names[i] = string(t)
		}
		k.types = strings.Join(names, "\x00") + "\x00"
	}
	if at, ok := n.anywhere[k]; ok {
		return at
	}
	at := int32(-1)
	for _, r := range n.pools {
		if r.memory > 0 && j.GPUMemory > r.memory || n.marked && !r.like.Matches(j.Selector) {
			continue
		}
		rank := 0
		if len(j.GPUTypes) > 0 {
			if rank = slices.Index(j.GPUTypes, r.gpu); rank < 0 {
				continue
			}
		}
		first := at < 0
		if first {
			at = n.Node()
		}
		arc := n.Arc(at, r.node, flow.Unlimited, int64(rank)*cost(n.Type.D()))
		if first {
			n.Hang(at, arc)
		}
	}
	n.anywhere[k] = at
	return at
}

// tenants adds the cost of letting a tenant's jobs wait: none for GPUs that are
// neither above its limit nor below its quota. waiting is the first flow.
func (n *network) tenants(waiting map[int32]int) {
	const must = 1 << 40 * parts // more than any delay
	want := make([]int, len(n.demand))
	for t := range want {
		want[t] = n.demand[t] + n.pinned[t]
	}
	slices.SortFunc(n.able, func(a, b *sched.Job) int { return cmp.Compare(a.Seq, b.Seq) })
	for t, limit := range n.s.Caps(want, n.pinned, n.able) {
		all := n.demand[t]
		above := min(all, max(0, want[t]-limit))
		below := min(all-above, max(0, n.s.Quota(t)-n.pinned[t]))
		hung := false
		for _, part := range []struct {
			room int
			cost int64
		}{{above, -must}, {all - above - below, 0}, {flow.Unlimited, cost(n.Quota.D())}} {
			arc := n.Arc(n.waits[t], flow.Sink, part.room, part.cost)
			flow := min(waiting[n.waits[t]], part.room)
			waiting[n.waits[t]] -= flow
			n.Send(arc, flow)
			if !hung && flow < part.room {
				n.Hang(n.waits[t], arc)
				hung = true
			}
		}
	}
}
