// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// linkModel makes up the probes of a gang on a busy host: links that differ by 10 % for
// good, of each direction the fastest of four tries that differ by 30 % and are held up
// in one of three cases, and the slower direction of the two.
type linkModel struct {
	r     *rand.Rand
	ranks int
	pairs map[[2]int]float64 // how each differs
}

func newLinkModel(seed uint64, ranks int) *linkModel {
	g := &linkModel{r: rand.New(rand.NewPCG(seed, 81)), ranks: ranks, pairs: map[[2]int]float64{}}
	for a := range ranks {
		for b := range a {
			if ranks <= 16 || g.r.Float64() < 16/float64(ranks) { // as many as an agent measures
				g.pairs[[2]int{b, a}] = math.Exp(0.1 * g.r.NormFloat64())
			}
		}
	}
	return g
}

// probe returns the next one; slow is by how much a link is slower.
func (g *linkModel) probe(slow func(a, b int) float64) Probe {
	p := Probe{Ranks: g.ranks, Bytes: 1 << 18}
	for a := range g.ranks {
		for b := a + 1; b < g.ranks; b++ {
			base, measured := g.pairs[[2]int{a, b}]
			if !measured {
				continue
			}
			k := Link{A: a, B: b}
			for range 2 {
				best := math.Inf(1)
				for range 4 {
					s := 0.0005 * base * slow(a, b) * math.Exp(0.3*g.r.NormFloat64())
					if g.r.Float64() < 1.0/3 {
						s += 0.002 * math.Pow(g.r.Float64(), -1/1.2)
					}
					best = min(best, s)
				}
				k.Seconds = max(k.Seconds, best)
			}
			p.Links = append(p.Links, k)
		}
	}
	return p
}

func healthy(int, int) float64 { return 1 }

// apiece returns the ends of ranks, so many of which are on one node.
func apiece(ranks, each int) []int {
	var ends []int
	for r := range ranks {
		ends = append(ends, r/each)
	}
	return ends
}

// TestSlowLinksAreFound: no false alarm in 100 quiet gangs that are probed for three series
// each, and at least 95 of 100 ends whose links are five times as slow found by the
// first series. It prints the figures of docs/failures.md.
func TestSlowLinksAreFound(t *testing.T) {
	const runs, series = 100, 3
	for _, gang := range []struct{ ranks, each int }{{3, 1}, {4, 1}, {8, 1}, {16, 1}, {32, 8}} {
		ends := apiece(gang.ranks, gang.each)
		alarms := 0
		for seed := range uint64(runs) {
			g, l, alarm := newLinkModel(seed, gang.ranks), Links{}, false
			for range series * linkProbes {
				l.Add(g.probe(healthy))
				alarm = alarm || len(l.Slow(ends)) > 0
			}
			if alarm {
				alarms++
			}
		}
		if alarms > 0 {
			t.Errorf("%d ranks: %d false alarms in %d quiet runs; want none", gang.ranks, alarms, runs)
		}
		for _, times := range []float64{2, 3, 5, 20} {
			found := 0
			for seed := range uint64(runs) {
				g, l := newLinkModel(1000+seed, gang.ranks), Links{}
				guilty := ends[int(seed)%gang.ranks]
				for range linkProbes {
					l.Add(g.probe(func(a, b int) float64 {
						if ends[a] != ends[b] && (ends[a] == guilty || ends[b] == guilty) {
							return times
						}
						return 1
					}))
				}
				if s := l.Slow(ends); len(s) == 1 && slices.Equal(s[0].Ends, []int{guilty}) {
					found++
				}
			}
			t.Logf("%2d ranks on %2d ends, the links of one %4.1f times as slow: %d of %d found by one series; false alarms in %d quiet runs of %d: %d",
				gang.ranks, gang.ranks/gang.each, times, found, runs, runs, series*linkProbes, alarms)
			if times >= 5 && found < 95 {
				t.Errorf("%d ranks at %g: %d of %d found; want 95", gang.ranks, times, found, runs)
			}
		}
	}
}

// TestOneSlowLink: a link that is slow by itself is named with both of its ends.
func TestOneSlowLink(t *testing.T) {
	for _, ranks := range []int{3, 4, 8} {
		ends, found := apiece(ranks, 1), 0
		for seed := range uint64(100) {
			g, l := newLinkModel(seed, ranks), Links{}
			for range linkProbes {
				l.Add(g.probe(func(a, b int) float64 {
					if a == 0 && b == 2 {
						return 10
					}
					return 1
				}))
			}
			if s := l.Slow(ends); len(s) == 1 && slices.Equal(s[0].Ends, []int{0, 2}) {
				found++
			}
		}
		t.Logf("%d ranks, one link ten times as slow: %d of 100 found", ranks, found)
		if found < 95 {
			t.Errorf("%d ranks: %d of 100 found; want 95", ranks, found)
		}
	}
}

// TestTheOnlyLink: two nodes have nothing to compare their link with but what it was.
func TestTheOnlyLink(t *testing.T) {
	alarms, found, back := 0, 0, 0
	ends := apiece(8, 4)
	for seed := range uint64(100) {
		g, l, alarm := newLinkModel(seed, 8), Links{}, false
		probes := func(times float64, series int) (slow []SlowLink) {
			for range series * linkProbes {
				l.Add(g.probe(func(a, b int) float64 {
					if ends[a] != ends[b] {
						return times
					}
					return 1
				}))
				slow = l.Slow(ends)
				alarm = alarm || times == 1 && len(slow) > 0
			}
			return slow
		}
		probes(1, 10)
		if alarm {
			alarms++
		}
		if s := probes(5, 1); len(s) == 1 && slices.Equal(s[0].Ends, []int{0, 1}) && s[0].Before {
			found++
		}
		if l.Recovered(ends) {
			t.Errorf("seed %d: recovered while it is slow", seed)
		}
		if probes(1, 1); l.Recovered(ends) {
			back++
		}
	}
	t.Logf("two nodes: %d false alarms in 100 quiet runs, %d of 100 found at five times as slow, %d seen to recover", alarms, found, back)
	if alarms > 0 || found < 95 || back < 95 {
		t.Error("want no alarm, 95 found and 95 recovered")
	}
}

// TestLinksOfAnotherGang: what was measured of a gang of another size does not count.
func TestLinksOfAnotherGang(t *testing.T) {
	g, l := newLinkModel(1, 4), Links{}
	slow := func(_, b int) float64 {
		if b == 3 {
			return 20
		}
		return 1
	}
	for range linkProbes - 1 {
		l.Add(g.probe(slow))
	}
	if s := l.Slow(apiece(4, 1)); s != nil {
		t.Errorf("after three probes: %v; want none", s)
	}
	l.Add(newLinkModel(1, 3).probe(healthy))
	l.Add(g.probe(slow))
	if s := l.Slow(apiece(4, 1)); s != nil {
		t.Errorf("after a change of size: %v; want none", s)
	}
	if s := l.Slow(apiece(4, 4)); s != nil {
		t.Errorf("all ranks at one end: %v; want none", s)
	}
}
