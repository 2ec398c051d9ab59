// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	_ "embed"

	"github.com/fairway-gpu/fairway/tune/search"
)

// Bounds of a table.
const (
	maxTrials = 100_000
	maxEpochs = 10_000
)

//go:embed digits.csv
var digits []byte

// Digits returns the table that "go run ./lab/curves" writes: a search for the
// hyper-parameters of a small network that reads digits, all of it really trained.
func Digits() (*search.Table, error) { return ReadCurves(bytes.NewReader(digits), "") }

// ReadCurves reads measured trials, in one of two forms.
//
// CSV: a header and a row for each trial. Columns 1, 2, 3 and so on are the quality
// after each epoch, in percent, more is better; seconds, if there is one, is the time
// of an epoch; every other column is a hyper-parameter.
//
// LCBench (Zimmer et al., TPAMI'21): its JSON file, by data set, of which one is read:
// validation accuracy and time by epoch.
func ReadCurves(r io.Reader, dataset string) (*search.Table, error) {
	br := bufio.NewReader(r)
	first, err := br.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("the file is empty; want a table of trials")
	}
	if first[0] == '{' {
		return readLCBench(br, dataset)
	}
	return readCurves(br)
}

func readCurves(r io.Reader) (*search.Table, error) {
	cr := csv.NewReader(r)
	cr.ReuseRecord = true
	head, err := cr.Read()
	if err != nil {
		return nil, err
	}
	head = slices.Clone(head)
	epochs, seconds := map[int]int{}, -1 // epoch by column
	var columns []string
	var params []int
	for c, name := range head {
		if n, err := strconv.Atoi(name); err == nil {
			epochs[c] = n
		} else if name == "seconds" {
			seconds = c
		} else {
			columns, params = append(columns, name), append(params, c)
		}
	}
	found := slices.Sorted(maps.Values(epochs))
	for i, n := range found {
		if n != i+1 || n > maxEpochs {
			return nil, fmt.Errorf("line 1: the epochs are %d and others; want columns 1 to the last, at most %d", n, maxEpochs)
		}
	}
	var entries []search.Entry
	for {
		record, err := cr.Read()
		if errors.Is(err, io.EOF) {
			return search.NewTable(columns, entries)
		}
		if err != nil {
			return nil, err
		}
		if len(entries) == maxTrials {
			return nil, fmt.Errorf("more than %d trials", maxTrials)
		}
		line, _ := cr.FieldPos(0)
		number := func(c int) float64 {
			v, bad := strconv.ParseFloat(record[c], 64)
			if (bad != nil || !measurable(v)) && err == nil {
				err = fmt.Errorf("line %d: %s = %q; want a number from 0 to 1e9", line, head[c], record[c])
			}
			return v
		}
		e := search.Entry{Curve: make([]float64, len(epochs))}
		for c, n := range epochs {
			e.Curve[n-1] = number(c)
		}
		if seconds >= 0 {
			e.Seconds = number(seconds)
		}
		for _, c := range params {
			e.Values = append(e.Values, record[c])
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
}

// measurable reports whether a quality or a time can have been measured.
func measurable(v float64) bool { return v >= 0 && v <= 1e9 }

// lcRun is one training of LCBench.
type lcRun struct {
	Config map[string]any `json:"config"`
	Log    struct {
		Accuracy []float64 `json:"Train/val_accuracy"`
		Time     []float64 `json:"time"` // since the start, by epoch
	} `json:"log"`
}

// readLCBench reads one data set and skips the others: the file has hundreds of MB.
func readLCBench(r io.Reader, dataset string) (*search.Table, error) {
	dec := json.NewDecoder(r)
	if _, err := dec.Token(); err != nil { // the opening brace
		return nil, err
	}
	var names []string
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if name != dataset && (dataset != "" || len(names) > 0) {
			var skipped json.RawMessage
			if err := dec.Decode(&skipped); err != nil {
				return nil, err
			}
			names = append(names, name)
			continue
		}
		var runs map[string]lcRun
		if err := dec.Decode(&runs); err != nil {
			return nil, fmt.Errorf("data set %s: %w", name, err)
		}
		return lcTable(runs)
	}
	return nil, fmt.Errorf("no data set %q; the file has %q", dataset, names)
}

func lcTable(runs map[string]lcRun) (*search.Table, error) {
	ids := slices.Sorted(maps.Keys(runs))
	if len(ids) == 0 {
		return nil, fmt.Errorf("the data set is empty")
	}
	if len(ids) > maxTrials {
		return nil, fmt.Errorf("more than %d trials", maxTrials)
	}
	columns := slices.Sorted(maps.Keys(runs[ids[0]].Config))
	var entries []search.Entry
	for _, id := range ids {
		run := runs[id]
		if n := len(run.Log.Accuracy); n > maxEpochs {
			return nil, fmt.Errorf("run %.20q has %d epochs; want at most %d", id, n, maxEpochs)
		}
		for _, v := range slices.Concat(run.Log.Accuracy, run.Log.Time) {
			if !measurable(v) {
				return nil, fmt.Errorf("run %.20q has an accuracy or time of %g; want a number from 0 to 1e9", id, v)
			}
		}
		e := search.Entry{Curve: run.Log.Accuracy}
		if n := len(run.Log.Time); n > 0 {
			e.Seconds = run.Log.Time[n-1] / float64(n)
		}
		for _, c := range columns {
			e.Values = append(e.Values, fmt.Sprint(run.Config[c]))
		}
		entries = append(entries, e)
	}
	return search.NewTable(columns, entries)
}
