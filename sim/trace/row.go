// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// columns are the names of a table's columns.
type columns struct {
	names []string
	index map[string]int
}

func newColumns(names []string) *columns {
	c := &columns{names: names, index: make(map[string]int, len(names))}
	for i, name := range names {
		if _, dup := c.index[name]; !dup {
			c.index[name] = i
		}
	}
	return c
}

// row is one line of a table. Its methods read cells by column name and remember the
// first malformed one; the reader checks bad once, after reading all it needs.
type row struct {
	cols  *columns
	cells []cell
	line  int
	bad   *BadRow
}

func (r *row) cell(name string) cell {
	if i, ok := r.cols.index[name]; ok && i < len(r.cells) {
		return r.cells[i]
	}
	return cell{col: 1}
}

func (r *row) refuse(name, want string) {
	if r.bad == nil {
		c := r.cell(name)
		r.bad = &BadRow{Line: r.line, Column: c.col, Field: name, Value: c.text, Text: want}
	}
}

// text returns a cell as it is.
func (r *row) text(name string) string { return r.cell(name).text }

// missing reports whether a cell is empty or marks a missing value.
func (r *row) missing(name string) bool { return isMissing(r.cell(name).text) }

func isMissing(text string) bool {
	switch strings.ToLower(text) {
	case "", "none", "null", "nan", "na", "n/a", "nat", "-":
		return true
	}
	return false
}

// number reads a cell as a number from 0 to most.
func (r *row) number(name string, most float64) float64 {
	v, err := strconv.ParseFloat(r.cell(name).text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		r.refuse(name, fmt.Sprintf("want a number from 0 to %g", most))
		return 0
	}
	return v
}

// maxCount is the largest number of GPUs, nodes or the like in one row.
const maxCount = 1 << 20

// count reads a cell as a whole number. It accepts "8.0", which tables from data
// frames have.
func (r *row) count(name string) int {
	v, err := strconv.ParseFloat(r.cell(name).text, 64)
	if err != nil || v != math.Trunc(v) || v < 0 || v > maxCount {
		r.refuse(name, fmt.Sprintf("want a whole number from 0 to %d", maxCount))
		return 0
	}
	return int(v)
}

// maxSeconds bounds times and durations in seconds: 100 years.
const maxSeconds = 100 * 365 * 24 * 3600

// span reads a cell as a duration in units.
func (r *row) span(name string, unit time.Duration) sched.Duration {
	v := r.number(name, maxSeconds*float64(time.Second/unit))
	return sched.Duration(v * float64(unit))
}

// since reads a cell as a time after Epoch, in units.
func (r *row) since(name string, unit time.Duration) time.Time {
	return Epoch.Add(r.span(name, unit).D())
}

// when reads a cell as a calendar time.
func (r *row) when(name string) time.Time {
	t, ok := parseTime(r.cell(name).text)
	if !ok {
		r.refuse(name, "want a time such as 2017-10-09 07:01:55")
	}
	return t
}

// timeLayouts are the calendar times in traces. Those without a zone are read as UTC.
var timeLayouts = [...]string{
	"2006-01-02 15:04:05",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05",
}

func parseTime(text string) (time.Time, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), t.Year() >= firstYear && t.Year() <= lastYear
		}
	}
	return time.Time{}, false
}

// runTime makes a duration valid: a job that was logged with no duration ran for less
// than the log's resolution.
func runTime(d sched.Duration) sched.Duration {
	return max(d, sched.Duration(time.Second))
}

// table describes how a text format lays out its rows.
type table struct {
	sep  byte
	need []string // required columns
	want string   // what to ask for when one is missing; "": all names
	// names returns the names of the columns from the first line, and whether that
	// line is a header.
	names func(first []cell) (names []string, header bool)
}

// headed is a comma-separated table whose first line names the columns.
func headed(need ...string) table {
	return table{sep: ',', need: need, names: headerNames}
}

func headerNames(first []cell) ([]string, bool) {
	names := make([]string, len(first))
	for i, c := range first {
		names[i] = strings.ToLower(c.text)
	}
	return names, true
}

// read calls each for every row with the right number of cells. each leaves errors in
// row.bad.
func (t table) read(br *bufio.Reader, b *builder, each func(*row) error) error {
	lines := lineReader{r: br}
	var cells []cell
	var cols *columns
	for {
		line, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var ok bool
		cells, ok = split(cells, line, t.sep)
		if cols == nil {
			names, header := t.names(cells)
			cols = newColumns(names)
			if missing := cols.without(t.need); missing != "" {
				return t.refuseHeader(b, lines.line, line, missing)
			}
			if header {
				continue
			}
		}
		b.report.Rows++
		r := row{cols: cols, cells: cells, line: lines.line}
		switch {
		case !ok:
			last := cells[len(cells)-1]
			r.bad = &BadRow{Line: r.line, Column: last.col, Value: last.text, Text: "a quote is not closed, or text follows it"}
		case len(cells) != len(cols.names):
			r.bad = &BadRow{Line: r.line, Column: 1, Value: line,
				Text: fmt.Sprintf("has %d columns; want %d", len(cells), len(cols.names))}
		default:
			if err := each(&r); err != nil {
				return err
			}
		}
		if r.bad != nil {
			if err := b.bad(*r.bad); err != nil {
				return err
			}
		}
	}
}

// refuseHeader is an error even where bad rows are skipped, because no row could be
// read.
func (t table) refuseHeader(b *builder, at int, line, missing string) error {
	want := cmp.Or(t.want, strings.Join(t.need, ", "))
	text := fmt.Sprintf("column %q is missing; want %s", missing, want)
	return b.refuse(BadRow{Line: at, Column: 1, Field: "header", Value: line, Text: text})
}

func (c *columns) without(need []string) string {
	for _, name := range need {
		if _, ok := c.index[name]; !ok {
			return name
		}
	}
	return ""
}

func (c *columns) has(name string) bool {
	_, ok := c.index[name]
	return ok
}
