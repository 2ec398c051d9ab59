// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"slices"
	"strings"
)

// Promises is a set of what a policy promises beyond the rules that sched.Check
// enforces. The property tests of this package hold every policy to what its entry
// in the table promises.
type Promises uint8

// The promises.
const (
	// WorkConserving: no job waits while GPUs are free on which it could run. A job
	// that must be consolidated may wait for GPUs that are near to each other.
	WorkConserving Promises = 1 << iota
	// Drains: when no more jobs come, every job that the cluster could host ends.
	Drains
	// NoStarvation: a gang starts although smaller jobs keep coming.
	NoStarvation
	// NeverPreempts: a running job keeps its GPUs until it ends.
	NeverPreempts
	// InOrder: no job starts while another one waits for GPUs that has a higher
	// priority, or the same and was submitted earlier. A job holds back nobody while
	// it waits for its tenant's limit or the end of a back-off, or can never run.
	InOrder
	// NoDelay: a job overtakes the first in that order only if, by the estimates, the
	// first can still start when its reservation says.
	NoDelay
)

var promiseNames = [...]string{
	"work-conserving", "drains the queue", "no starvation", "never preempts", "nobody overtakes", "backfilling delays nobody",
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
