// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// The largest table that can be read.
const (
	maxBytes = 16 << 20
	maxRows  = 20000
)

// table is a CSV file, positioned at a line.
type table struct {
	in     *csv.Reader
	name   string
	column map[string]int
	record []string
}

// open reads the column names, some of which are required.
func open(r io.Reader, name string, want []string) (*table, error) {
	in := csv.NewReader(&limited{r: r, left: maxBytes})
	in.ReuseRecord = true
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: it is empty; want a line with the names of the columns", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	t := &table{in: in, name: name, column: map[string]int{}}
	for i, c := range head {
		t.column[strings.TrimPrefix(c, "\ufeff")] = i
	}
	for _, c := range want {
		if _, ok := t.column[c]; !ok {
			return nil, fmt.Errorf("read %s: no column %s; want %s", name, c, strings.Join(want, ", "))
		}
	}
	return t, nil
}

// eachRow calls a function for every row of a table, up to a number of rows.
func eachRow(r io.Reader, name string, want []string, row func(*table) error) error {
	t, err := open(r, name, want)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		ok, err := t.next()
		if err != nil || !ok {
			return err
		}
		if n == maxRows {
			return fmt.Errorf("read %s: more than %d rows", name, maxRows)
		}
		if err := row(t); err != nil {
			return err
		}
	}
}

// next moves to the next row whose status, if there is that column, is "ok", and
// reports whether there is one.
func (t *table) next() (bool, error) {
	for {
		var err error
		t.record, err = t.in.Read()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", t.name, err)
		}
		if _, has := t.column["status"]; !has || t.text("status") == "ok" {
			return true, nil
		}
	}
}

func (t *table) text(column string) string { return t.record[t.column[column]] }

// fail returns an error with the position in the file.
func (t *table) fail(column, want string) error {
	line, col := t.in.FieldPos(t.column[column])
	return fmt.Errorf("read %s: line %d, column %d: %s %q; want %s", t.name, line, col, column, t.text(column), want)
}

func (t *table) number(column string, low, high float64) (float64, error) {
	v, err := strconv.ParseFloat(t.text(column), 64)
	if err != nil || math.IsNaN(v) || v < low || v > high {
		return 0, t.fail(column, fmt.Sprintf("a number from %g to %g", low, high))
	}
	return v, nil
}

func (t *table) batch(column string) (int, error) {
	v, err := strconv.Atoi(t.text(column))
	if err != nil || v < 1 {
		return 0, t.fail(column, "a number of examples")
	}
	return v, nil
}

// load reads a utilisation in percent and a step time in milliseconds.
func (t *table) load(util, step string) (interfere.Load, error) {
	percent, err := t.number(util, 0, 100)
	if err != nil {
		return interfere.Load{}, err
	}
	milliseconds, err := t.number(step, 1e-3, 1e6)
	return interfere.Load{Util: percent / 100, Step: milliseconds / 1000}, err
}

// limited is a reader that fails, rather than ends, after a number of bytes.
type limited struct {
	r    io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the file has more than %d bytes", maxBytes)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
