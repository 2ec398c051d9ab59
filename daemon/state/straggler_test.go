// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
)

// paces returns windows of a gang in which one rank is slow.
func paces(ranks, slow int, times float64) *api.Pace {
	p := &api.Pace{}
	for range diagnose.PaceSeconds / diagnose.PaceWindow {
		w := slices.Repeat([]float64{0.5}, ranks)
		w[slow] *= times
		p.Windows = append(p.Windows, w)
	}
	return p
}

// TestStraggler: a slow rank is named once, to its owner. The node is blamed only
// when the same GPU is slow under another rank.
func TestStraggler(t *testing.T) {
	d := open(t)
	d.addNodes("b", "c")
	d.submit(ann, submission("x", 4))
	d.decide(wants{"x-1": on(0, 1, 2, 3)})
	d.report("x-1", 1, api.AgentReport{Done: 1, Pace: paces(4, 0, 1.05)})
	if w := d.job("x-1").Warning; w != "" {
		t.Errorf("a difference of 5 %%: warning %q", w)
	}
	d.report("x-1", 1, api.AgentReport{Done: 2, Pace: paces(4, 3, 1.42)})
	d.report("x-1", 1, api.AgentReport{Done: 3, Pace: paces(4, 3, 1.42)})
	e, err := d.Explain(ann, "x-1")
	want := "rank 3 on GPU 3 of box takes 1.42 times as long as a typical rank to compute a step, by the median of the last 40 s; no gauge says why"
	if err != nil || !strings.HasPrefix(e.Job.Warning, want) {
		t.Errorf("warning %q, %v; want %q", e.Job.Warning, err, want)
	}
	if n := len(d.records("job-warned")); n != 1 {
		t.Errorf("named %d times; want once", n)
	}
	if len(d.records("node-quarantined")) > 0 {
		t.Error("a rank that may be slow by design was held against its node")
	}
	d.report("x-1", 1, api.AgentReport{Done: 4, Pace: paces(4, 3, 1.02)})
	if w := d.job("x-1").Warning; w != "" {
		t.Errorf("after it caught up: %q; want no warning", w)
	}
	d.command("x-1", api.Cancel)
	d.exited(api.Exit{AttemptID: api.AttemptID{Job: "x-1", Number: 1}, Noticed: true})
	d.submit(bob, submission("y", 2))
	d.decide(wants{"y-2": on(2, 3)})
	d.report("y-2", 1, api.AgentReport{Done: 1, Pace: paces(2, 1, 1.5)})
	list := d.records("node-quarantined")
	if len(list) != 1 || !strings.Contains(list[0].Text, "it was slow under rank 3 of x-1 too") {
		t.Fatalf("records %+v; want box quarantined, with both ranks as the reason", list)
	}
	m, err := restoreCopy(d)
	if err != nil || m.nodeHealth.State("box") != diagnose.Quarantined {
		t.Errorf("after a restart the node is %v, %v", m.nodeHealth.State("box"), err)
	}
}

// restoreCopy returns the memory that a snapshot of now gives.
func restoreCopy(d *desk) (*memory, error) {
	d.t.Helper()
	if err := d.Compact(d.t.Context()); err != nil {
		return nil, err
	}
	payload, _, _ := d.tape.Snapshot()
	return restore(payload, 100, 1<<20)
}

// TestThrottledGPU: where the gauge explains it, the node is out at once.
func TestThrottledGPU(t *testing.T) {
	use := make([]*api.GPUUse, 4)
	for i := range use {
		use[i] = &api.GPUUse{Util: 0.9, ClockMHz: 1980, MaxClockMHz: 1980}
	}
	use[3].ClockMHz = 1200
	d := open(t, func(c *Config) { c.Use = func() []*api.GPUUse { return use } })
	d.addNodes("b", "c")
	d.submit(ann, submission("x", 4))
	d.decide(wants{"x-1": on(0, 1, 2, 3)})
	d.report("x-1", 1, api.AgentReport{Done: 2, Pace: paces(4, 3, 1.42)})
	list := d.records("node-quarantined")
	if len(list) != 1 || !strings.Contains(list[0].Text, "its clock is at 1200 of 1980 MHz, its peers' at 1980") {
		t.Errorf("records %+v; want box quarantined, with its clock", list)
	}
}

func TestPaceIsChecked(t *testing.T) {
	for _, windows := range [][][]float64{{{}}, {{1, 2}, {1}}, {{-1, 1}}, {make([]float64, 20000)}} {
		r := api.AgentReport{Pace: &api.Pace{Windows: windows}}
		if err := r.Validate(); err == nil {
			t.Errorf("%d windows, the first of %d: no error", len(windows), len(windows[0]))
		}
	}
}

// TestStragglerAfterAChangeInPlace: ranks that have changed places are named, but
// nothing is said about GPUs that may be others'.
func TestStragglerAfterAChangeInPlace(t *testing.T) {
	d := changeable(t)
	d.decide(wants{"x-1": on(0, 1, 2)})
	d.report("x-1", 1, api.AgentReport{Done: 2000, Pace: paces(3, 2, 1.5)})
	if w := d.job("x-1").Warning; !strings.HasPrefix(w, "rank 2 takes 1.50 times as long") {
		t.Errorf("warning %q; want the rank alone", w)
	}
	if len(d.mem.NodeLog) > 0 && d.mem.NodeLog[len(d.mem.NodeLog)-1].Kind == diagnose.NodeSlow {
		t.Error("a rank of unknown place was held against a node")
	}
}
