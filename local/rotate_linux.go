// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// overLine is how far a file may exceed its limit to keep a line whole.
const overLine = 64 << 10

// rotator writes a log of at most two files of a given size. Output that cannot be
// written is counted and dropped: a full disk must not stop a training. The log says
// where lines are missing, and how many.
type rotator struct {
	path    string
	limit   int64
	file    *os.File
	size    int64
	inLine  bool // the last byte written was not the end of a line
	checked time.Time
	timed   time.Time // when the last entry of the file of times was made

	lines         int64 // written to all files
	older, begins int64 // lines before the older file and before the present one
	gap           span  // what could not be written since the last write that worked
	unwritten     span  // the same from the beginning on
	err           error // why
}

// span is a part of the output.
type span struct{ bytes, lines int64 }

func (s *span) add(p []byte) {
	s.bytes += int64(len(p))
	s.lines += int64(bytes.Count(p, []byte{'\n'}))
}

// missing describes what could not be written.
func (s span) missing(why error) string {
	return fmt.Sprintf("%d lines (%d bytes) of output could not be written: %v", max(1, s.lines), s.bytes, why)
}

func (r *rotator) Write(p []byte) (int, error) {
	n := len(p)
	r.look()
	for len(p) > 0 {
		part := p[:r.room(p)]
		if len(part) == 0 {
			r.rotate()
			continue
		}
		r.put(part)
		p = p[len(part):]
	}
	return n, nil
}

// room returns how many bytes of p go into the current file, so that files end at
// line ends.
func (r *rotator) room(p []byte) int {
	left := r.limit - r.size
	if int64(len(p)) <= left {
		return len(p)
	}
	if left > 0 {
		if i := bytes.LastIndexByte(p[:left], '\n'); i >= 0 {
			return i + 1
		}
	}
	if !r.inLine {
		if r.size > 0 {
			return 0
		}
		return len(p) // a single line larger than a file
	}
	if i := bytes.IndexByte(p, '\n'); i >= 0 && r.size+int64(i) < r.limit+overLine {
		return i + 1
	}
	if r.size+int64(len(p)) < r.limit+overLine {
		return len(p)
	}
	r.inLine = false // give up keeping this line whole
	return 0
}

func (r *rotator) put(p []byte) {
	n := 0
	if (r.file != nil || r.open()) && r.closeGap() {
		n = r.write(p)
	}
	if rest := p[n:]; len(rest) > 0 {
		r.gap.add(rest)
		r.unwritten.add(rest)
	}
}

// write writes to the file, and returns how much of it was written.
func (r *rotator) write(p []byte) int {
	n, err := r.file.Write(p)
	if n > 0 {
		r.noteTime(time.Now())
	}
	r.size += int64(n)
	r.lines += int64(bytes.Count(p[:n], []byte{'\n'}))
	if n > 0 {
		r.inLine = p[n-1] != '\n'
	}
	if err != nil {
		r.err = err
	}
	return n
}

// closeGap says in the log what is missing at this place. It returns false if that
// cannot be written either.
func (r *rotator) closeGap() bool {
	if r.gap.bytes == 0 {
		return true
	}
	text := "[fairway: " + r.gap.missing(r.err) + "]\n"
	if r.inLine {
		text = "\n" + text
	}
	if r.write([]byte(text)) < len(text) {
		return false
	}
	r.gap = span{}
	return true
}

func (r *rotator) open() bool {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND | unix.O_NOFOLLOW
	f, err := os.OpenFile(r.path, flags, 0o600)
	if os.IsNotExist(err) { // someone removed the folder
		if err = os.MkdirAll(filepath.Dir(r.path), 0o700); err == nil {
			f, err = os.OpenFile(r.path, flags, 0o600)
		}
	}
	if err != nil {
		r.err = err
		return false
	}
	r.file, r.size, r.timed = f, 0, time.Time{}
	if info, err := f.Stat(); err == nil {
		r.size = info.Size()
	}
	if r.size == 0 {
		os.Remove(logTimes(r.path)) // of a file that is gone
	}
	if r.size == 0 && r.lines > 0 {
		r.begins = r.lines
		n, _ := fmt.Fprintf(f, logHeader, r.lines) // no line of the job
		r.size = int64(n)
	}
	return true
}

// look checks from time to time whether the file was removed.
func (r *rotator) look() {
	now := time.Now()
	if r.file == nil || now.Sub(r.checked) < time.Second {
		return
	}
	r.checked = now
	have, err := r.file.Stat()
	if err != nil {
		return
	}
	if at, err := os.Lstat(r.path); err != nil || !os.SameFile(have, at) {
		r.close()
	}
}

func (r *rotator) rotate() {
	r.close()
	if err := os.Rename(r.path, olderLog(r.path)); err != nil && !os.IsNotExist(err) {
		r.err = err
		os.Remove(r.path) // the limit matters more than the old lines
	}
	if err := os.Rename(logTimes(r.path), logTimes(olderLog(r.path))); err != nil {
		os.Remove(logTimes(olderLog(r.path)))
	}
	r.size, r.inLine, r.older = 0, false, r.begins
}

func (r *rotator) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// end closes the log after the last output.
func (r *rotator) end() {
	if r.gap.bytes > 0 && (r.file != nil || r.open()) {
		r.closeGap()
	}
	r.close()
}
