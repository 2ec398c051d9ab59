// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// gangModel makes up the windows of a gang: steps of 0.4 s, of which an agent
// measures every second, ranks that differ by 2 % for good, steps that differ by
// 8 % with a heavy tail, and a host whose load drifts for all ranks and for each.
type gangModel struct {
	r     *rand.Rand
	ranks []float64 // how each differs
	drift []float64
	host  float64
}

func newGangModel(seed uint64, ranks int) *gangModel {
	g := &gangModel{r: rand.New(rand.NewPCG(seed, 18))}
	for range ranks {
		g.ranks = append(g.ranks, math.Exp(0.02*g.r.NormFloat64()))
		g.drift = append(g.drift, 0)
	}
	return g
}

// window returns the next one; slow is by how much a rank is slower in each of its
// steps.
func (g *gangModel) window(slow map[int]float64) []float64 {
	out := make([]float64, len(g.ranks))
	g.host = 0.8*g.host + 0.05*g.r.NormFloat64()
	for i, base := range g.ranks {
		g.drift[i] = 0.7*g.drift[i] + 0.02*g.r.NormFloat64()
		var steps []float64
		for range 6 {
			s := 0.4 * base * math.Exp(g.host+g.drift[i]+0.08*g.r.NormFloat64())
			if g.r.Float64() < 0.1 { // a pause of the host: Pareto, as long as minutes
				s += 0.05 * math.Pow(g.r.Float64(), -1/1.2)
			}
			if i == 0 && g.r.Float64() < 0.05 { // rank 0 writes and evaluates
				s += 2
			}
			if f := slow[i]; f > 0 {
				s *= f
			}
			steps = append(steps, s)
		}
		slices.Sort(steps)
		out[i] = middle(steps)
	}
	return out
}

// TestStragglersAreFound holds what the documents promise: no false alarm in 100
// quiet runs of ten minutes, and at least 95 of 100 ranks that are 1.3 times as slow
// found within 60 s. It prints the figures of docs/failures.md.
func TestStragglersAreFound(t *testing.T) {
	const runs, minutes = 100, 10
	for _, ranks := range []int{2, 4, 8, 64} {
		alarms := 0
		for seed := range uint64(runs) {
			g, p, alarm := newGangModel(seed, ranks), Pace{}, false
			for range minutes * 60 / PaceWindow {
				p.Add(g.window(nil))
				alarm = alarm || len(p.Stragglers()) > 0
			}
			if alarm {
				alarms++
			}
		}
		if alarms > 0 {
			t.Errorf("%d ranks: %d false alarms in %d quiet runs of %d minutes; want none", ranks, alarms, runs, minutes)
		}
		for _, times := range []float64{1.2, 1.3, 1.5} {
			found, took := findStraggler(ranks, runs, times)
			t.Logf("%2d ranks, one of them %.1f times as slow: %d of %d found within 60 s, median after %v, last after %v; false alarms in %d quiet runs: %d",
				ranks, times, found, runs, took[len(took)/2], took[len(took)-1], runs, alarms)
			if times >= 1.3 && found < 95 {
				t.Errorf("%d ranks at %.1f: %d of %d found; want 95", ranks, times, found, runs)
			}
		}
	}
}

// findStraggler slows a rank down after a quiet minute, and returns how many of the
// runs found it, and nothing else, within the next one, and how soon.
func findStraggler(ranks, runs int, times float64) (found int, took []time.Duration) {
	for seed := range uint64(runs) {
		g, p := newGangModel(1000+seed, ranks), Pace{}
		for range 60 / PaceWindow {
			p.Add(g.window(nil))
		}
		guilty := int(seed) % ranks
		for n := range 60 / PaceWindow {
			p.Add(g.window(map[int]float64{guilty: times}))
			if s := p.Stragglers(); len(s) == 1 && s[0].Rank == guilty {
				found++
				took = append(took, time.Duration(n+1)*PaceWindow*time.Second)
				break
			}
		}
	}
	slices.Sort(took)
	return found, took
}

// TestStragglersOfANode: all ranks on one of two nodes are slow.
func TestStragglersOfANode(t *testing.T) {
	var p Pace
	slow := map[int]float64{}
	for i := 8; i < 16; i++ {
		slow[i] = 1.4
	}
	found := 0
	for seed := range uint64(100) {
		g, ranks := newGangModel(seed, 16), map[int]bool{}
		for range 60 / PaceWindow {
			p.Add(g.window(slow))
			for _, s := range p.Stragglers() {
				ranks[s.Rank] = true
				if s.Rank < 8 {
					t.Errorf("seed %d: rank %d is not slow", seed, s.Rank)
				}
			}
		}
		if len(ranks) >= 4 {
			found++
		}
		p = Pace{}
	}
	t.Logf("one of two nodes 1.4 times as slow: at least half of its ranks named within 60 s in %d of 100 runs", found)
	if found < 95 {
		t.Errorf("found in %d of 100 runs; want 95", found)
	}
	for range paceWindows {
		p.Add([]float64{1, 1, 1, 2})
	}
	if s := p.Stragglers(); len(s) != 1 {
		t.Errorf("found %v; want rank 3", s)
	}
	p.Add(make([]float64, 5))
	if s := p.Stragglers(); s != nil {
		t.Errorf("after a change of size: %v; want none", s)
	}
}

func TestPaceIgnoresWhatWasNotMeasured(t *testing.T) {
	var p Pace
	for range 2 * paceWindows {
		p.Add([]float64{0, 1, 0, 0})
	}
	if s := p.Stragglers(); s != nil {
		t.Errorf("one rank of four measured: %v; want none", s)
	}
	for range paceWindows {
		p.Add([]float64{1, 1, 0, 1.5})
	}
	if s := p.Stragglers(); len(s) != 1 || s[0].Rank != 3 || s[0].Times != 1.5 {
		t.Errorf("found %v; want rank 3 at 1.5", s)
	}
}

func TestSlowNodes(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	slow := func(job string, gpu, rank int, sure bool) NodeEvent {
		return NodeEvent{At: at, Kind: NodeSlow, Nodes: []string{"n1"}, Job: job, GPU: gpu, Rank: rank, Finding: Finding{Node: sure, Text: "slow"}}
	}
	for name, c := range map[string]struct {
		events []NodeEvent
		out    bool
	}{
		"named once":                     {[]NodeEvent{slow("a", 3, 3, false)}, false},
		"the same rank again":            {[]NodeEvent{slow("a", 3, 3, false), slow("b", 3, 3, false)}, false},
		"another rank on another GPU":    {[]NodeEvent{slow("a", 3, 3, false), slow("b", 2, 2, false)}, false},
		"another rank on the same GPU":   {[]NodeEvent{slow("a", 3, 3, false), slow("b", 3, 0, false)}, true},
		"the gauges say why":             {[]NodeEvent{slow("a", 3, 3, true)}, true},
		"forgotten after an operator":    {[]NodeEvent{slow("a", 3, 3, false), {At: at, Kind: Cleared, Nodes: []string{"n1"}}, slow("b", 3, 0, false)}, false},
		"forgotten after the window":     {[]NodeEvent{slow("a", 3, 3, false), {At: at.Add(7 * time.Hour), Kind: Tick}, slow("b", 3, 0, false)}, false},
		"kept in between of other nodes": {[]NodeEvent{slow("a", 3, 3, false), {At: at, Kind: AttemptDone, Nodes: []string{"n1"}}, slow("b", 3, 1, false)}, true},
	} {
		q, err := NewQuarantine(DefaultQuarantine())
		if err != nil {
			t.Fatal(err)
		}
		q.Apply(NodeEvent{At: at, Kind: NodeAdded, Nodes: []string{"n1", "n2", "n3"}})
		for _, e := range c.events {
			q.Apply(e)
		}
		if got := q.State("n1") == Quarantined; got != c.out {
			t.Errorf("%s: quarantined %v, want %v", name, got, c.out)
		}
	}
}
