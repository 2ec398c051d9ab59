// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Detect finds the format of a file from its beginning. name is for error messages
// only.
func Detect(head []byte, name string) (Format, error) {
	g, err := detect(head, name)
	return g.took, err
}

// guess is a detected format, and the others that the file could have.
type guess struct {
	took   Format
	others []Format
}

// explain adds to an error of the reader how its format was chosen.
func (g guess) explain(err error) error {
	also := ""
	for i, f := range g.others {
		also += [...]string{"; it could also be ", ", "}[min(i, 1)] + string(f)
	}
	return fmt.Errorf("%w (format %s, detected from the first line%s; --format names another of %v)", err, g.took, also, Formats())
}

func detect(head []byte, name string) (guess, error) {
	first := firstLine(head)
	switch {
	case first == "":
		return guess{}, fmt.Errorf("detect format of %s: the file is empty", name)
	case first[0] == '{' && strings.Contains(first, `"fairway"`):
		return guess{took: Native}, nil
	case first[0] == '[':
		return guess{took: Philly}, nil
	}
	if cells, _ := split(nil, first, '\t'); gavelColumns[len(cells)] != nil {
		return guess{took: Gavel}, nil
	}
	cells, _ := split(nil, first, ',')
	names, _ := headerNames(cells)
	cols := newColumns(names)
	var fits []Format
	nearest, least := "", math.MaxInt
	for _, s := range signatures {
		missing := slices.DeleteFunc(slices.Clone(s.columns), cols.has)
		if len(missing) == 0 && !slices.Contains(fits, s.format) {
			fits = append(fits, s.format)
		}
		if n := len(missing); n < min(least, len(s.columns)) {
			nearest, least = fmt.Sprintf("; the nearest is %s, which has %s too", s.format, strings.Join(missing, ", ")), n
		}
	}
	if len(fits) > 0 {
		return guess{fits[0], fits[1:]}, nil
	}
	if looksLikeAlibaba(cells) {
		return guess{took: Alibaba}, nil
	}
	return guess{}, fmt.Errorf("detect format of %s: first line %q is none of %v%s; name the format with --format", name, shorten(first), Formats(), nearest)
}

// firstLine returns the first line that is not blank.
func firstLine(head []byte) string {
	head = bytes.TrimPrefix(head, []byte("\uFEFF"))
	head = bytes.TrimLeft(head, " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return strings.TrimRight(string(line), "\r")
}

// signatures are the columns that identify each table. The first match wins.
var signatures = []struct {
	format  Format
	columns []string
}{
	{Pollux, []string{"application", "num_replicas", "batch_size"}},
	{Rubick, []string{"application", "num_gpus", "exec_plan", "steps"}},
	{Philly, []string{"timestamp", "duration", "num_gpus"}},
	{Philly, []string{"submit_time_utc", "num_gpus", "duration_s"}},
	{Helios, []string{"job_id", "vc", "gpu_num", "state", "submit_time"}},
	{Acme, []string{"job_id", "gpu_num", "state", "submit_time"}},
	{Acme, convertedColumns},
	{Alibaba, []string{"job_name", "task_name", "inst_num", "plan_gpu"}},
	{Openb, []string{"name", "num_gpu", "gpu_milli", "pod_phase"}},
	{Tiresias, []string{"job_id", "num_gpu", "submit_time", "model_name"}},
}

// looksLikeAlibaba recognises a row of the task table, which has no header, by
// the status in its fourth column.
func looksLikeAlibaba(cells []cell) bool {
	if len(cells) != len(alibabaColumns) {
		return false
	}
	switch cells[3].text {
	case "Terminated", "Failed", "Interrupted", "Running", "Waiting":
		return true
	}
	return false
}
