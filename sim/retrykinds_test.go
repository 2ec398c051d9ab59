// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/diagnose"
)

// Every reason of the simulator has its counterpart in the table of signatures, of
// the same row of the study's table of failures.
func TestKinds(t *testing.T) {
	table, err := diagnose.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	short := strings.NewReplacer("memory access", "mem access", "checkpoint", "ckpt", "version", "ver.", "libraries", "libs")
	for name, k := range kinds {
		r, ok := table.Reason(k.id)
		if !ok || !strings.EqualFold(r.Philly, short.Replace(name)) {
			t.Errorf("%s: reason %q of row %q; want one of its own row", name, k.id, r.Philly)
		}
	}
	for _, n := range nodeReasons {
		if kinds[n.reason].nature != passes {
			t.Errorf("%s: a reason of bad nodes; want one that passes elsewhere", n.reason)
		}
	}
}

// Nodes are bad for their share of the time, and what is known does not depend on
// who asks first.
func TestBadTimes(t *testing.T) {
	f := FaultConfig{BadNodes: 0.1, BadFor: 3600e9, Seed: 5}
	a, b := newBadNodes(f, 50), newBadNodes(f, 50)
	const horizon = 1000 * 3600.0
	bad := 0.0
	for n := range 50 {
		b.next(n, horizon)
		for at := 0.0; at < horizon; {
			x, y := a.next(n, at), b.next(n, at)
			if x != y {
				t.Fatalf("node %d at %g: %v and %v", n, at, x, y)
			}
			if !(x.to > at) {
				t.Fatalf("node %d at %g: %v is over", n, at, x)
			}
			bad += max(0, min(x.to, horizon)-min(x.from, horizon))
			at = x.to
		}
	}
	if share := bad / (50 * horizon); share < 0.09 || share > 0.11 {
		t.Errorf("nodes are bad for %.3f of the time; want 0.1", share)
	}
}
