// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A file is JSON Lines: a header, then the records in order of keys, each on a
// line of its own.

// Limits of a file and a line, in bytes. A full pool is smaller.
const (
	MaxFile = 64 << 20
	maxLine = 1 << 20
)

// Version is the version of the format that Write writes.
const Version = 1

const kind = "experience"

type header struct {
	Fairway string `json:"fairway"` // kind
	Version int    `json:"version"`
	Records int    `json:"records"` // detects a truncated file
}

// Write writes the pool. The same pool gives the same bytes.
func (p *Pool) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header{kind, Version, len(p.records)}); err != nil {
		return fmt.Errorf("write experience: header: %w", err)
	}
	for _, r := range p.records {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("write experience: record of %+v: %w", r.Key, err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write experience: %w", err)
	}
	return nil
}

// Read reads what Write has written; blank lines are ignored. An unknown field, a
// value out of range and a second record of a key are errors.
func Read(r io.Reader) (*Pool, error) { return read(r, MaxFile) }

func read(r io.Reader, limit int64) (*Pool, error) {
	limited := &io.LimitedReader{R: r, N: limit + 1}
	p, err := readLines(limited)
	if limited.N <= 0 {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read experience: %w", err)
	}
	return p, nil
}

func readLines(r io.Reader) (*Pool, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	p := New()
	var head *header
	n := 1
	for ; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		var err error
		switch {
		case len(line) == 0:
		case head == nil:
			head, err = readHeader(line)
		default:
			err = p.readRecord(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, fmt.Errorf("line %d: %w", n, err)
	case head == nil:
		return nil, errors.New("the file is empty; want a header line")
	case head.Records != p.Len():
		return nil, fmt.Errorf("%d records in the header, %d in the file: the file is incomplete", head.Records, p.Len())
	}
	return p, nil
}

// readHeader checks the kind and version before the fields: a newer file must not be
// refused for a new field.
func readHeader(line []byte) (*header, error) {
	h := &header{}
	if err := json.Unmarshal(line, h); err != nil {
		return nil, locate(err)
	}
	if h.Fairway != kind {
		return nil, fmt.Errorf("fairway = %.60q; want %q in the header line", h.Fairway, kind)
	}
	if h.Version != Version {
		return nil, fmt.Errorf("version = %d; want %d", h.Version, Version)
	}
	return h, decodeStrict(line, h)
}

// readRecord adds the record of a line.
func (p *Pool) readRecord(line []byte) error {
	r := &Record{}
	if err := decodeStrict(line, r); err != nil {
		return err
	}
	if err := r.Validate(); err != nil {
		return err
	}
	i, twice := p.find(r.Key)
	if twice {
		return fmt.Errorf("key = %+v is repeated; want one record for each key", r.Key)
	}
	p.records = slices.Insert(p.records, i, r)
	p.samples += r.samples()
	p.used = max(p.used, r.Used)
	if len(p.records) > MaxRecords {
		return fmt.Errorf("too many records; want at most %d", MaxRecords)
	}
	if p.samples > MaxAllSamples {
		return fmt.Errorf("%d samples up to here; want at most %d", p.samples, MaxAllSamples)
	}
	return nil
}

// decodeStrict reads one JSON object that fills the line and has no unknown field.
func decodeStrict(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return locate(err)
	}
	at := dec.InputOffset()
	if rest := bytes.TrimSpace(line[at:]); len(rest) > 0 {
		return fmt.Errorf("column %d: %.60q after the object; want one JSON object per line", at+1, rest)
	}
	return nil
}

// locate adds the column to an error of the decoder, if it has one.
func locate(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("column %d: %w", syntax.Offset, err)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("column %d: field %s: a %s; want %s", kind.Offset, kind.Field, kind.Value, kind.Type)
	}
	return err
}
