// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Quarantine keeps nodes out of use on which the jobs of several users fail. It
// is a state machine without a clock: Apply takes what happened, in the order of
// time, and returns what changes. The same events give the same changes.
//
// A node is flagged when, within Window, either one failure has a reason that
// flags it by itself (Finding.Node), or
//
//   - MinJobs different jobs failed on it, of MinUsers different users (of one,
//     if nobody else used the cluster in that time), and
//   - so many failures would be a rare chance: with k the weighted failures of
//     different jobs on the node, n the attempts that ended there and p the
//     weighted failures for each attempt on all other nodes, the Poisson
//     probability of k or more with mean n p is below Alpha over the number of
//     nodes.
//
// It is also flagged when a GPU of it is slow, and not by the design of a job
// (NodeSlow).
//
// A failure weighs 1 if infrastructure is to blame, 1/2 for the engine or an
// unknown reason, 1/10 for the user, divided by the nodes that share the blame;
// a job counts once on each node, with its heaviest failure.
//
// A flagged node is out for Base, twice as long each time, at most Longest;
// then it is to be probed, and is released when the probe succeeds, or when no
// answer comes within Patience. A node on which infrastructure fails again within
// Window of its release goes back at once. Never more than MaxShare of the nodes
// are out.
type Quarantine struct {
	config QuarantineConfig
	nodes  map[string]*nodeRecord
	now    time.Time
}

// QuarantineConfig are the numbers of a quarantine.
type QuarantineConfig struct {
	Window   time.Duration
	MinJobs  int
	MinUsers int
	Alpha    float64
	Base     time.Duration
	Longest  time.Duration
	Patience time.Duration // with a probe
	MaxShare float64       // of the nodes
}

// DefaultQuarantine returns the numbers of docs/failures.md.
func DefaultQuarantine() QuarantineConfig {
	return QuarantineConfig{Window: 6 * time.Hour, MinJobs: 3, MinUsers: 2, Alpha: 0.01,
		Base: time.Hour, Longest: 24 * time.Hour, Patience: 15 * time.Minute, MaxShare: 0.1}
}

// NodeState is where a node stands.
type NodeState string

// The states of a node.
const (
	InUse       NodeState = "in-use"
	Quarantined NodeState = "quarantined"
	Probing     NodeState = "probing"  // still out: run a probe on it
	Withheld    NodeState = "withheld" // flagged, but too many others are out; never a state, only a change
)

// Happening says what a NodeEvent is about.
type Happening string

// What happens to nodes.
const (
	NodeAdded   Happening = "added"
	NodeRemoved Happening = "removed"
	AttemptDone Happening = "done"   // an attempt ended well, or was stopped in good health
	AttemptLost Happening = "failed" // an attempt failed: Finding
	NodeSlow    Happening = "slow"   // a rank computes more slowly than its peers: GPU, Rank, Finding
	ProbeGood   Happening = "probe-good"
	ProbeBad    Happening = "probe-bad"
	Cleared     Happening = "pardoned" // by an operator
	Tick        Happening = "tick"     // time passes
)

// NodeEvent is one thing that happened to nodes.
type NodeEvent struct {
	At      time.Time
	Kind    Happening
	Nodes   []string // that it is about; those that share the blame for a failure
	Job     string
	User    string
	Finding Finding
	GPU     int // with NodeSlow: where the rank runs; -1: on several GPUs of the node
	Rank    int
}

// NodeChange is something to be done, and why.
type NodeChange struct {
	Node  string    `json:"node"`
	State NodeState `json:"state"`
	Until time.Time `json:"until,omitzero"` // end of the quarantine, or of the patience with a probe
	Why   string    `json:"why"`
}

// nodeRecord is what is remembered of a node.
type nodeRecord struct {
	state    NodeState
	until    time.Time
	times    int       // quarantines so far
	released time.Time // from the last one
	withheld bool      // said so already
	ends     []attemptEnd
	slow     []NodeEvent
}

// attemptEnd is one attempt that ended on a node. Weight 0: well.
type attemptEnd struct {
	at        time.Time
	job, user string
	weight    float64
}

// maxEnds and maxSlow bound what is remembered of one node.
const (
	maxEnds = 4096
	maxSlow = 64
)

// NewQuarantine starts with no node.
func NewQuarantine(c QuarantineConfig) (*Quarantine, error) {
	switch {
	case c.Window <= 0 || c.Base <= 0 || c.Patience <= 0 || c.Longest < c.Base:
		return nil, fmt.Errorf("quarantine: window %v, base %v, longest %v, patience %v; want all above 0 and longest >= base", c.Window, c.Base, c.Longest, c.Patience)
	case c.MinJobs < 1 || c.MinUsers < 1:
		return nil, fmt.Errorf("quarantine: min jobs %d, min users %d; want 1 or more", c.MinJobs, c.MinUsers)
	case !(c.Alpha > 0 && c.Alpha < 1) || !(c.MaxShare >= 0 && c.MaxShare <= 1):
		return nil, fmt.Errorf("quarantine: alpha %v, max share %v; want 0 < alpha < 1 and 0 <= max share <= 1", c.Alpha, c.MaxShare)
	}
	return &Quarantine{config: c, nodes: map[string]*nodeRecord{}}, nil
}

// State returns where a node stands.
func (q *Quarantine) State(node string) NodeState {
	if n, ok := q.nodes[node]; ok {
		return n.state
	}
	return InUse
}

// Out returns the nodes that are not to be used, sorted.
func (q *Quarantine) Out() []string {
	var out []string
	for name, n := range q.nodes {
		if n.state != InUse {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Apply takes what happened and returns what changes by it, and by the time
// that has passed, in the order of node names. An event from before the last
// one counts as of now.
func (q *Quarantine) Apply(e NodeEvent) []NodeChange {
	if e.At.After(q.now) {
		q.now = e.At
	}
	changes := q.pass()
	nodes := slices.Clone(e.Nodes)
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	for _, name := range nodes {
		switch e.Kind {
		case NodeAdded:
			q.record(name)
		case NodeRemoved:
			delete(q.nodes, name)
		case AttemptDone:
			q.remember(name, attemptEnd{at: q.now, job: e.Job, user: e.User})
		case AttemptLost:
			changes = append(changes, q.failed(name, e, len(nodes))...)
		case NodeSlow:
			changes = append(changes, q.slow(name, e)...)
		case ProbeGood, Cleared:
			changes = append(changes, q.release(name, string(e.Kind))...)
		case ProbeBad:
			if q.State(name) != InUse {
				changes = append(changes, q.confine(name, "it failed its probe"))
			}
		}
	}
	return changes
}

func (q *Quarantine) record(name string) *nodeRecord {
	n, ok := q.nodes[name]
	if !ok {
		n = &nodeRecord{state: InUse}
		q.nodes[name] = n
	}
	return n
}

// remember keeps an end and forgets those that left the window.
func (q *Quarantine) remember(name string, e attemptEnd) {
	n := q.record(name)
	old := q.now.Add(-q.config.Window)
	n.ends = slices.DeleteFunc(n.ends, func(e attemptEnd) bool { return e.at.Before(old) })
	if len(n.ends) >= maxEnds {
		n.ends = n.ends[1:]
	}
	n.ends = append(n.ends, e)
}

// pass moves nodes on whose time has come.
func (q *Quarantine) pass() []NodeChange {
	var changes []NodeChange
	for _, name := range q.Out() {
		n := q.nodes[name]
		if n.until.After(q.now) {
			continue
		}
		if n.state == Quarantined {
			n.state, n.until = Probing, q.now.Add(q.config.Patience)
			changes = append(changes, NodeChange{Node: name, State: Probing, Until: n.until, Why: "its quarantine is over: probe it"})
			continue
		}
		changes = append(changes, q.release(name, "nobody answered the probe in time")...)
	}
	return changes
}

// release puts a node back to use, on probation, and forgets what it was accused of.
func (q *Quarantine) release(name, why string) []NodeChange {
	n, ok := q.nodes[name]
	if !ok {
		return nil
	}
	n.ends, n.slow, n.withheld = nil, nil, false
	if n.state == InUse {
		return nil
	}
	n.state, n.until, n.released = InUse, time.Time{}, q.now
	return []NodeChange{{Node: name, State: InUse, Why: why}}
}

// failed notes a failure and judges the node.
func (q *Quarantine) failed(name string, e NodeEvent, sharing int) []NodeChange {
	q.remember(name, attemptEnd{q.now, e.Job, e.User, weigh(e.Finding.Category) / float64(sharing)})
	n := q.nodes[name]
	if n.state != InUse {
		return nil
	}
	why, guilty := q.judge(name)
	switch {
	case e.Finding.Node && sharing == 1:
		why, guilty = e.Finding.Text, true
	case n.onProbation(q.now, q.config.Window) && e.Finding.Category == Infrastructure && sharing == 1:
		why, guilty = "failed again soon after its release: "+e.Finding.Text, true
	}
	if !guilty {
		return nil
	}
	return q.accuse(name, why)
}

// accuse takes a node out of use, or says that it should be.
func (q *Quarantine) accuse(name, why string) []NodeChange {
	n := q.nodes[name]
	if len(q.Out())+1 > q.most() {
		if n.withheld {
			return nil
		}
		n.withheld = true
		return []NodeChange{{Node: name, State: Withheld, Why: fmt.Sprintf("%s; but %d of %d nodes are out already, and no more may be", why, len(q.Out()), len(q.nodes))}}
	}
	return []NodeChange{q.confine(name, why)}
}

func (n *nodeRecord) onProbation(now time.Time, window time.Duration) bool {
	return !n.released.IsZero() && now.Sub(n.released) <= window
}

// most returns how many nodes may be out at once: of two or more nodes at least
// one, of one none.
func (q *Quarantine) most() int {
	if len(q.nodes) < 2 || q.config.MaxShare == 0 {
		return 0
	}
	return max(1, int(q.config.MaxShare*float64(len(q.nodes))))
}

// confine takes a node out of use.
func (q *Quarantine) confine(name, why string) NodeChange {
	n := q.nodes[name]
	if n.times > 0 && n.state == InUse && !n.onProbation(q.now, 4*q.config.Longest) {
		n.times = 0 // a long good time is forgiven
	}
	out := min(float64(q.config.Base)*math.Exp2(float64(n.times)), float64(q.config.Longest))
	n.times++
	n.state, n.until, n.withheld = Quarantined, q.now.Add(time.Duration(out)), false
	return NodeChange{Node: name, State: Quarantined, Until: n.until, Why: why}
}

func weigh(c Category) float64 {
	switch c {
	case Infrastructure:
		return 1
	case User:
		return 0.1
	}
	return 0.5
}

// sorted returns the names of all nodes in order.
func (q *Quarantine) sorted() []string {
	names := make([]string, 0, len(q.nodes))
	for name := range q.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
