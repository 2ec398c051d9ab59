// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis_test

import (
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/policy/themis"
	"github.com/fairway-gpu/fairway/sched"
)

// contest is a node with room for one of two jobs of two apps, x and y.
func contest(t *testing.T) *policytest.World {
	t.Helper()
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 2}, {Name: "n1", GPUs: 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []sched.Spec{
		{ID: "held", GPUs: 2, NonPreemptible: true},
		{ID: "x", GPUs: 2, Estimate: sched.Duration(time.Hour)},
		{ID: "y", GPUs: 2, Estimate: sched.Duration(time.Hour)},
	} {
		if err := w.Submit(spec, 0); err != nil {
			t.Fatal(err)
		}
		if spec.ID == "held" {
			decide(t, w, themis.Default())
		}
	}
	return w
}

// decide lets the policy decide and returns who runs.
func decide(t *testing.T, w *policytest.World, c themis.Config) map[sched.JobID]bool {
	t.Helper()
	p, err := themis.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Decide(p); err != nil {
		t.Fatal(err)
	}
	runs := map[sched.JobID]bool{}
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		runs[j.ID] = j.Phase == sched.Running
	}
	return runs
}

// TestOwnBid lets an app speak for itself. A sensible bid counts as it is; a
// nonsense one costs the app its turn, and nobody else anything.
func TestOwnBid(t *testing.T) {
	row := func(node int32, gpus int, rho float64) sched.BidRow {
		return sched.BidRow{Take: []sched.BidShare{{Node: node, GPUs: gpus}}, Rho: rho}
	}
	for _, c := range []struct {
		name string
		bid  *sched.Bid
		want sched.JobID // runs; the other waits
		f    float64
	}{
		{"much to gain", &sched.Bid{Rho: 50, Rows: []sched.BidRow{row(1, 2, 1)}}, "y", 1},
		{"little to gain", &sched.Bid{Rho: 2, Rows: []sched.BidRow{row(1, 2, 1.99)}}, "x", 0},
		{"nonsense of the only bidder", &sched.Bid{Rho: 50, Rows: []sched.BidRow{row(1, 4, 1)}}, "x", 1},
		{"not a number", &sched.Bid{Rho: math.NaN(), Rows: []sched.BidRow{row(1, 2, 1)}}, "x", 0},
		{"a row that is not a number", &sched.Bid{Rho: 50, Rows: []sched.BidRow{row(1, 2, math.NaN())}}, "x", 0},
		{"negative", &sched.Bid{Rho: 50, Rows: []sched.BidRow{row(1, 2, -1)}}, "x", 0},
		{"too large", &sched.Bid{Rho: math.Inf(1), Rows: []sched.BidRow{row(1, 2, 1)}}, "x", 0},
		{"more than offered", &sched.Bid{Rho: 50, Rows: []sched.BidRow{row(1, 4, 1)}}, "x", 0},
		{"what others hold", &sched.Bid{Rho: 50, Rows: []sched.BidRow{row(0, 2, 1)}}, "x", 0},
		{"no such node", &sched.Bid{Rho: 50, Rows: []sched.BidRow{row(7, 2, 1)}}, "x", 0},
		{"half a gang", &sched.Bid{Rho: 50, Rows: []sched.BidRow{row(1, 1, 1)}}, "x", 0},
		{"the same node twice", &sched.Bid{Rho: 50, Rows: []sched.BidRow{
			{Take: []sched.BidShare{{Node: 1, GPUs: 2}, {Node: 1, GPUs: 2}}, Rho: 1}}}, "x", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := contest(t)
			if err := w.Apply(sched.Event{Kind: sched.AppBid, App: "y", Bid: c.bid}); err != nil {
				t.Fatal(err)
			}
			config := themis.Default()
			config.F = c.f
			config.Audit = c.f == 0 // with f = 1 the only bidder is who says to be worst off
			other := map[sched.JobID]sched.JobID{"x": "y", "y": "x"}[c.want]
			if runs := decide(t, w, config); !runs[c.want] || runs[other] {
				t.Errorf("running: %v; want %s alone beside held", runs, c.want)
			}
		})
	}
}

func TestBadKnobs(t *testing.T) {
	for name, change := range map[string]func(*themis.Config){
		"f":        func(c *themis.Config) { c.F = 1.1 },
		"f = NaN":  func(c *themis.Config) { c.F = math.NaN() },
		"lease":    func(c *themis.Config) { c.Lease = 0 },
		"rounding": func(c *themis.Config) { c.Rounding = "up" },
		"ideal":    func(c *themis.Config) { c.Ideal = "all" },
		"offer":    func(c *themis.Config) { c.Offer = "none" },
		"slowdown": func(c *themis.Config) { c.Slowdown = 0.9 },
		"rows":     func(c *themis.Config) { c.Rows = 1 },
	} {
		c := themis.Default()
		change(&c)
		if _, err := themis.New(c); err == nil {
			t.Errorf("%s: a config out of range was accepted: %+v", name, c)
		}
	}
}
