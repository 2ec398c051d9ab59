// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sim"
)

// Format names a file format.
type Format string

// The formats.
const (
	Native   Format = "native"
	Pollux   Format = "pollux"
	Philly   Format = "philly"
	Helios   Format = "helios"
	Alibaba  Format = "alibaba"
	Acme     Format = "acme"
	Openb    Format = "openb"
	Tiresias Format = "tiresias"
	Gavel    Format = "gavel"
	Rubick   Format = "rubick"
)

// Formats returns every format that Read accepts.
func Formats() []Format {
	return []Format{Native, Pollux, Philly, Helios, Alibaba, Openb, Acme, Tiresias, Gavel, Rubick}
}

// Epoch is time zero of traces that count seconds from their own start, and of
// generated workloads. It is a Monday, so that a generated workload starts with a
// week.
var Epoch = time.Date(2018, time.January, 1, 0, 0, 0, 0, time.UTC)

// DefaultLimit is the default size of the largest file that Read accepts.
const DefaultLimit = 1 << 30

// Options say how to read a file.
type Options struct {
	Format  Format // "": by Detect
	SkipBad bool   // count malformed rows instead of stopping at the first
	Name    string // of the file, for error messages and for the workload
	Limit   int64  // bytes; 0: DefaultLimit
	MaxJobs int    // stop after this many jobs; 0: read all
}

// Report summarises the rows of a file.
type Report struct {
	Format    Format   `json:"format"`
	Rows      int      `json:"rows"` // jobs in the file, good and bad (Alibaba: tasks)
	Jobs      int      `json:"jobs"` // in the workload
	Skipped   int      `json:"skipped"`
	Bad       []BadRow `json:"bad,omitempty"`     // the first of the skipped rows
	Dropped   []Count  `json:"dropped,omitempty"` // well formed, but cannot be replayed
	Notes     []Count  `json:"notes,omitempty"`   // used, with something left out or assumed
	Truncated bool     `json:"truncated,omitempty"`
}

// Count is the number of rows with a reason.
type Count struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
}

// maxBad bounds the bad rows in a report.
const maxBad = 20

// BadRow is a malformed row.
type BadRow struct {
	Line   int    `json:"line"`            // from 1
	Column int    `json:"column"`          // byte in the line, from 1
	Field  string `json:"field,omitempty"` // "": the row as a whole
	Value  string `json:"value"`
	Text   string `json:"text"` // what would be valid
}

// RowError is the error for the first malformed row of a file.
type RowError struct {
	File string
	BadRow
}

func (e *RowError) Error() string {
	what := e.Field
	if what == "" {
		what = "row"
	}
	return fmt.Sprintf("%s:%d:%d: %s = %q: %s", e.File, e.Line, e.Column, what, e.Value, e.Text)
}

// errEnough stops a reader that has reached Options.MaxJobs.
var errEnough = errors.New("enough jobs")

// Read reads a workload. It returns a report of what it has seen even with an error.
func Read(r io.Reader, o Options) (*sim.Workload, *Report, error) {
	if o.Name == "" {
		o.Name = "trace"
	}
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	br := bufio.NewReaderSize(&limited{r: r, left: o.Limit, limit: o.Limit}, headBytes)
	b := newBuilder(o)
	var guessed guess
	if o.Format == "" {
		head, err := br.Peek(headBytes)
		if err != nil && err != io.EOF {
			return nil, &b.report, fmt.Errorf("read %s: %w", o.Name, err)
		}
		if guessed, err = detect(head, o.Name); err != nil {
			return nil, &b.report, err
		}
		o.Format = guessed.took
	}
	b.report.Format = o.Format
	read, ok := readers[o.Format]
	if !ok {
		return nil, &b.report, fmt.Errorf("read %s: format %q; want one of %v", o.Name, o.Format, Formats())
	}
	err := read(br, b)
	if err != nil && !errors.Is(err, errEnough) {
		var row *RowError
		if !errors.As(err, &row) {
			err = fmt.Errorf("read %s: %w", o.Name, err)
		}
		if guessed.took != "" {
			err = guessed.explain(err)
		}
		return nil, b.finishReport(), err
	}
	return b.finish(), b.finishReport(), nil
}

// readers has one function for each format. It reads to the end, and passes every job
// to the builder.
var readers = map[Format]func(*bufio.Reader, *builder) error{
	Native:   readNative,
	Pollux:   readPollux,
	Rubick:   readRubick,
	Philly:   readPhilly,
	Helios:   readHelios,
	Alibaba:  readAlibaba,
	Acme:     readAcme,
	Openb:    readOpenb,
	Tiresias: readTiresias,
	Gavel:    readGavel,
}

// limited fails beyond a limit.
type limited struct {
	r     io.Reader
	left  int64
	limit int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		// One more byte distinguishes a file of exactly the limit from a longer one.
		var one [1]byte
		n, err := io.ReadFull(l.r, one[:])
		if n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("the file has more than %d bytes; want a higher limit to read it", l.limit)
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}

func sortCounts(m map[string]int) []Count {
	var out []Count
	for reason, n := range m {
		out = append(out, Count{reason, n})
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// baseName is the workload's name: the file's, without folders and ending.
func baseName(file string) string {
	name := path.Base(strings.ReplaceAll(file, "\\", "/"))
	if cut := strings.TrimSuffix(name, path.Ext(name)); cut != "" {
		return cut
	}
	return name
}
