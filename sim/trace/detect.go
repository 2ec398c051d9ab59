// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"fmt"
	"strings"
)

// Detect finds the format of a file from its beginning. name is for error messages
// only.
func Detect(head []byte, name string) (Format, error) {
	head = bytes.TrimPrefix(head, []byte("\uFEFF"))
	head = bytes.TrimLeft(head, " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	first := strings.TrimRight(string(line), "\r")
	switch {
	case first == "":
		return "", fmt.Errorf("detect format of %s: the file is empty", name)
	case first[0] == '{' && strings.Contains(first, `"fairway"`):
		return Native, nil
	case first[0] == '[':
		return Philly, nil
	}
	if cells, _ := split(nil, first, '\t'); gavelColumns[len(cells)] != nil {
		return Gavel, nil
	}
	cells, _ := split(nil, first, ',')
	names, _ := headerNames(cells)
	cols := newColumns(names)
	for _, s := range signatures {
		if cols.without(s.columns) == "" {
			return s.format, nil
		}
	}
	if looksLikeAlibaba(cells) {
		return Alibaba, nil
	}
	return "", fmt.Errorf("detect format of %s: first line %q is none of %v; name the format", name, shorten(first), Formats())
}

// signatures are the columns that identify each table. The first match wins.
var signatures = []struct {
	format  Format
	columns []string
}{
	{Pollux, []string{"application", "num_replicas", "batch_size"}},
	{Philly, []string{"timestamp", "duration", "num_gpus"}},
	{Philly, []string{"submit_time_utc", "num_gpus", "duration_s"}},
	{Helios, []string{"job_id", "vc", "gpu_num", "state", "submit_time"}},
	{Acme, []string{"job_id", "gpu_num", "state", "submit_time"}},
	{Alibaba, []string{"job_name", "task_name", "inst_num", "plan_gpu"}},
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
