// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"

	"github.com/fairway-gpu/fairway/sched"
)

// The names of placements, for the knobs of policies.
const (
	AsNear       = "consolidated" // as near to each other as there is room
	IfSkewed     = "skew"         // FewestNodes for the jobs that need it, else as near as there is room
	OnFewest     = "fewest-nodes"
	InOneRack    = "rack-local"
	FromMostFree = "most-free"
	FromLeast    = "fragments"
	OnLadder     = "ladder" // the fewest nodes, then one rack, then anywhere, each after a wait
)

// Placing returns the queue with the strategy of that name and the level it
// insists on.
func (q Queue) Placing(name string) (Queue, error) {
	switch name {
	case AsNear:
		q.Place = Consolidated
	case IfSkewed:
		q.Place, q.Level = Skew(Consolidated), SkewLevel
	case OnFewest:
		q.Place, q.Level = FewestNodes, func(*sched.Job) sched.Level { return sched.SameMachine }
	case InOneRack:
		q.Place, q.Level = RackLocal, func(*sched.Job) sched.Level { return sched.SameRack }
	case FromMostFree:
		q.Place = MostFree
	case FromLeast:
		q.Place = Fragments
	case OnLadder:
		patience := StandardPatience()
		q.Patience = &patience
	default:
		return q, fmt.Errorf("placement = %q; want %s, %s, %s, %s, %s, %s or %s",
			name, AsNear, IfSkewed, OnFewest, InOneRack, FromMostFree, FromLeast, OnLadder)
	}
	return q, nil
}

// SkewLevel returns what Skew insists on for a job: for one that must be
// consolidated, a node, as far as it fits on one.
func SkewLevel(j *sched.Job) sched.Level {
	if j.Consolidate {
		return sched.SameMachine
	}
	return sched.CrossRack
}
