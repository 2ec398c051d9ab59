// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sim"
)

// TestTableHeld: "GPUs held" counts a GPU on which somebody is, whichever part
// of it the policy has given away; what happened elsewhere has only the one
// figure.
func TestTableHeld(t *testing.T) {
	shared := &sim.Result{Summary: sim.Summary{Allocation: 0.33, GPUsHeld: 0.99}}
	past := &sim.Result{Summary: sim.Summary{Allocation: 0.5}}
	var b strings.Builder
	printTable(&b, []finishedRun{{result: past}, {result: shared}})
	for _, want := range []string{"99.0 %", "50.0 %"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// A job that asks for more than the cluster has is said to be the reason that it has not ended.
func TestTableTooLarge(t *testing.T) {
	r := &sim.Result{Summary: sim.Summary{Policy: "fifo", Jobs: 3, Unfinished: 2}, Cluster: sim.ClusterShape{GPUs: 8},
		Jobs: []sim.JobResult{{GPUs: 8}, {GPUs: 8, Start: -1, End: -1}, {GPUs: 9, Start: -1, End: -1}}}
	var b strings.Builder
	printTable(&b, []finishedRun{{result: r}})
	if want := "fifo: 2 of 3 jobs have not ended, 1 of them as they ask for more than the 8 GPUs that there are; averages cover those that have\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("the table ends %q; want %q", b.String(), want)
	}
}
