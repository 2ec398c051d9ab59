// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// class orders what was found: the lower, the nearer to the root.
type class int

const (
	byEvent class = iota
	byCause
	bySymptom
	byEcho
	byWarning
)

// hit is one reason seen in one place.
type hit struct {
	reason     int
	class      class
	peer       bool
	confidence float64
	evidence   Evidence
	log        int // index; logs before exit codes
	line       int // index
	at         stamp
}

// maxHits bounds what is kept of one log. Lines that look the same again and
// again are the usual case, and the first of them is the one that counts.
const maxHits = 1000

// Classify says why an attempt ended.
func (t *Table) Classify(in Input) Finding {
	signal := signalName(in.Signal)
	if signal == "" && in.Exit != nil {
		signal = exitSignal(*in.Exit)
	}
	if in.Exit != nil && *in.Exit == 0 && signal == "" && len(in.Events) == 0 {
		return t.finding(t.mustReason(ReasonNone), 0.95, &Evidence{Source: FromExit, Rank: -1, Text: "0"})
	}
	var hits []hit
	pointed := -1 // the rank that failed first, as the launcher says
	var complaint *Evidence
	for i, l := range in.Logs {
		s := t.scan(i, l)
		hits = append(hits, s.hits...)
		if s.pointed >= 0 {
			pointed = s.pointed
		}
		if s.complaint != nil {
			complaint = s.complaint
		}
	}
	hits = append(hits, t.fromOutside(in, signal)...)
	if len(hits) == 0 {
		return t.finding(t.mustReason(ReasonUnknown), 0, complaint)
	}
	best := hits[0]
	for _, h := range hits[1:] {
		if h.before(best, pointed) {
			best = h
		}
	}
	f := t.finding(best.reason, t.confidence(best, hits, signal), &best.evidence)
	f.Also = t.also(best, hits)
	return f
}

// before reports whether h is nearer to the root cause than g.
func (h hit) before(g hit, pointed int) bool {
	if h.class != g.class {
		return h.class < g.class
	}
	rank, other := h.evidence.Rank, g.evidence.Rank
	if elsewhere := h.log != g.log || rank != other; elsewhere {
		if h.peer != g.peer {
			return g.peer
		}
		if pointed >= 0 && (rank == pointed) != (other == pointed) {
			return rank == pointed
		}
	}
	if h.log == g.log {
		return h.line < g.line
	}
	if earlier, ok := h.at.before(g.at); ok {
		return earlier
	}
	return h.log < g.log
}

// scanned is what one log says.
type scanned struct {
	hits      []hit
	pointed   int
	complaint *Evidence // the last line that looks like an error
}

// scan looks for signatures in a log.
func (t *Table) scan(index int, l Log) scanned {
	out := scanned{pointed: -1}
	lines := split(l)
	tracer := tracer{known: t.exceptions, ranks: map[int]*trace{}}
	m := matcher{table: t, seen: make([]bool, len(t.signatures))}
	for i := range lines {
		one := &lines[i]
		tracer.mark(one)
		if one.frame {
			continue
		}
		if r, ok := pointsAt(lines, i); ok {
			out.pointed = r
		}
		h, ok := m.match(one)
		if !ok {
			continue
		}
		h.log, h.line, h.at = index, i, one.at
		h.evidence = Evidence{Source: FromLog, Log: l.Name, Line: one.number, Rank: one.rank, Text: printable(one.text)}
		out.hits = append(out.hits, h)
	}
	out.hits = unsurvived(out.hits, lines)
	if len(out.hits) > maxHits {
		out.hits = append(out.hits[:maxHits/2:maxHits/2], out.hits[len(out.hits)-maxHits/2:]...)
	}
	if len(out.hits) == 0 {
		out.complaint = lastComplaint(l, lines)
	}
	return out
}

// lastComplaint returns the last line that looks like an error, among the last
// few hundred.
func lastComplaint(l Log, lines []line) *Evidence {
	const reach = 400
	for _, one := range slices.Backward(lines[max(0, len(lines)-reach):]) {
		if !one.frame && one.level != low && (one.exception || one.level == serious || complains(one.text)) && !progresses(one.text) {
			return &Evidence{Source: FromLog, Log: l.Name, Line: one.number, Rank: one.rank, Text: printable(one.text)}
		}
	}
	return nil
}

// unsurvived drops hits after which the same rank trained on.
func unsurvived(hits []hit, lines []line) []hit {
	const steps = 3
	if len(hits) == 0 {
		return nil
	}
	after := map[int]int{} // progress of each rank after the line looked at
	kept := hits[:0:0]
	next := len(hits) - 1
	for i := len(lines) - 1; i >= 0 && next >= 0; i-- {
		one := &lines[i]
		if hits[next].line == i {
			if after[one.rank] < steps {
				kept = append(kept, hits[next])
			}
			next--
			continue
		}
		if after[one.rank] < steps && !one.frame && one.level != serious && progresses(one.text) {
			after[one.rank]++
		}
	}
	slices.Reverse(kept)
	return kept
}

// pointsAt reads what launchers say about the rank that failed first: torchrun's
// block after "Root Cause", and mpirun's closing words.
func pointsAt(lines []line, i int) (rank int, ok bool) {
	text := lines[i].text
	if _, after, found := strings.Cut(text, "noticed that process rank "); found {
		rank, _, ok = number(after)
		return rank, ok
	}
	if !strings.Contains(text, "Root Cause (first observed failure)") {
		return 0, false
	}
	for _, l := range lines[i+1 : min(len(lines), i+8)] {
		field, value, _ := strings.Cut(strings.TrimSpace(l.text), ":")
		if strings.TrimSpace(field) == "rank" {
			rank, _, ok = number(strings.TrimSpace(value))
			return rank, ok
		}
	}
	return 0, false
}

// fromOutside returns what events, exit code and signal say.
func (t *Table) fromOutside(in Input, signal string) []hit {
	var hits []hit
	last := len(in.Logs)
	for i, e := range in.Events {
		for r := range t.reasons {
			if slices.Contains(t.reasons[r].Events, e.Kind) {
				text := e.Kind
				if e.Text != "" {
					text += ": " + printable(e.Text)
				}
				hits = append(hits, hit{reason: r, class: byEvent, confidence: 0.97, log: last, line: i,
					evidence: Evidence{Source: FromEvent, Rank: -1, Node: e.Node, Text: text}})
			}
		}
	}
	for r := range t.reasons {
		if signal != "" && slices.Contains(t.reasons[r].Signals, signal) {
			h := hit{reason: r, class: bySymptom, confidence: 0.6, log: last + 1, evidence: Evidence{Source: FromSignal, Rank: -1, Text: signal}}
			if slices.Contains([]string{"SIGABRT", "SIGTERM", "SIGINT", "SIGHUP"}, signal) { // often the launcher's, or the end of another story
				h.class = byEcho
			}
			hits = append(hits, h)
		}
		if in.Exit != nil && signal == "" && slices.Contains(t.reasons[r].Exits, *in.Exit) {
			hits = append(hits, hit{reason: r, class: bySymptom, confidence: 0.7, log: last + 2,
				evidence: Evidence{Source: FromExit, Rank: -1, Text: fmt.Sprint(*in.Exit)}})
		}
	}
	return hits
}

// confidence says how sure the table is of a hit among the others.
func (t *Table) confidence(best hit, hits []hit, signal string) float64 {
	c := best.confidence
	if slices.Contains(t.reasons[best.reason].Signals, signal) && best.evidence.Source == FromLog {
		c += 0.05
	}
	if slices.ContainsFunc(hits, func(h hit) bool {
		return h.class == best.class && !h.peer && t.reasons[h.reason].Category != t.reasons[best.reason].Category
	}) {
		c -= 0.1
	}
	return math.Round(100*max(0.05, min(0.99, c))) / 100
}

// also lists the other reasons that were seen, the nearest to the root first.
func (t *Table) also(best hit, hits []hit) []Sighting {
	const most = 5
	var out []Sighting
	seen := map[int]bool{best.reason: true}
	rest := slices.Clone(hits)
	slices.SortStableFunc(rest, func(a, b hit) int { return int(a.class - b.class) })
	for _, h := range rest {
		if !seen[h.reason] && len(out) < most {
			seen[h.reason] = true
			out = append(out, Sighting{Reason: t.reasons[h.reason].ID, Evidence: h.evidence})
		}
	}
	return out
}

func (t *Table) finding(reason int, confidence float64, e *Evidence) Finding {
	r := &t.reasons[reason]
	return Finding{Reason: r.ID, Text: r.Text, Category: r.Category, Philly: r.Philly, Node: r.Node,
		Confidence: confidence, Evidence: e, Retry: *r.Retry}
}

// mustReason returns the index of a reason that every table has.
func (t *Table) mustReason(id string) int {
	return slices.IndexFunc(t.reasons, func(r Reason) bool { return r.ID == id })
}
