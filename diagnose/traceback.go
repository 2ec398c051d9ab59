// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import "strings"

// trace follows the traceback that one rank is printing.
type trace struct {
	open   bool
	prefix string // what stands before each of its lines, such as a time stamp
	frames int
	last   string // the line of the last frame
}

const (
	tracebackMark = "Traceback (most recent call last)"
	maxFrames     = 2000 // lines; more is not a traceback
)

// tracer marks the lines of tracebacks, for each rank by itself: ranks write
// into one log at the same time.
type tracer struct {
	known map[string][]int // exceptions that the table names
	ranks map[int]*trace
	code  int // lines of source code that still follow a bare "File" line
}

// mark looks at the next line of a log.
func (t *tracer) mark(l *line) {
	tr := t.ranks[l.rank]
	if tr == nil {
		tr = &trace{}
		t.ranks[l.rank] = tr
	}
	if i := strings.Index(l.text, tracebackMark); i >= 0 {
		if text, ok := quotedException(l.text[i:]); ok {
			l.text, l.exception, l.traced = text, true, true
			return
		}
		*tr = trace{open: true, prefix: l.text[:i]}
		l.frame = true
		return
	}
	if tr.open {
		tr.follow(l)
		return
	}
	t.stray(l)
	if !l.frame {
		l.exception = exceptionName(l.text, false) != "" || t.known[exceptionName(l.text, true)] != nil
	}
}

// follow marks a line that comes after the head of a traceback.
func (tr *trace) follow(l *line) {
	body := l.text
	switch {
	case strings.Contains(tr.prefix, "Exception Group"), strings.HasPrefix(strings.TrimLeft(body, " "), "| "):
		if cut := strings.TrimLeft(body, " "); strings.HasPrefix(cut, "| ") {
			body = cut[2:]
		}
	case sameShape(body, tr.prefix):
		body = body[len(tr.prefix):]
	}
	tr.frames++
	boxed := strings.HasPrefix(body, "│") || strings.HasPrefix(body, "╰") || strings.HasPrefix(body, "┃")
	if body == "" || body[0] == ' ' || body[0] == '\t' || boxed {
		l.frame = true
		if strings.HasPrefix(body, `  File "`) {
			tr.last = body
		}
		tr.open = tr.frames < maxFrames
		return
	}
	tr.open = false
	if exceptionName(body, true) != "" {
		l.text, l.exception, l.traced, l.from = body, true, true, tr.last
	}
}

// stray marks frames whose head is not in the log: it was cut off, or Python
// prints none (syntax errors).
func (t *tracer) stray(l *line) {
	switch {
	case strings.HasPrefix(l.text, `  File "`):
		l.frame = true
		t.code = 2
	case t.code > 0 && strings.HasPrefix(l.text, "    "):
		l.frame = true
		t.code--
	default:
		t.code = 0
	}
}

// sameShape reports whether a line begins like prefix, other digits aside.
func sameShape(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		digit := s[i] >= '0' && s[i] <= '9' && prefix[i] >= '0' && prefix[i] <= '9'
		if s[i] != prefix[i] && !digit {
			return false
		}
	}
	return true
}

// quotedException finds the exception of a traceback that was squeezed into one
// line, with \n for the ends of lines.
func quotedException(s string) (string, bool) {
	if !strings.Contains(s, `\n`) {
		return "", false
	}
	for i, part := range strings.Split(s, `\n`) {
		if i == 0 || part == "" || part[0] == ' ' {
			continue
		}
		part, _, _ = strings.Cut(part, `",`)
		part = strings.TrimRight(part, `"}] `)
		if exceptionName(part, true) != "" {
			return part, true
		}
	}
	return "", false
}

// exceptionName returns the name of the exception, without its module, that a
// line begins with. Outside of a traceback it must look like one.
func exceptionName(s string, inTraceback bool) string {
	end, last := 0, 0
	for end < len(s) && end < 200 {
		c := s[end]
		switch {
		case c == '.':
			last = end + 1
		case c == '_' || c >= 'a' && c <= 'z' || capital(c):
		case c >= '0' && c <= '9' && end > last:
		default:
			return nameEnding(s, last, end, inTraceback)
		}
		end++
	}
	return nameEnding(s, last, end, inTraceback)
}

func nameEnding(s string, last, end int, inTraceback bool) string {
	name := s[last:end]
	closed := end == len(s) || s[end] == ':' && (end+1 == len(s) || s[end+1] == ' ')
	if name == "" || !closed {
		return ""
	}
	if inTraceback {
		return name
	}
	if !capital(name[0]) && last == 0 {
		return ""
	}
	for _, suffix := range []string{"Error", "Exception", "Interrupt"} {
		if strings.HasSuffix(name, suffix) && (len(name) > len(suffix) || last > 0) {
			return name
		}
	}
	return ""
}
