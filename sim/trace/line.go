// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// headBytes is how much of a file Detect sees.
const headBytes = 64 << 10

// maxLine is the longest line of a text format.
const maxLine = 1 << 20

// lineReader reads lines, without their ends, and skips blank ones.
type lineReader struct {
	r    *bufio.Reader
	line int // of the last one returned, from 1
	buf  []byte
}

// next returns the next line that is not blank, or io.EOF.
func (l *lineReader) next() (string, error) {
	for {
		text, err := l.read()
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(text) != "" {
			return text, nil
		}
	}
}

func (l *lineReader) read() (string, error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		if len(l.buf) > maxLine {
			return "", fmt.Errorf("line %d is longer than %d bytes", l.line+1, maxLine)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && len(l.buf) > 0 {
			err = nil
		}
		if err != nil {
			return "", err
		}
		break
	}
	l.line++
	text := strings.TrimRight(string(l.buf), "\r\n")
	if l.line == 1 {
		text = strings.TrimPrefix(text, "\uFEFF")
	}
	return text, nil
}

// cell is one field of a line.
type cell struct {
	text string
	col  int // byte in the line where it begins, from 1
}

// split cuts a line into cells. A cell may be in double quotes, with a quote inside
// written twice; it cannot span lines. ok is false if a quote is not closed.
func split(cells []cell, line string, sep byte) (_ []cell, ok bool) {
	cells = cells[:0]
	for at := 0; ; {
		if at < len(line) && line[at] == '"' {
			text, n, closed := unquote(line[at:])
			if !closed || (at+n < len(line) && line[at+n] != sep) {
				return append(cells, cell{line[at:], at + 1}), false
			}
			cells = append(cells, cell{text, at + 1})
			at += n
		} else {
			end := strings.IndexByte(line[at:], sep)
			if end < 0 {
				end = len(line) - at
			}
			cells = append(cells, cell{strings.TrimSpace(line[at : at+end]), at + 1})
			at += end
		}
		if at >= len(line) {
			return cells, true
		}
		at++ // the separator
	}
}

// unquote reads a quoted cell at the start of s and returns its length in bytes.
func unquote(s string) (text string, n int, closed bool) {
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		return strings.ReplaceAll(s[1:i], `""`, `"`), i + 1, true
	}
	return "", 0, false
}
