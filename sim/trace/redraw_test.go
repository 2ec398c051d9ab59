// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRedraw: a job that is drawn again has the same owner, model and size, and another run
// time of the same distribution.
func TestRedraw(t *testing.T) {
	g := Gen{Kind: KindPhilly, Jobs: 200, GPUs: 8, Seed: 3}
	wl, err := Generate(g)
	if err != nil {
		t.Fatal(err)
	}
	redraw, err := Redraw(g)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	differ, off := 0, 0.0
	for _, w := range wl.Work {
		again := redraw(w.ID, r)
		if again.Tenant != w.Tenant || again.User != w.User || again.Model != w.Model || again.GPUs != w.GPUs {
			t.Fatalf("%s becomes a job of %s, %s, %s with %d GPUs; want %s, %s, %s, %d", w.ID, again.Tenant, again.User, again.Model, again.GPUs, w.Tenant, w.User, w.Model, w.GPUs)
		}
		if again.RunTime != w.RunTime {
			differ++
		}
		off += math.Log(again.RunTime.D().Seconds() / w.RunTime.D().Seconds())
	}
	if mean := off / float64(len(wl.Work)); differ < len(wl.Work)*9/10 || math.Abs(mean) > 0.4 {
		t.Errorf("%d of %d run times differ, by exp(%.2f) on average; want nearly all, by about as much up as down", differ, len(wl.Work), mean)
	}
	if again, err := Redraw(Gen{Kind: KindPollux, Jobs: 1, GPUs: 8}); again != nil || err != nil {
		t.Errorf("a kind that cannot be drawn again: %v; want nothing", err)
	}
}
