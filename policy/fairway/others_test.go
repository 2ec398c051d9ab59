// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

// TestOthersYield: when a job is fixed on GPUs of others, those find room that would if all
// were looked at again.
func TestOthersYield(t *testing.T) {
	core := &policy{Config: Default()}
	w := &world{policy: core}
	w.s = func() *sched.Snapshot {
		of := crowd(t, newPolicy(t, Default()), size{60, 8, 4}, rigid)
		return of.State.Snapshot(of.Now)
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	fixed := make([]sched.Placement, len(w.s.Jobs))
	o, moved := w.newOthers(fixed), 0
	for i, j := range w.s.Jobs {
		if j.Phase != sched.Pending {
			continue
		}
		var at sched.Placement
		for _, n := range rng.Perm(8)[:1+rng.IntN(2)] {
			// Not what an earlier one was fixed on.
			free := sched.FirstGPUs(4)
			for _, p := range fixed {
				for _, s := range p {
					if int(s.Node) == n {
						free &^= s.GPUs
					}
				}
			}
			if some := free.Lowest(1 + rng.IntN(4)); some != 0 {
				at = append(at, sched.Slice{Node: int32(n), GPUs: some, Milli: sched.WholeGPU})
			}
		}
		if at == nil {
			continue
		}
		moved++
		fixed[i] = at
		o.yield(j, at)
		got := slices.Clone(o.fits)
		core.crowded = nil // the next one has its own view
		if want := w.newOthers(fixed).fits; !slices.Equal(got, want) {
			t.Fatalf("after %d jobs were fixed, %v find room; want %v", moved, got, want)
		}
	}
	if moved < 5 {
		t.Errorf("%d jobs were fixed; want several", moved)
	}
}
