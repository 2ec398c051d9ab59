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
