// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDetectFiles(t *testing.T) {
	var seen []Format
	for _, f := range files {
		head, err := os.ReadFile(filepath.Join("testdata", f.name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Detect(head, f.name)
		if err != nil || got != f.format {
			t.Errorf("%s: format %q, error %v; want %q", f.name, got, err, f.format)
		}
		seen = append(seen, got)
	}
	for _, f := range Formats() {
		if !slices.Contains(seen, f) {
			t.Errorf("no example file has the format %s", f)
		}
		if readers[f] == nil {
			t.Errorf("no reader for the format %s", f)
		}
	}
}

// TestWrongGuess: an error in a file whose format was detected says which format it
// was read as, which others fit, and how to name one.
func TestWrongGuess(t *testing.T) {
	text := heliosHead + "a,u,v,n,1,1,1,DONE,2020-04-01 10:00:00,2020-04-01 10:00:00,2020-04-01 10:00:00,1,0"
	_, _, err := Read(strings.NewReader(text), Options{Name: "f"})
	want := "(format helios, detected from the first line; it could also be acme; --format names another of [native pollux"
	var row *RowError
	if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &row) {
		t.Errorf("error %v; want a row that is refused, and %q", err, want)
	}
	_, _, err = Read(strings.NewReader(text), Options{Name: "f", Format: Helios})
	if err == nil || strings.Contains(err.Error(), "detected") {
		t.Errorf("error %v; want nothing about a guess, because the format was named", err)
	}
}

func TestDetect(t *testing.T) {
	tests := []struct{ head, want, err string }{
		{`{"fairway":"workload","version":9}`, "native", ""},
		{"\uFEFF\n  [ {", "philly", ""},
		{"JOB_ID,USER,VC,GPU_NUM,STATE,SUBMIT_TIME", "helios", ""},
		{"", "", "detect format of f: the file is empty"},
		{"{\"jobs\":[]}", "", `detect format of f: first line "{\"jobs\":[]}" is none of [native pollux philly helios alibaba openb acme tiresias gavel rubick]; name the format with --format`},
		{"job_id,gpu_num,status,submit_time", "", `detect format of f: first line "job_id,gpu_num,status,submit_time" is none of [native pollux philly helios alibaba openb acme tiresias gavel rubick]; the nearest is acme, which has state too; name the format with --format`},
		{"name,cpu_milli,num_gpu,gpu_milli,pod_phase", "openb", ""},
	}
	for _, test := range tests {
		got, err := Detect([]byte(test.head), "f")
		var text string
		if err != nil {
			text = err.Error()
		}
		if string(got) != test.want || text != test.err {
			t.Errorf("%q: format %q, error %q; want %q, %q", test.head, got, text, test.want, test.err)
		}
	}
}
