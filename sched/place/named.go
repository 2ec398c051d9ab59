// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"

	"github.com/fairway-gpu/fairway/sched"
)

// Rule names a placement rule, as the knob of a policy.
type Rule string

// The rules.
const (
	AsNear       Rule = "consolidated" // as near to each other as there is room
	IfSkewed     Rule = "skew"         // Skew: FewestNodes for jobs that need it, most-free for models known not to, else as near as there is room
	OnFewest     Rule = "fewest-nodes"
	InOneRack    Rule = "rack-local"
	FromMostFree Rule = "most-free"
	FromLeast    Rule = "fragments"
	OnLadder     Rule = "ladder" // the fewest nodes, then one rack, then anywhere, each after a wait
)

// Help explains the rules on a page of help.
func (Rule) Help() string {
	return "where a job goes: consolidated (as near as there is room), skew (the fewest nodes for jobs that need it, which wait for them; most-free for models whose tensors are known not to be skewed; else consolidated), fewest-nodes (for all), rack-local, most-free, fragments, or ladder (the fewest nodes, then one rack, then anywhere, each after a wait in proportion to the run time)"
}

// Insists reports whether the rule lets any job wait for near GPUs while others are
// free.
func (r Rule) Insists() bool { return r == OnFewest || r == InOneRack || r == OnLadder }

// Placing returns the queue with the strategy of a rule and the level it insists on.
func (q Queue) Placing(rule Rule) (Queue, error) {
	switch rule {
	case AsNear:
		q.Place = Consolidated
	case IfSkewed:
		q.Place, q.Level = Skew(MostFree), SkewLevel
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
			rule, AsNear, IfSkewed, OnFewest, InOneRack, FromMostFree, FromLeast, OnLadder)
	}
	return q, nil
}
