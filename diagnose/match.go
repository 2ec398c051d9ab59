// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"strings"
)

// matcher finds the signature of a line. It keeps its memory between lines.
type matcher struct {
	table *Table
	seen  []bool // of each signature, on the present line
	found []candidate
}

// candidate is a signature with a literal in the line, and where that begins.
type candidate struct{ signature, start int }

// match returns the best signature of a line.
func (m *matcher) match(l *line) (hit, bool) {
	if l.level == low && !l.traced {
		return hit{}, false
	}
	best := m.byText(l)
	if l.exception {
		best = m.byException(l, best)
	}
	if best < 0 {
		return hit{}, false
	}
	s := &m.table.signatures[best]
	h := hit{reason: s.reason, class: classOf(s.As), peer: s.As == Peer, confidence: s.Confidence}
	switch {
	case l.traced:
		h.confidence = min(0.99, h.confidence+0.05)
	case l.level == warning || m.benign(l.text):
		h.class = byWarning
		h.confidence /= 2
	}
	return h, true
}

// byText returns the best signature by the text of the line, or -1.
func (m *matcher) byText(l *line) int {
	t := m.table
	m.found = m.found[:0]
	t.literals.find(l.text, func(text, start int) {
		for _, id := range t.owners[text] {
			if !m.seen[id] {
				m.seen[id] = true
				m.found = append(m.found, candidate{id, start})
			}
		}
	})
	best := -1
	for _, c := range m.found {
		m.seen[c.signature] = false
		if best >= 0 && !t.nearer(c.signature, best) {
			continue
		}
		if t.signatures[c.signature].accepts(l) && (l.exception || l.level == serious || !inQuotes(l.text, c.start)) {
			best = c.signature
		}
	}
	return best
}

// byException returns the best signature by the name of the exception, where it
// is better than one by text: only if it has a pattern of its own, or there is
// none by text.
func (m *matcher) byException(l *line, best int) int {
	t := m.table
	named := t.exceptions[exceptionName(l.text, true)]
	for _, id := range named {
		s := &t.signatures[id]
		if (best < 0 || s.pattern != nil && t.nearer(id, best)) && s.accepts(l) {
			best = id
		}
	}
	if best >= 0 || len(named) > 0 || !l.traced {
		return best
	}
	for _, id := range t.exceptions["*"] {
		if t.signatures[id].accepts(l) {
			return id
		}
	}
	return best
}

// nearer reports whether signature a goes before b on the same line.
func (t *Table) nearer(a, b int) bool {
	return cmp.Or(cmp.Compare(classOf(t.signatures[a].As), classOf(t.signatures[b].As)), cmp.Compare(a, b)) < 0
}

// accepts reports whether a line with a literal of the signature is one of its
// lines.
func (s *signature) accepts(l *line) bool {
	if s.pattern != nil && !s.pattern.MatchString(l.text) || s.frame != nil && !s.frame.MatchString(l.from) {
		return false
	}
	for _, n := range s.Not {
		if strings.Contains(l.text, n) {
			return false
		}
	}
	return true
}

func classOf(w Weight) class {
	switch w {
	case Cause:
		return byCause
	case Echo:
		return byEcho
	}
	return bySymptom
}

// inQuotes reports whether a place in a line is between double quotes or
// backquotes: data, not a message.
func inQuotes(s string, start int) bool {
	return strings.Count(s[:start], `"`)%2 == 1 || strings.Count(s[:start], "`")%2 == 1 && strings.Contains(s[start:], "`")
}

// benign reports whether the program says that the error does not matter.
func (m *matcher) benign(text string) bool {
	lower := strings.ToLower(text)
	for _, b := range m.table.benign {
		if strings.Contains(lower, b) {
			return true
		}
	}
	return false
}
