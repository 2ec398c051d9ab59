// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// noteMachine records the machine if it differs from the journal. Jobs on GPUs
// that no longer exist lose them.
func (b *Store) noteMachine(t *tx) error {
	t.actor, t.decides = "machine", true
	node := b.Node
	if node.Name == "" {
		return nil // nodes come and go by SetNodes
	}
	// Other names in the journal are earlier names of this machine.
	for _, old := range t.mem.state.Cluster().Nodes {
		if old.Name != node.Name && old.State != sched.Down {
			if err := t.retire(old); err != nil {
				return err
			}
		}
	}
	if i, ok := t.mem.state.Cluster().Node(node.Name); ok {
		old := t.mem.state.Cluster().Nodes[i]
		if old.State != sched.Down { // it had another name in between
			node.State = old.State
		}
		if equalNode(old, node) {
			return nil
		}
		err := t.vacate(i, fmt.Sprintf("the machine has only %d GPUs now", node.GPUs), func(_ *sched.Job, s sched.Slice) bool {
			return s.GPUs&^sched.FirstGPUs(node.GPUs) != 0
		})
		if err != nil {
			return err
		}
	}
	return t.event(sched.Event{Kind: sched.NodeJoined, Node: &node})
}

// retire takes the jobs off a node and marks it down.
func (t *tx) retire(old sched.Node) error {
	i, _ := t.mem.state.Cluster().Node(old.Name)
	if err := t.vacate(i, "node "+old.Name+" is gone", func(*sched.Job, sched.Slice) bool { return true }); err != nil {
		return err
	}
	old.State, old.Others = sched.Down, 0
	return t.event(sched.Event{Kind: sched.NodeJoined, Node: &old})
}

func equalNode(a, b sched.Node) bool {
	return a.GPUs == b.GPUs && a.Type == b.Type && a.GPUMemory == b.GPUMemory && a.CPUs == b.CPUs && a.Memory == b.Memory &&
		a.Rack == b.Rack && a.State == b.State && a.Others == b.Others && a.Seats == b.Seats && slices.Equal(a.Islands, b.Islands) && slices.Equal(a.Domains, b.Domains) && slices.Equal(a.Labels, b.Labels) && a.Dedicated == b.Dedicated && a.Suspend == b.Suspend
}

// Overview implements api.Cluster. It does not wait for the journal, because it is
// where a journal that does not answer is seen.
func (b *Store) Overview(api.Identity) (api.Overview, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	m := b.mem
	o := api.Overview{
		Now: b.now(), Started: b.stats.started, Policy: m.Policy, GPUs: m.state.Cluster().GPUs(),
		Finished: m.Ends[sched.Finished], Failed: m.Ends[sched.Failed], Cancelled: m.Ends[sched.Cancelled],
		Decisions: m.Decisions, LastMS: b.stats.lastMS, Seq: b.feed.last,
	}
	if types := m.state.Cluster().Types; len(types) == 1 && types[0] == sched.CPUSlot {
		o.CPUSlots = true
	}
	if o.StartingPaused = b.paused(); o.StartingPaused != "" {
		o.Problem = "starting jobs is paused: " + o.StartingPaused
	}
	for _, part := range slices.Sorted(maps.Keys(b.stats.problem)) {
		o.Problem = strings.TrimPrefix(o.Problem+"; "+part+": "+b.stats.problem[part], "; ")
	}
	if len(m.Damages) > 0 {
		o.Damages = slices.Clone(m.Damages)
		o.Problem = strings.TrimSuffix(describeDamage(m.Damages)+"; "+o.Problem, "; ")
	}
	for _, x := range slices.Backward(m.Ended) {
		if o.Now.Sub(x.Ended) > 24*time.Hour {
			break
		}
		if x.Job.Phase == sched.Failed {
			o.FailedDay++
		}
	}
	for _, x := range m.inOrder() {
		switch {
		case x.Job.Phase == sched.Running:
			o.Running++
			o.Held += x.Job.Placement.GPUs()
			if n := len(x.Points); n > 0 && x.Points[n-1].Efficiency > 0 {
				o.Reporting += x.Job.Placement.GPUs()
				o.Useful += float64(x.Job.Placement.GPUs()) * min(1, x.Points[n-1].Efficiency)
			}
		case x.PausedBy != "":
			o.Paused++
		default:
			o.Waiting++
			if o.WaitingFor == nil {
				o.WaitingFor = map[string]int{}
			}
			o.WaitingFor[b.waitsFor(x)]++
		}
	}
	for _, x := range m.waiting {
		o.Waiting++
		if o.WaitingFor == nil {
			o.WaitingFor = map[string]int{}
		}
		o.WaitingFor[b.waitsFor(x)]++
	}
	return o, nil
}

// paused returns why nothing is started; empty: it is.
func (b *Store) paused() string {
	if b.Paused == nil {
		return ""
	}
	return b.Paused()
}

// Nodes implements api.Cluster.
func (b *Store) Nodes(who api.Identity) ([]api.Node, error) {
	var use []*api.GPUUse
	if b.Use != nil {
		use = b.Use()
	}
	return durably(b, func() ([]api.Node, error) { return b.nodes(who, use), nil })
}

func (b *Store) nodes(who api.Identity, use []*api.GPUUse) []api.Node {
	cluster := b.mem.state.Cluster()
	holders := make([][]*sched.Job, len(cluster.Nodes))
	for _, x := range b.mem.inOrder() {
		for _, s := range x.Job.Placement {
			holders[s.Node] = append(holders[s.Node], x.Job)
		}
	}
	now := b.now()
	rate := b.mem.clusterRate(now)
	var out []api.Node
	for i, n := range cluster.Nodes {
		if n.State == sched.Down {
			continue
		}
		h := b.mem.NodeHours[n.Name]
		v := api.Node{Node: n, Up: true, Slots: make([]api.GPUSlot, n.GPUs), Failures: diagnose.RateOfNode(rate, h.Failures, h.hours(now))}
		if q, ok := b.mem.Quarantines[n.Name]; ok {
			v.Quarantine = &q
		}
		if n.Name == b.Node.Name && b.Warm != nil {
			v.Warm = b.Warm()
		}
		if n.Name == b.Node.Name {
			v.NoSuspend, v.Containers, v.NoContainers = b.NoSuspend, b.Containers, b.NoContainers
		} else if b.NoSuspendOn != nil {
			v.NoSuspend = b.NoSuspendOn(n.Name)
		}
		for g := range v.Slots {
			v.Slots[g].Index = g
			if n.Name == b.Node.Name && g < len(use) && use[g] != nil {
				u := *use[g]
				u.Processes = slices.Clone(u.Processes)
				for p := range u.Processes {
					if x := b.mem.jobs[u.Processes[p].Job]; x != nil && !who.Sees(x.Job.Tenant) {
						u.Processes[p].Job = ""
					}
				}
				v.Slots[g].Use = &u
			}
		}
		for _, j := range holders[i] {
			for _, s := range j.Placement {
				if int(s.Node) != i {
					continue
				}
				for _, g := range s.GPUs.Indexes() {
					id := j.ID
					if !who.Sees(j.Tenant) {
						id = "(other tenant)"
					}
					slot := &v.Slots[g]
					slot.Jobs = append(slot.Jobs, id)
					if slot.Since.IsZero() || j.Since.Before(slot.Since) {
						slot.Since = j.Since
					}
				}
			}
		}
		out = append(out, v)
	}
	return out
}

// SetNode implements api.Cluster.
func (b *Store) SetNode(ctx context.Context, who api.Identity, name string, state sched.NodeState) (api.Node, error) {
	if err := who.Require(api.Admin); err != nil {
		return api.Node{}, err
	}
	if state > sched.Cordoned {
		return api.Node{}, api.Errorf(api.Invalid, "is %d", state).On("state").Try("use ready or cordoned")
	}
	err := b.commit(ctx, func(t *tx) error {
		i, ok := t.mem.state.Cluster().Node(name)
		if !ok || t.mem.state.Cluster().Nodes[i].State == sched.Down {
			return api.Errorf(api.Unknown, "no node %q", name)
		}
		node := t.mem.state.Cluster().Nodes[i]
		node.State = state
		t.actor, t.decides = who.User, true
		return t.event(sched.Event{Kind: sched.NodeJoined, Node: &node})
	})
	if err != nil {
		return api.Node{}, err
	}
	nodes, err := b.Nodes(who)
	for _, n := range nodes {
		if n.Name == name {
			return n, err
		}
	}
	return api.Node{}, err
}
