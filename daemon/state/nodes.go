// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// clusterActor is the actor of records about nodes that the cluster lists.
const clusterActor = "cluster"

// SetNodes replaces the list of nodes: new ones join, changed ones are updated,
// and those that are Down or missing lose their jobs. A list that changes nothing
// makes no record.
//
// For GPUs that others hold, only the number counts: where the cluster allocates
// them, it is unknown which they are. The state chooses which to set aside, the
// same as before where possible, and never one that a job holds: the executor
// handles conflicts. For the same reason a node never has fewer CPUs or less
// memory than its jobs hold.
//
// A node that an administrator of Fairway cordoned, or that is in quarantine,
// stays so whatever the list says.
func (b *Store) SetNodes(ctx context.Context, nodes []sched.Node) error {
	named := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		if named[n.Name] {
			return fmt.Errorf("set nodes: node %q is listed twice; names must differ", n.Name)
		}
		named[n.Name] = true
	}
	if _, err := sched.NewCluster(nodes); err != nil {
		return fmt.Errorf("set nodes: %w", err)
	}
	b.mu.RLock()
	differs := b.mem.differ(nodes, named)
	b.mu.RUnlock()
	if !differs {
		return nil
	}
	return b.commit(ctx, func(t *tx) error {
		t.actor, t.decides = clusterActor, true
		for _, old := range t.mem.state.Cluster().Nodes {
			if !named[old.Name] && old.State != sched.Down {
				if err := t.retire(old); err != nil {
					return err
				}
			}
		}
		held := t.mem.heldOn()
		for _, n := range nodes {
			if err := t.setNode(n, held); err != nil {
				return err
			}
		}
		return nil
	})
}

// differ reports whether a list of nodes would change anything.
func (m *memory) differ(nodes []sched.Node, named map[string]bool) bool {
	cluster := m.state.Cluster()
	for i := range cluster.Nodes {
		if old := &cluster.Nodes[i]; !named[old.Name] && old.State != sched.Down {
			return true
		}
	}
	held := m.heldOn()
	for _, n := range nodes {
		i, ok := cluster.Node(n.Name)
		if !ok {
			return true
		}
		old := cluster.Nodes[i]
		if n.State == sched.Down && old.State == sched.Down {
			continue
		}
		if old.State == sched.Down || !equalNode(old, m.settled(n, old, held[i])) {
			return true
		}
	}
	return false
}

// setNode is SetNodes for one node. held is what jobs hold, or held before some
// were taken off.
func (t *tx) setNode(n sched.Node, held map[int]nodeUse) error {
	cluster := t.mem.state.Cluster()
	i, ok := cluster.Node(n.Name)
	if !ok {
		return t.event(sched.Event{Kind: sched.NodeJoined, Node: &n})
	}
	old := cluster.Nodes[i]
	switch {
	case n.State == sched.Down && old.State == sched.Down:
		return nil
	case n.State == sched.Down:
		return t.retire(old)
	}
	if old.State != sched.Down && equalNode(old, t.mem.settled(n, old, held[i])) {
		return nil
	}
	err := t.vacate(i, "the GPUs of node "+n.Name+" have changed", func(j *sched.Job, s sched.Slice) bool {
		return s.GPUs&^sched.FirstGPUs(n.GPUs) != 0 || !j.Accepts(n.Type) || n.Type != old.Type && len(j.Placement) > 1 ||
			n.GPUMemory > 0 && n.GPUMemory < old.GPUMemory
	})
	if err != nil {
		return err
	}
	n = t.mem.settled(n, old, t.mem.heldOn()[i])
	return t.event(sched.Event{Kind: sched.NodeJoined, Node: &n})
}

// vacate takes jobs off a node if goes returns true for their slice.
func (t *tx) vacate(node int, why string, goes func(*sched.Job, sched.Slice) bool) error {
	for _, x := range t.mem.inOrder() {
		if slices.ContainsFunc(x.Job.Suspended, func(s sched.Slice) bool { return int(s.Node) == node && goes(x.Job, s) }) {
			if err := t.event(sched.Event{Kind: sched.JobSuspension, Job: x.Job.ID, Text: why + ": " + x.lost()}); err != nil {
				return err
			}
		}
		if slices.ContainsFunc(x.Job.Placement, func(s sched.Slice) bool { return int(s.Node) == node && goes(x.Job, s) }) {
			if err := t.event(sched.Event{Kind: sched.JobHeld, Job: x.Job.ID, Until: t.now, Text: why}); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodeUse is what jobs hold of a node.
type nodeUse struct {
	gpus   sched.GPUSet
	cpus   int
	memory int64
}

// heldOn returns what jobs hold, by node.
func (m *memory) heldOn() map[int]nodeUse {
	out := map[int]nodeUse{}
	for _, j := range m.state.Peek().Jobs {
		for _, s := range j.Placement {
			u := out[int(s.Node)]
			u.gpus |= s.GPUs
			u.cpus += s.GPUs.Len() * j.CPUs
			u.memory += int64(s.GPUs.Len()) * j.Memory
			out[int(s.Node)] = u
		}
	}
	return out
}

// settled returns the new node, given the old one and what jobs hold of it.
func (m *memory) settled(n, old sched.Node, held nodeUse) sched.Node {
	n.Others = settleOthers(n, old.Others, held.gpus)
	if n.CPUs > 0 {
		n.CPUs = max(n.CPUs, held.cpus)
	}
	if n.Memory > 0 {
		n.Memory = max(n.Memory, held.memory)
	}
	if q, accused := m.Quarantines[n.Name]; n.State == sched.Ready && (m.Cordons[n.Name] || accused && q.State == diagnose.Quarantined) {
		n.State = sched.Cordoned
	}
	return n
}

// settleOthers chooses the GPUs of a node that others are assumed to hold.
func settleOthers(n sched.Node, before, held sched.GPUSet) sched.GPUSet {
	k := n.Others.Len()
	may := sched.FirstGPUs(n.GPUs) &^ held
	kept := (may & before).Lowest(k)
	return kept | (may &^ kept).Lowest(k-kept.Len())
}

// hasNode reports whether a node of that name exists and is not down.
func (m *memory) hasNode(n *sched.Node) bool {
	if n == nil {
		return false
	}
	i, ok := m.state.Cluster().Node(n.Name)
	return ok && m.state.Cluster().Nodes[i].State != sched.Down
}

// cordoned records that an administrator has cordoned or uncordoned a node.
func (m *memory) cordoned(name string, is bool) {
	switch {
	case !is:
		delete(m.Cordons, name)
	case m.Cordons == nil:
		m.Cordons = map[string]bool{name: true}
	default:
		m.Cordons[name] = true
	}
}

// NodeName returns the name of a node by its number in placements; empty: there is
// none.
func (b *Store) NodeName(number int32) string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	nodes := b.mem.state.Cluster().Nodes
	if number < 0 || int(number) >= len(nodes) {
		return ""
	}
	return nodes[number].Name
}
