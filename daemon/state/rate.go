// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// nodeHours is how long a node was in the cluster, and how often attempts failed there
// because of the infrastructure.
type nodeHours struct {
	Since    time.Time `json:"since,omitzero"` // it is in the cluster since; zero: it is not
	Hours    float64   `json:"hours,omitempty"`
	Failures float64   `json:"failures,omitempty"`
	Last     time.Time `json:"last,omitzero"` // failure
	// Away is how long it was out of use, Back how often it came back from that, and Left
	// when it last went. One that never comes back was not wanted any more.
	Away sched.Duration `json:"away,omitempty"`
	Back int            `json:"back,omitempty"`
	Left time.Time      `json:"left,omitzero"`
}

// hours returns the hours until a time.
func (n nodeHours) hours(now time.Time) float64 {
	if n.Since.IsZero() {
		return n.Hours
	}
	return n.Hours + max(0, now.Sub(n.Since).Hours())
}

// countHours notes that a node is in the cluster, or not.
func (m *memory) countHours(name string, up bool, at time.Time) {
	n, known := m.NodeHours[name]
	if up == !n.Since.IsZero() && (known || !up) {
		return
	}
	n.Hours = n.hours(at)
	if up {
		if !n.Left.IsZero() {
			n.Back, n.Away = n.Back+1, n.Away+sched.Duration(max(0, at.Sub(n.Left)))
		}
		n.Since, n.Left = at, time.Time{}
	} else {
		n.Since, n.Left = time.Time{}, at
	}
	m.setHours(name, n)
}

// countFailure counts a failure against the nodes of an attempt. What other attempts on
// a node saw moments ago was the same failure.
func (m *memory) countFailure(nodes []string, at time.Time) {
	for _, name := range nodes {
		n := m.NodeHours[name]
		if n.Last.IsZero() || at.Sub(n.Last) >= diagnose.OneFailure {
			n.Failures += 1 / float64(len(nodes))
			n.Last = at
			m.setHours(name, n)
		}
	}
}

// maxNodeHours bounds the nodes that are remembered one by one. Beyond it, those that
// went are summed up under no name.
const maxNodeHours = 4096

func (m *memory) setHours(name string, n nodeHours) {
	if m.NodeHours == nil {
		m.NodeHours = map[string]nodeHours{}
	}
	m.NodeHours[name] = n
	if len(m.NodeHours) <= maxNodeHours {
		return
	}
	gone := m.NodeHours[""]
	for _, old := range slices.Sorted(maps.Keys(m.NodeHours)) {
		if o := m.NodeHours[old]; o.Since.IsZero() && old != "" {
			gone.Hours += o.Hours
			gone.Failures += o.Failures
			gone.Away += o.Away
			gone.Back += o.Back
			delete(m.NodeHours, old)
		}
	}
	m.NodeHours[""] = gone
}

// frozen returns the world at a time as a copy, with what is known about outages. They are
// summed as whole nanoseconds, so that the order of nodes does not matter.
func (m *memory) frozen(now time.Time) *sched.Snapshot {
	back, away, inUse := 0, time.Duration(0), time.Duration(0)
	for _, n := range m.NodeHours {
		back += n.Back
		away += n.Away.D()
		inUse += time.Duration(n.hours(now) * float64(time.Hour))
	}
	m.state.Expect(diagnose.Outages(back, away, inUse))
	return m.state.Frozen(now)
}

// clusterRate returns how often nodes of this cluster fail.
func (m *memory) clusterRate(now time.Time) diagnose.FailureRate {
	failures, hours := 0.0, 0.0
	for _, name := range slices.Sorted(maps.Keys(m.NodeHours)) {
		n := m.NodeHours[name]
		failures += n.Failures
		hours += n.hours(now)
	}
	return diagnose.RateOf(failures, hours)
}
