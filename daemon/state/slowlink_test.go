// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// probes returns enough measurements of all links of a gang, of which some are slow.
func probes(ranks int, slow func(a, b int) bool) *api.Pace {
	p := diagnose.Probe{Ranks: ranks, Bytes: 1e6}
	for a := range ranks {
		for b := a + 1; b < ranks; b++ {
			k := diagnose.Link{A: a, B: b, Seconds: 0.001}
			if slow(a, b) {
				k.Seconds = 0.025
			}
			p.Links = append(p.Links, k)
		}
	}
	return &api.Pace{Probes: []diagnose.Probe{p, p, p, p}}
}

func none(int, int) bool { return false }

// across returns a placement on GPUs 0 to each-1 of nodes.
func across(nodes, each int) sched.Placement {
	var p sched.Placement
	for n := range nodes {
		p = append(p, sched.Slice{Node: int32(n), Milli: sched.WholeGPU, GPUs: 1<<each - 1})
	}
	return p
}

// TestSlowLinks: a rank whose links are slow is named once, until they are so no longer,
// and what its pace says is told apart from that.
func TestSlowLinks(t *testing.T) {
	d := open(t)
	d.addNodes("b", "c")
	d.submit(ann, submission("x", 4))
	d.decide(wants{"x-1": on(0, 1, 2, 3)})
	d.report("x-1", 1, api.AgentReport{Done: 1, Pace: probes(4, none)})
	if w := d.job("x-1").Warning; w != "" {
		t.Errorf("equal links: warning %q", w)
	}
	bad := func(a, b int) bool { return a == 2 || b == 2 }
	d.report("x-1", 1, api.AgentReport{Done: 2, Pace: probes(4, bad)})
	d.report("x-1", 1, api.AgentReport{Done: 3, Pace: probes(4, bad)})
	d.report("x-1", 1, api.AgentReport{Done: 4, Pace: paces(4, 3, 1)})
	want := "the links of rank 2 on GPU 2 of box move 40 MB/s, those between the others 1000 MB/s (measured at 12:00:00 UTC); look at"
	if w := d.job("x-1").Warning; !strings.HasPrefix(w, want) {
		t.Errorf("warning %q; want %q", w, want)
	}
	if n := len(d.records("job-warned")); n != 1 {
		t.Errorf("named %d times; want once", n)
	}
	if len(d.records("node-quarantined")) > 0 {
		t.Error("links within a node were held against it at once")
	}
	m, err := restoreCopy(d)
	if err != nil || len(m.jobs["x-1"].SlowLinks) != 1 {
		t.Errorf("after a restart: %v; want rank 2", err)
	}
	d.report("x-1", 1, api.AgentReport{Done: 5, Pace: probes(4, none)})
	if w := d.job("x-1").Warning; w != "" {
		t.Errorf("after the links are mended: %q; want no warning", w)
	}
}

// TestSlowLinksOfANode: a node is out if its links are slow under another rank, too.
func TestSlowLinksOfANode(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, each int
		slow        func(a, b int) bool
		text        string
		out         bool
	}{
		"a node": {3, 2, func(a, b int) bool { return a/2 != b/2 && b/2 == 2 },
			"the links of c (rank 4, rank 5) move 40 MB/s, those between the others 1000 MB/s", true},
		"a link of two": {3, 2, func(a, b int) bool { return a/2 == 0 && b/2 == 2 },
			"the link between box (rank 0, rank 1) and c (rank 4, rank 5) moves 40 MB/s, the others 1000 MB/s; the reason may be at either end", false},
		"the only link": {2, 2, func(a, b int) bool { return a/2 != b/2 },
			"the link between box (rank 0, rank 1) and b (rank 2, rank 3) moves 40 MB/s, before it moved 1000 MB/s; the reason may be at either end", false},
		"within a node": {3, 2, func(a, b int) bool { return a == 4 && b == 5 }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			d.addNodes("b", "c")
			d.submit(ann, submission("x", c.nodes*c.each))
			d.decide(wants{"x-1": across(c.nodes, c.each)})
			ranks := c.nodes * c.each
			d.report("x-1", 1, api.AgentReport{Done: 1, Pace: probes(ranks, none)})
			d.report("x-1", 1, api.AgentReport{Done: 2, Pace: probes(ranks, c.slow)})
			if w := d.job("x-1").Warning; !strings.Contains(w, c.text) || (w == "") != (c.text == "") {
				t.Errorf("warning %q; want %q", w, c.text)
			}
			if len(d.records("node-quarantined")) > 0 {
				t.Error("quarantined by the word of one job")
			}
			d.submit(bob, submission("y", 3))
			d.command("x-1", api.Cancel)
			d.exited(api.Exit{AttemptID: api.AttemptID{Job: "x-1", Number: 1}, Noticed: true})
			d.decide(wants{"y-2": across(3, 1)})
			d.report("y-2", 1, api.AgentReport{Done: 1, Pace: probes(3, func(a, b int) bool { return c.out && b == 2 })})
			if out := d.mem.nodeHealth.State("c") == diagnose.Quarantined; out != c.out {
				t.Errorf("quarantined: %v; want %v", out, c.out)
			}
		})
	}
}

func TestProbesAreChecked(t *testing.T) {
	link := func(a, b int, s float64) []diagnose.Link { return []diagnose.Link{{A: a, B: b, Seconds: s}} }
	for name, p := range map[string]diagnose.Probe{
		"one rank":          {Ranks: 1, Bytes: 1},
		"no bytes":          {Ranks: 2, Links: link(0, 1, 1)},
		"a rank too many":   {Ranks: 2, Bytes: 1, Links: link(0, 2, 1)},
		"a negative rank":   {Ranks: 2, Bytes: 1, Links: link(-1, 1, 1)},
		"with itself":       {Ranks: 2, Bytes: 1, Links: link(1, 1, 1)},
		"negative seconds":  {Ranks: 2, Bytes: 1, Links: link(0, 1, -1)},
		"too many links":    {Ranks: 2, Bytes: 1, Links: make([]diagnose.Link, 5000)},
		"too many ranks":    {Ranks: 1 << 30, Bytes: 1},
		"a negative number": {Ranks: -1, Bytes: -1},
	} {
		r := api.AgentReport{Pace: &api.Pace{Probes: []diagnose.Probe{p}}}
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), "probes[0]") {
			t.Errorf("%s: %v; want an error that names the probe", name, err)
		}
	}
}
