// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fairway-gpu/fairway/api"
)

// Limits of an exported journal, in bytes.
const (
	DefaultLimit = 1 << 30
	// MaxLine exceeds the largest record that a daemon writes.
	MaxLine = 8 << 20
)

// Read reads an exported journal: one JSON record per line, in order. limit is the
// largest size accepted, in bytes; 0: DefaultLimit. Blank lines and unknown fields
// are ignored.
func Read(r io.Reader, limit int64) ([]api.Record, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	counted := &io.LimitedReader{R: r, N: limit + 1}
	lines := bufio.NewScanner(counted)
	lines.Buffer(make([]byte, 64<<10), int(limit)+1)
	var out []api.Record
	n := 0
	for lines.Scan() {
		n++
		if counted.N == 0 {
			break
		}
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || bytes.HasPrefix(text, []byte(`{"snapshot":`)) { // of a full export, for its restoration
			continue
		}
		if len(text) >= MaxLine {
			return nil, fmt.Errorf("read journal: line %d: %d bytes or more; want one record per line", n, MaxLine)
		}
		rec, err := Decode(text)
		if err != nil {
			return nil, fmt.Errorf("read journal: line %d: %w", n, err)
		}
		if k := len(out); k > 0 && rec.Seq <= out[k-1].Seq {
			return nil, fmt.Errorf("read journal: line %d: seq = %d after %d; want ascending numbers", n, rec.Seq, out[k-1].Seq)
		}
		out = append(out, rec)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, fmt.Errorf("read journal: line %d: %w", n+1, err)
	case counted.N == 0:
		return nil, fmt.Errorf("read journal: more than %d bytes", limit)
	}
	return out, nil
}

// Decode reads one record and checks the fields that all code relies on.
func Decode(text []byte) (api.Record, error) {
	var r api.Record
	if err := json.Unmarshal(text, &r); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return r, fmt.Errorf("column %d: %w", syntax.Offset, err)
		}
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return r, fmt.Errorf("column %d: %s is a %s; want %s", kind.Offset, kind.Field, kind.Value, kind.Type)
		}
		return r, err
	}
	switch {
	case r.Seq == 0:
		return r, errors.New("seq = 0; want the number of the record, from 1")
	case r.At.IsZero():
		return r, fmt.Errorf("record %d: no time; want one in the field at", r.Seq)
	}
	return r, nil
}

// straighten returns the records with the times that they would have if the clock had
// been right: those before a record that set the clock back are set back too.
func straighten(records []api.Record) ([]api.Record, error) {
	if !slices.ContainsFunc(records, func(r api.Record) bool { return r.SetBack > 0 }) {
		return records, nil
	}
	payload, err := json.Marshal(records)
	if err != nil {
		return nil, err
	}
	var out []api.Record // the caller's stay as they are
	if err := json.Unmarshal(payload, &out); err != nil {
		return nil, err
	}
	for i := range out {
		if by := out[i].SetBack.D(); by > 0 {
			for k := range i {
				token := out[k].Token
				out[k].Token = nil
				api.SetBack(&out[k], out[i].At, by)
				out[k].Token = token
			}
		}
	}
	return out, nil
}
