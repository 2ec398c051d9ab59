// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	tailLines = 50
	tailWidth = 400 // bytes kept of a line
)

// tail keeps the last lines that a rank printed.
type tail struct {
	lines   []string
	partial []byte // of a line that has not ended yet
}

func (t *tail) add(p []byte) {
	for {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		t.partial = append(t.partial, part[:min(len(part), tailWidth-len(t.partial))]...)
		if i < 0 {
			return
		}
		t.flush()
		p = p[i+1:]
	}
}

func (t *tail) flush() {
	line := printable(t.partial)
	t.partial = t.partial[:0]
	if strings.TrimSpace(line) == "" {
		return
	}
	if len(t.lines) == tailLines {
		copy(t.lines, t.lines[1:])
		t.lines = t.lines[:tailLines-1]
	}
	t.lines = append(t.lines, line)
}

// printable drops terminal control characters. Of a line that was overwritten,
// like a progress bar, the last state remains.
func printable(line []byte) string {
	line = ansi.ReplaceAll(bytes.TrimRight(line, "\r"), nil)
	if i := bytes.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	s := strings.ToValidUTF8(string(line), "")
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
}

// exception is the line with which Python ends the report of an error.
var exception = regexp.MustCompile(`^(\[rank[0-9]+\]: ?)?[A-Za-z_][A-Za-z0-9_.]*(Error|Exception|Exit|Interrupt|Warning)\b(:.*)?$`)

// why finds the line that best explains the failure: the exception at the end of
// the last traceback, or else the last line.
func (t *tail) why() string {
	if len(t.partial) > 0 {
		t.flush()
	}
	begin := 0
	for i, line := range t.lines {
		if strings.Contains(line, "Traceback (most recent call last)") {
			begin = i
		}
	}
	for i := len(t.lines) - 1; i >= begin; i-- {
		if exception.MatchString(t.lines[i]) {
			return strings.TrimSpace(t.lines[i])
		}
	}
	if n := len(t.lines); n > 0 {
		return strings.TrimSpace(t.lines[n-1])
	}
	return ""
}
