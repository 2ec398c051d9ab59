// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// sample is one labelled log of testdata/corpus. A file there holds many:
//
//	=== name want=reason [exit=N] [signal=S] [event=KIND] [line=N] [rank=N]
//	the log
//	--- name of the first of several logs
type sample struct {
	file, name, want string
	line, rank       int // 0, -2: not checked
	in               Input
}

func corpus(t testing.TB) []sample {
	t.Helper()
	files, err := filepath.Glob("testdata/corpus/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	var out []sample
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split("\n"+string(text), "\n=== ")[1:] {
			head, body, _ := strings.Cut(part, "\n")
			out = append(out, parseSample(t, file, head, body))
		}
	}
	return out
}

func parseSample(t testing.TB, file, head, body string) sample {
	fields := strings.Fields(head)
	s := sample{file: filepath.Base(file), name: fields[0], rank: -2}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		n, err := strconv.Atoi(value)
		switch key {
		case "want":
			s.want = value
		case "signal":
			s.in.Signal = value
		case "event":
			s.in.Events = append(s.in.Events, Event{Kind: value})
		case "exit":
			s.in.Exit = &n
		case "line":
			s.line = n
		case "rank":
			s.rank = n
		default:
			t.Fatalf("%s: %s: field %q", file, s.name, f)
		}
		if slices.Contains([]string{"exit", "line", "rank"}, key) && err != nil {
			t.Fatalf("%s: %s: %v", file, s.name, err)
		}
	}
	if !strings.HasPrefix(body, "--- ") {
		s.in.Logs = []Log{{Rank: -1, Text: body}}
		return s
	}
	for _, part := range strings.Split("\n"+body, "\n--- ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		l := Log{Name: name, Rank: -1, Text: text}
		if n, ok := strings.CutPrefix(name, "rank"); ok {
			l.Rank, _, _ = number(n)
		}
		s.in.Logs = append(s.in.Logs, l)
	}
	return s
}

// shared is the built-in table, made once: it does not change.
var shared = sync.OnceValues(Builtin)

func builtinTable(t testing.TB) *Table {
	t.Helper()
	table, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestCorpus classifies every labelled sample. All must be right: what the
// table does not get right is a bug of it, or of the label.
func TestCorpus(t *testing.T) {
	table := builtinTable(t)
	samples := corpus(t)
	if len(samples) < 120 {
		t.Errorf("%d samples; want 120 or more", len(samples))
	}
	right, rightCategory, claimed, correct, failures := 0, 0, 0, 0, 0
	for _, s := range samples {
		got := table.Classify(s.in)
		want, ok := table.Reason(s.want)
		if !ok {
			t.Errorf("%s: %s: no reason %q in the table", s.file, s.name, s.want)
			continue
		}
		named := func(id string) bool { return id != ReasonUnknown && id != ReasonNone }
		if named(s.want) {
			failures++
		}
		if named(got.Reason) {
			claimed++
		}
		if got.Category == want.Category {
			rightCategory++
		}
		if got.Reason == s.want {
			right++
			if named(got.Reason) {
				correct++
			}
		} else {
			t.Errorf("%s: %s: got %s by %v; want %s", s.file, s.name, got.Reason, got.Evidence, s.want)
			continue
		}
		if s.line != 0 && (got.Evidence == nil || got.Evidence.Line != s.line) {
			t.Errorf("%s: %s: evidence %v; want line %d", s.file, s.name, got.Evidence, s.line)
		}
		if s.rank != -2 && (got.Evidence == nil || got.Evidence.Rank != s.rank) {
			t.Errorf("%s: %s: evidence %+v; want rank %d", s.file, s.name, got.Evidence, s.rank)
		}
	}
	t.Logf("%d samples: %d right, category right %d; precision %d/%d, recall %d/%d",
		len(samples), right, rightCategory, correct, claimed, correct, failures)
}
