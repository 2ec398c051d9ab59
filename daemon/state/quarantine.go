// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// Node health is computed from the records, so replay gives the same result. Only
// its decisions are records: one cordons a node, and one uncordons it when its
// quarantine is over.

// Limits on the log of ended attempts from which node health is computed.
const (
	maxNodeLog = 2000
	nodeLogAge = 24 * time.Hour
)

// nodeEvent is one entry of that log.
type nodeEvent struct {
	At       time.Time          `json:"at"`
	Kind     diagnose.Happening `json:"kind"`
	Nodes    []string           `json:"nodes"`
	Job      string             `json:"job,omitempty"`
	User     string             `json:"user,omitempty"`
	Category diagnose.Category  `json:"category,omitempty"`
	Flags    bool               `json:"convicts,omitempty"`
	Text     string             `json:"text,omitempty"`
	GPU      int                `json:"gpu,omitempty"` // with NodeSlow
	Rank     int                `json:"rank,omitempty"`
}

func newNodeHealth() *diagnose.Quarantine {
	q, err := diagnose.NewQuarantine(diagnose.DefaultQuarantine())
	if err != nil {
		panic(err) // its own defaults
	}
	return q
}

// noteNode logs what happened on nodes and returns how their health changes.
func (m *memory) noteNode(e nodeEvent) []diagnose.NodeChange {
	old := e.At.Add(-nodeLogAge)
	if n := len(m.NodeLog); n >= maxNodeLog || n > 0 && m.NodeLog[0].At.Before(old) {
		keep := slices.IndexFunc(m.NodeLog, func(o nodeEvent) bool { return !o.At.Before(old) })
		if keep < 0 {
			keep = n
		}
		m.NodeLog = slices.Clone(m.NodeLog[min(n, max(keep, n-maxNodeLog*3/4)):])
	}
	m.NodeLog = append(m.NodeLog, e)
	return m.nodeHealth.Apply(e.event())
}

func (e nodeEvent) event() diagnose.NodeEvent {
	return diagnose.NodeEvent{At: e.At, Kind: e.Kind, Nodes: e.Nodes, Job: e.Job, User: e.User, GPU: e.GPU, Rank: e.Rank,
		Finding: diagnose.Finding{Category: e.Category, Node: e.Flags, Text: e.Text}}
}

// rebuildNodeHealth computes node health from what a snapshot holds.
func (m *memory) rebuildNodeHealth() {
	m.nodeHealth = newNodeHealth()
	for _, n := range m.state.Cluster().Nodes {
		if n.State != sched.Down {
			m.nodeHealth.Apply(diagnose.NodeEvent{At: time.Time{}, Kind: diagnose.NodeAdded, Nodes: []string{n.Name}})
		}
	}
	for _, e := range m.NodeLog {
		m.nodeHealth.Apply(e.event())
	}
}

// noteExit logs the end of the attempt of a running job.
func (m *memory) noteExit(x *entry, r *api.Record) {
	e := r.Exit
	n := nodeEvent{
		At: r.At, Kind: diagnose.AttemptDone, Nodes: m.nodesOf(x.Job.Placement),
		Job: string(x.Job.ID), User: string(x.Job.Tenant) + "/" + x.Job.User,
	}
	switch f := e.Finding; {
	case e.Lost && f == nil:
		return
	case f != nil:
		if slices.ContainsFunc(e.Host, func(h diagnose.Event) bool { return h.Kind == api.HostRestarted }) {
			return // the node was restarted and is back: not held against it
		}
		n.Kind, n.Category, n.Flags, n.Text = diagnose.AttemptLost, f.Category, f.Node, f.Text
		if f.Node {
			n.Text += fmt.Sprintf(" (the attempt held %s)", x.Job.Placement.Text(m.state.Cluster()))
		}
	}
	if n.Kind == diagnose.AttemptLost && n.Category == diagnose.Infrastructure {
		m.countFailure(n.Nodes, r.At)
	}
	m.healthChanges = m.noteNode(n)
}

// recordQuarantines records what the last exit or slow rank changed.
func (t *tx) recordQuarantines() error {
	changes := t.mem.healthChanges
	t.mem.healthChanges = nil
	for _, c := range changes {
		i, ok := t.mem.state.Cluster().Node(c.Node)
		if !ok {
			continue
		}
		node := t.mem.state.Cluster().Nodes[i]
		switch {
		case c.State == diagnose.Quarantined && node.State == sched.Ready:
			node.State = sched.Cordoned
			text := fmt.Sprintf("node %s takes no new work until %s: %s", c.Node, c.Until.Format(time.RFC3339), c.Why)
			if err := t.add(api.Record{Event: &sched.Event{Kind: sched.NodeJoined, Node: &node}, Quarantine: &c, Text: text}); err != nil {
				return err
			}
		case c.State == diagnose.Withheld:
			c.Until = t.now.Add(diagnose.DefaultQuarantine().Window)
			if err := t.add(api.Record{Quarantine: &c, Text: fmt.Sprintf("node %s looks broken: %s", c.Node, c.Why)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// setQuarantine stores a decision about a node.
func (m *memory) setQuarantine(r *api.Record) {
	c := *r.Quarantine
	if c.State == diagnose.InUse {
		delete(m.Quarantines, c.Node)
		m.noteNode(nodeEvent{At: r.At, Kind: diagnose.ProbeGood, Nodes: []string{c.Node}})
		return
	}
	if m.Quarantines == nil {
		m.Quarantines = map[string]diagnose.NodeChange{}
	}
	m.Quarantines[c.Node] = c
}

// nodeSet notes that a node came, went, or was set by an operator, whose decision
// overrides node health. there: the node existed before.
func (m *memory) nodeSet(r *api.Record, there bool) {
	n := r.Event.Node
	m.countHours(n.Name, n.State != sched.Down, r.At)
	if byPerson(r) {
		m.cordoned(n.Name, n.State == sched.Cordoned)
	}
	if there && r.Actor == clusterActor && n.State != sched.Down {
		return // others came or went, no more
	}
	e := nodeEvent{At: r.At, Kind: diagnose.NodeAdded, Nodes: []string{n.Name}}
	switch _, accused := m.Quarantines[n.Name]; {
	case n.State == sched.Down:
		e.Kind = diagnose.NodeRemoved
		delete(m.Quarantines, n.Name)
	case r.Quarantine != nil:
		return
	case accused && byPerson(r):
		delete(m.Quarantines, n.Name)
		e.Kind = diagnose.Cleared
	}
	m.noteNode(e)
}

// byPerson reports whether an administrator caused the record of a node.
func byPerson(r *api.Record) bool {
	return r.Actor != "machine" && r.Actor != clusterActor && r.Quarantine == nil
}

// Release uncordons nodes whose quarantine is over. It is called periodically.
func (b *Store) Release(ctx context.Context) error {
	b.mu.RLock()
	due := b.mem.quarantineOver(b.now())
	b.mu.RUnlock()
	if len(due) == 0 {
		return nil
	}
	return b.commit(ctx, func(t *tx) error {
		t.actor, t.decides = "machine", true
		for _, name := range t.mem.quarantineOver(t.now) {
			c := diagnose.NodeChange{Node: name, State: diagnose.InUse, Why: "its quarantine is over"}
			r := api.Record{Quarantine: &c, Text: fmt.Sprintf("node %s takes work again: %s", name, c.Why)}
			i, ok := t.mem.state.Cluster().Node(name)
			if t.mem.Quarantines[name].State == diagnose.Withheld {
				c.Why = "no new failures"
				r.Text = fmt.Sprintf("node %s: %s", name, c.Why)
			} else if ok && t.mem.state.Cluster().Nodes[i].State == sched.Cordoned {
				node := t.mem.state.Cluster().Nodes[i]
				node.State = sched.Ready
				r.Event = &sched.Event{Kind: sched.NodeJoined, Node: &node}
			}
			if err := t.add(r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *memory) quarantineOver(now time.Time) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m.Quarantines)) {
		if !m.Quarantines[name].Until.After(now) {
			out = append(out, name)
		}
	}
	return out
}

// Note writes a message to the operator into the journal.
func (b *Store) Note(ctx context.Context, text string) error {
	return b.commit(ctx, func(t *tx) error {
		t.actor = "machine"
		return t.add(api.Record{Text: text})
	})
}

// quarantined counts the nodes in quarantine.
func (m *memory) quarantined() int {
	n := 0
	for _, c := range m.Quarantines {
		if c.State == diagnose.Quarantined {
			n++
		}
	}
	return n
}
