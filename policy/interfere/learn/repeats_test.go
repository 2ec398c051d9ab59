// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"math"
	"testing"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// measuredOnce is a pair of a and b as one row of the file has it.
func measuredOnce(session string, stepA, slowA, stepB, slowB float64) Pair {
	return Pair{Session: session, HostSlower: 1, Sides: [2]Side{
		{Key{"a", 8}, interfere.Load{Util: 0.4, Step: stepA}, slowA},
		{Key{"b", 8}, interfere.Load{Util: 0.4, Step: stepB}, slowB},
	}}
}

// TestPool: together 12 ms, alone once 10 and once 14: the mean is what counts.
func TestPool(t *testing.T) {
	got := Pool([]Pair{
		measuredOnce("x", 0.010, 1.2, 0.02, 1),
		measuredOnce("x", 0.014, 12.0/14, 0.02, 1),
		measuredOnce("y", 0.005, 1, 0.02, 1), // another session, another host
	})
	for i, want := range []struct{ step, slowdown float64 }{{0.012, 1}, {0.012, 1}, {0.005, 1}} {
		if s := got[i].Sides[0]; math.Abs(s.Load.Step-want.step) > 1e-9 || math.Abs(s.Slowdown-want.slowdown) > 1e-9 {
			t.Errorf("pair %d: step %g, slowdown %g; want %+v", i, s.Load.Step, s.Slowdown, want)
		}
	}
}

func TestMerge(t *testing.T) {
	other := measuredOnce("x", 0.01, 3, 0.01, 3)
	other.Sides[1].Batch = 16
	mps := measuredOnce("x", 0.01, 3, 0.01, 3)
	mps.Mode = interfere.MPS
	got := Merge([]Pair{
		measuredOnce("x", 0.01, 1, 0.02, 1.1), other, mps,
		measuredOnce("y", 0.02, 2, 0.02, 1.1), measuredOnce("z", 0.04, 4, 0.02, 1.1),
	})
	if len(got) != 3 {
		t.Fatalf("%d pairs; want 3: one was measured three times", len(got))
	}
	a, b := got[0].Sides[0], got[0].Sides[1]
	if math.Abs(a.Slowdown-2) > 1e-9 || math.Abs(a.Load.Step-0.02) > 1e-9 || math.Abs(b.Slowdown-1.1) > 1e-9 || math.Abs(b.Load.Util-0.4) > 1e-9 {
		t.Errorf("merged %+v; want the geometric means: 2 at 20 ms, and 1.1", got[0])
	}
}
