// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"slices"
)

const (
	// linkProbes is how many probes are judged together, as an agent makes them.
	linkProbes = 4
	// slowLink is how many times as long as others a slow link takes, at least.
	slowLink = 2
)

// Probe is one measurement of links between the ranks of a gang.
type Probe struct {
	Ranks int    `json:"ranks"`
	Bytes int    `json:"bytes"` // that two ranks sent each other, each way
	Links []Link `json:"links"`
}

// Link is how long two ranks took to send each other something.
type Link struct {
	A       int     `json:"a"`
	B       int     `json:"b"`
	Seconds float64 `json:"seconds"`
}

// SlowLink is what is slow: all links of one end or, if
// there are two, the link between them, either end of which may be the reason.
type SlowLink struct {
	Ends   []int
	Speed  float64 // bytes for each second, each way
	Others float64 // of the links that it was compared with
	Before bool    // these are the same link, earlier: there is no other
}

// Links judges by probes whether links of a gang are slow. A bad link slows down an
// exchange for all ranks, so that the times of their steps do not tell whose it is.
//
// An end (a node or, in a gang on one node, a rank) is named if two thirds of its links
// took, in the fastest of the last probes, at least twice as long as two thirds of the
// links between others in a typical one; a single link between other ends, if the same
// is so of it and all others. A gang of two ends has nothing to compare its link with
// but what it was before. A pause does not matter, and other traffic only if it lasts
// as long as all of the probes.
type Links struct {
	probes []Probe
	best   float64 // the shortest typical time of a link so far; 0: not known
}

// span is what the last probes say of two ends, the lower first.
type span struct {
	a, b             int
	fastest, typical float64 // seconds
}

// Add takes in a probe. A gang of another size starts afresh.
func (l *Links) Add(p Probe) {
	if len(l.probes) > 0 && (l.probes[0].Ranks != p.Ranks || l.probes[0].Bytes != p.Bytes) {
		*l = Links{}
	}
	if len(l.probes) == linkProbes {
		l.probes = slices.Delete(l.probes, 0, 1)
	}
	l.probes = append(l.probes, p)
}

// Slow returns what is slow, the slowest first. ends has the end at which each rank is;
// links within one are not judged.
func (l *Links) Slow(ends []int) []SlowLink {
	spans := l.between(ends)
	if now := middle(times(spans, typical, nil)); now > 0 && (l.best == 0 || now < l.best) {
		l.best = now
	}
	out := l.judge(spans, fastest)
	slices.SortStableFunc(out, func(a, b SlowLink) int { return cmp.Compare(a.Speed, b.Speed) })
	return out
}

// Recovered reports whether nothing is slow any more, even in a typical probe.
func (l *Links) Recovered(ends []int) bool {
	return len(l.probes) == linkProbes && len(l.judge(l.between(ends), typical)) == 0
}

// between returns what was measured between different ends, in all of the last probes.
func (l *Links) between(ends []int) []span {
	if len(l.probes) < linkProbes {
		return nil
	}
	type pair struct{ a, b int }
	seconds := map[pair][]float64{}
	for _, p := range l.probes {
		for _, k := range p.Links {
			if k.Seconds > 0 && ends[k.A] != ends[k.B] {
				seconds[pair{k.A, k.B}] = append(seconds[pair{k.A, k.B}], k.Seconds)
			}
		}
	}
	var out []span
	for ranks, s := range seconds {
		if len(s) == linkProbes {
			slices.Sort(s)
			a, b := ends[ranks.a], ends[ranks.b]
			out = append(out, span{min(a, b), max(a, b), s[0], middle(s)})
		}
	}
	return out
}

// judge returns what is slow, by one of its times.
func (l *Links) judge(spans []span, by func(span) float64) []SlowLink {
	if len(spans) == 0 {
		return nil
	}
	var ends []int
	var pairs [][]int
	for _, k := range spans {
		ends, pairs = append(ends, k.a, k.b), append(pairs, []int{k.a, k.b})
	}
	slices.Sort(ends)
	slices.SortFunc(pairs, slices.Compare)
	ends, pairs = slices.Compact(ends), slices.CompactFunc(pairs, slices.Equal)
	bytes := float64(l.probes[0].Bytes)
	if len(ends) == 2 {
		if now := middle(times(spans, by, nil)); now >= slowLink*l.best {
			return []SlowLink{{Ends: ends, Speed: bytes / now, Others: bytes / l.best, Before: true}}
		}
		return nil
	}
	var out []SlowLink
	all := times(spans, typical, nil)
	compare := func(who []int, in func(span) bool) {
		own := times(spans, by, in)
		low := own[(len(own)-1)/3]
		if low < slowLink*all[(len(all)-1)/3] { // saves the look at the others
			return
		}
		others := times(spans, typical, func(k span) bool { return !in(k) })
		if len(others) > 0 && low >= slowLink*others[len(others)-1-(len(others)-1)/3] {
			out = append(out, SlowLink{Ends: who, Speed: bytes / middle(own), Others: bytes / middle(others)})
		}
	}
	for _, end := range ends {
		compare([]int{end}, func(k span) bool { return k.a == end || k.b == end })
	}
	if len(out) > 0 { // their links are slow each by itself, too
		return out
	}
	for _, pair := range pairs {
		compare(pair, func(k span) bool { return k.a == pair[0] && k.b == pair[1] })
	}
	return out
}

func fastest(k span) float64 { return k.fastest }

func typical(k span) float64 { return k.typical }

// times returns times of the links that are meant, sorted; nil: all are.
func times(spans []span, by func(span) float64, meant func(span) bool) []float64 {
	var out []float64
	for _, k := range spans {
		if meant == nil || meant(k) {
			out = append(out, by(k))
		}
	}
	slices.Sort(out)
	return out
}
