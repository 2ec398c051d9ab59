// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

const (
	maxTails = 8       // ranks of a failed attempt whose logs are read
	mayCount = 8 << 20 // bytes of a log in which lines are counted
)

// tails returns the ends of the logs of a failed attempt: the rank that failed
// first, then others.
func tails(dir string, e *api.Exit) []diagnose.Log {
	if e.OK() || e.Yielded || e.Noticed {
		return nil
	}
	var out []diagnose.Log
	if l, ok := tailOf(dir, e.Rank); ok {
		out = append(out, l)
	}
	for rank := 0; len(out) < maxTails && rank < sched.MaxGPUs; rank++ {
		if rank == e.Rank {
			continue
		}
		l, ok := tailOf(dir, rank)
		if !ok {
			break
		}
		out = append(out, l)
	}
	return out
}

// tailOf reads the end of what a rank printed, over the two files it may be in.
func tailOf(dir string, rank int) (diagnose.Log, bool) {
	name := rankLog(rank)
	text, line, err := endOfFile(filepath.Join(dir, name))
	if err != nil {
		return diagnose.Log{}, false
	}
	l := diagnose.Log{Name: name, Rank: rank, Line: line}
	if len(text) < diagnose.TailBytes {
		// The end of the older part comes first. Its lines are numbered separately, so
		// the line number is unknown.
		older, _, err := endOfFile(filepath.Join(dir, olderLog(name)))
		if err == nil {
			text = append(older[max(0, len(older)+len(text)-diagnose.TailBytes):], text...)
			l.Line = 0
		}
	}
	l.Text = string(text)
	return l, true
}

// endOfFile returns the last TailBytes of a file and the number of the first
// line in it; 0: not counted.
func endOfFile(path string) (text []byte, line int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, errors.Join(err, os.ErrInvalid)
	}
	from := max(0, info.Size()-diagnose.TailBytes)
	if from <= mayCount {
		line = 1
		block := make([]byte, 64<<10)
		for at := int64(0); at < from; {
			n, err := f.ReadAt(block[:min(int64(len(block)), from-at)], at)
			line += bytes.Count(block[:n], []byte{'\n'})
			at += int64(n)
			if err != nil {
				return nil, 0, err
			}
		}
	}
	text, err = io.ReadAll(io.NewSectionReader(f, from, diagnose.TailBytes))
	return text, line, err
}
