// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"os"
	"strings"
	"testing"
)

// TestEverySignature: each signature of the table has a sample that only it, or
// it first, recognises: a line of testdata/lines.txt ("reason: line") or of the
// corpus.
func TestEverySignature(t *testing.T) {
	table := builtinTable(t)
	covered := make([]bool, len(table.signatures))
	cover := func(l Log) {
		tracer := tracer{known: table.exceptions, ranks: map[int]*trace{}}
		m := matcher{table: table, seen: make([]bool, len(table.signatures))}
		for _, one := range split(l) {
			if tracer.mark(&one); one.frame {
				continue
			}
			best := m.byText(&one)
			if one.exception {
				best = m.byException(&one, best)
			}
			if best >= 0 {
				covered[best] = true
			}
		}
	}
	text, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		want, line, ok := strings.Cut(row, ": ")
		if !ok || strings.HasPrefix(row, "#") {
			continue
		}
		l := Log{Rank: -1, Text: line}
		if got := table.Classify(Input{Logs: []Log{l}}); got.Reason != want {
			t.Errorf("testdata/lines.txt:%d: got %s for %q; want %s", i+1, got.Reason, line, want)
		}
		cover(l)
	}
	for _, s := range corpus(t) {
		for _, l := range s.in.Logs {
			cover(l)
		}
	}
	for i, ok := range covered {
		if s := table.signatures[i]; !ok {
			t.Errorf("no sample for reason %s, has %q, exceptions %q, match %q", table.reasons[s.reason].ID, s.Has, s.Exceptions, s.Match)
		}
	}
}
