// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
)

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 64 << 20

// The largest coordinates: they keep the arithmetic of the interpolation exact.
const (
	maxNodes = 1 << 12
	maxGPUs  = 1 << 14
	maxLocal = 1 << 22
)

// table reads rows of named numbers from a CSV file.
type table struct {
	csv     *csv.Reader
	columns []string // required columns
	at      []int    // their positions
	record  []string
}

// readRows calls row for each row of a file, and adds the name of the file to its
// error.
func readRows(fsys fs.FS, file string, columns []string, row func(*table) error) error {
	f, err := fsys.Open(file)
	if err != nil {
		return fmt.Errorf("read profile: %w", err)
	}
	defer f.Close()
	if err := scanRows(f, columns, row); err != nil {
		return fmt.Errorf("read profile %s: %w", file, err)
	}
	return nil
}

func scanRows(r io.Reader, columns []string, row func(*table) error) error {
	limited := &io.LimitedReader{R: r, N: MaxFile + 1}
	t := &table{csv: csv.NewReader(limited), columns: columns}
	t.csv.ReuseRecord = true
	if err := t.header(); err != nil {
		return err
	}
	for {
		record, err := t.csv.Read()
		if limited.N <= 0 {
			return fmt.Errorf("more than %d bytes", MaxFile)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // names line and column
		}
		t.record = record
		if err := row(t); err != nil {
			return err
		}
	}
}

func (t *table) header() error {
	names, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("line 1: the file is empty; want a header with the columns %v", t.columns)
	}
	if err != nil {
		return err
	}
	for _, c := range t.columns {
		i := slices.Index(names, c)
		if i < 0 {
			return fmt.Errorf("line 1: column %q is missing; the header is %v", c, slices.Clone(names))
		}
		t.at = append(t.at, i)
	}
	return nil
}

// fail returns the error for the value of a column.
func (t *table) fail(column int, want string) error {
	line, pos := t.csv.FieldPos(t.at[column])
	return fmt.Errorf("line %d, column %d (%s): value %q; want %s", line, pos, t.columns[column], t.record[t.at[column]], want)
}

func (t *table) text(column int) string { return t.record[t.at[column]] }

// number reads a finite number of at least least.
func (t *table) number(column int, least float64) (float64, error) {
	x, err := strconv.ParseFloat(t.text(column), 64)
	if err != nil || !(x >= least) || math.IsInf(x, 0) {
		if math.IsInf(least, -1) {
			return 0, t.fail(column, "a finite number")
		}
		return 0, t.fail(column, fmt.Sprintf("a finite number, %v or more", least))
	}
	return x, nil
}

// maxSeconds is longer than any step takes.
const maxSeconds = 1e9

// seconds reads a time above 0.
func (t *table) seconds(column int) (float64, error) {
	x, err := t.number(column, 0)
	if err == nil && (x == 0 || x > maxSeconds) {
		err = t.fail(column, "a number of seconds above 0, and one that a step may take")
	}
	return x, err
}

// count reads a whole number from 1 to most.
func (t *table) count(column, most int) (int, error) {
	x, err := strconv.ParseFloat(t.text(column), 64)
	if err != nil || !(x >= 1 && x <= float64(most)) || x != math.Trunc(x) {
		return 0, t.fail(column, fmt.Sprintf("a whole number from 1 to %d", most))
	}
	return int(x), nil
}
