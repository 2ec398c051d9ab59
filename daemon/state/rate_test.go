// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
)

// TestFailureRates: failures of the infrastructure count against the node, those that
// come together once; hours count while the node is there, through restarts.
func TestFailureRates(t *testing.T) {
	d := open(t, withTable(t))
	rate := func() diagnose.FailureRate {
		t.Helper()
		nodes, err := d.Nodes(admin)
		if err != nil {
			t.Fatal(err)
		}
		return nodes[0].Failures
	}
	d.clock.add(100 * time.Hour)
	if r := rate(); r.Failures != 0 || r.Hours != 100 {
		t.Errorf("%+v; want 100 hours without a failure", r)
	}
	before := rate().PerHour
	d.failOn(peerLost) // three jobs, within moments
	if r := rate(); r.Failures != 1 || r.PerHour <= before {
		t.Errorf("%+v; want one failure and a higher rate than %g", r, before)
	}
	d.clock.add(time.Hour)
	m, err := restoreCopy(d)
	if err != nil {
		t.Fatal(err)
	}
	if h := m.NodeHours["box"]; h.Failures != 1 || h.hours(d.clock.Now()) != d.mem.NodeHours["box"].hours(d.clock.Now()) {
		t.Errorf("after a restart %+v; want %+v", h, d.mem.NodeHours["box"])
	}
	d.wantDurable()
}

func TestNodeHoursAreBounded(t *testing.T) {
	m := newMemory(10, 1<<20)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 2 * maxNodeHours {
		name := fmt.Sprint("spot-", i)
		m.countHours(name, true, at)
		m.countFailure([]string{name}, at)
		m.countHours(name, true, at.Add(time.Minute)) // again: nothing new
		m.countHours(name, false, at.Add(time.Hour))
		m.countHours(name, false, at.Add(2*time.Hour))
	}
	r := m.clusterRate(at.Add(24 * time.Hour))
	if len(m.NodeHours) > maxNodeHours+1 || r.Hours != 2*maxNodeHours || r.Failures != 2*maxNodeHours {
		t.Errorf("%d nodes remembered, %+v; want at most %d, and an hour and a failure of each", len(m.NodeHours), r, maxNodeHours)
	}
}

// TestOutagesAreLearned: from nodes that came back. One that does not was not wanted any
// more.
func TestOutagesAreLearned(t *testing.T) {
	d := open(t)
	at := d.clock.Now()
	m := d.mem
	m.countHours("steady", true, at)
	for i, name := range []string{"back", "back", "gone"} {
		at := at.Add(time.Duration(i) * 10 * time.Hour)
		m.countHours(name, true, at)
		m.countHours(name, false, at.Add(4*time.Hour))
		if name == "back" {
			m.countHours(name, true, at.Add(6*time.Hour))
		}
	}
	now := at.Add(100 * time.Hour)
	want := diagnose.Outages(2, 4*time.Hour, (100+100+96+4)*time.Hour) // and the node of the desk
	got := m.frozen(now).Outages
	if got.Repair != want.Repair || math.Abs(got.PerHour/want.PerHour-1) > 1e-9 {
		t.Errorf("%+v; want %+v", got, want)
	}
}
