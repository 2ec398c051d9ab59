// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"os"
	"path/filepath"
	"slices"
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

func TestDetect(t *testing.T) {
	tests := []struct{ head, want, err string }{
		{`{"fairway":"workload","version":9}`, "native", ""},
		{"\uFEFF\n  [ {", "philly", ""},
		{"JOB_ID,USER,VC,GPU_NUM,STATE,SUBMIT_TIME", "helios", ""},
		{"", "", "detect format of f: the file is empty"},
		{"{\"jobs\":[]}", "", `detect format of f: first line "{\"jobs\":[]}" is none of [native pollux philly helios alibaba acme tiresias gavel]; name the format`},
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
