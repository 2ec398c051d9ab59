// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"io"
	"regexp"
	"time"
)

const (
	// maxLogLine bounds a line that is being put together; a longer one is parted.
	maxLogLine = 64 << 10
	// stateEvery is how often somebody who follows a log sees the state of a line that
	// rewrites itself and has not ended.
	stateEvery = 5 * time.Second
)

// logLines passes a log on line by line.
type logLines struct {
	out      io.Writer
	prefix   string         // of each line
	grep     *regexp.Regexp // nil: all lines
	collapse bool           // see api.LogQuery
	live     bool           // somebody follows
	line     []byte         // that has not ended
	shown    time.Time      // when its state was last passed on
	ready    bytes.Buffer
}

// Write implements io.Writer.
func (l *logLines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		l.line, p = append(l.line, part...), rest
		if l.collapse && (ended || len(l.line) > maxLogLine) {
			l.line = append(l.line[:0], lastState(l.line)...)
		}
		if ended || len(l.line) > maxLogLine {
			l.emit(l.line)
			l.line = l.line[:0]
		}
	}
	if l.collapse && l.live && len(l.line) > 0 && time.Since(l.shown) >= stateEvery {
		l.shown = time.Now()
		l.emit(lastState(l.line))
	}
	return n, l.flush()
}

// end passes on a last line that has not ended.
func (l *logLines) end() error {
	if l.collapse {
		l.line = lastState(l.line)
	}
	if len(l.line) > 0 {
		l.emit(l.line)
	}
	return l.flush()
}

func (l *logLines) emit(line []byte) {
	if l.grep != nil && !l.grep.Match(line) {
		return
	}
	l.ready.WriteString(l.prefix)
	l.ready.Write(line)
	l.ready.WriteByte('\n')
}

func (l *logLines) flush() error {
	if l.ready.Len() == 0 {
		return nil
	}
	_, err := l.out.Write(l.ready.Bytes())
	l.ready.Reset()
	return err
}

// lastState returns what a terminal would show of a line: the text after the last
// return that has some.
func lastState(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	return line[bytes.LastIndexByte(line, '\r')+1:]
}
