// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"slices"
	"strings"
)

// Promises is the set of properties that a policy promises beyond the rules that
// sched.Check enforces. The property tests of this package check every policy for
// the promises of its entry in the table.
type Promises uint8

// The promises.
const (
	// WorkConserving: no job waits while GPUs on which it could run are free. A job
	// that must be consolidated may wait for GPUs that are close together.
	WorkConserving Promises = 1 << iota
	// Drains: when no more jobs arrive, every job that the cluster can host ends.
	Drains
	// NoStarvation: a gang starts even if smaller jobs keep arriving.
	NoStarvation
	// NeverPreempts: a running job keeps its GPUs until it ends.
	NeverPreempts
	// InOrder: no job starts while a job ahead of it, by priority and then by
	// submission, waits for GPUs. A job does not hold back others while it waits for
	// its tenant's limit or the end of a back-off, or if it can never run.
	InOrder
	// NoDelay: a job overtakes the first waiting job only if, by the estimates, that
	// one can still start at its reserved time.
	NoDelay
)

var promiseNames = [...]string{
	"work-conserving", "drains the queue", "no starvation", "never preempts", "strict order", "backfill without delay",
}

// Names returns the promises in words.
func (p Promises) Names() []string {
	var out []string
	for i, name := range promiseNames {
		if p&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

func (p Promises) String() string { return strings.Join(p.Names(), ", ") }

// MarshalJSON writes the promises as a list of words.
func (p Promises) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.Concat([]string{}, p.Names()))
}
