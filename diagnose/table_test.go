// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// phillyRows are the reasons of Table 7 of the Philly paper.
var phillyRows = []string{
	"CPU out of memory", "Incorrect inputs", "Semantic error", "Core dump", "Invalid mem access", "Model ckpt error",
	"CUDA failure", "Syntax error", "Traceback from crash", "MPI error", "GPU out of memory", "MPI runtime failure",
	"Permission error", "Import error", "Job preempted", "CUDA init failed", "Model diverged", "CUDA ver. mismatch",
	"GPU ECC error", "Output node error", "Cannot load libs", "No signature",
}

// TestPhillyRows: the table covers every row of the paper, with a sample in the
// corpus for each, and names no row that the paper does not have.
func TestPhillyRows(t *testing.T) {
	table := builtinTable(t)
	sampled := map[string]int{}
	for _, s := range corpus(t) {
		sampled[table.Classify(s.in).Philly]++
	}
	for _, row := range phillyRows {
		if !slices.ContainsFunc(table.Reasons(), func(r Reason) bool { return r.Philly == row }) {
			t.Errorf("no reason for the row %q", row)
		}
		if sampled[row] == 0 {
			t.Errorf("no sample in the corpus for the row %q", row)
		}
	}
	for _, r := range table.Reasons() {
		if r.Philly != "" && !slices.Contains(phillyRows, r.Philly) {
			t.Errorf("reason %s: the paper has no row %q", r.ID, r.Philly)
		}
	}
}

// TestRetryBudgets: what section 4 of the paper says about what to retry.
func TestRetryBudgets(t *testing.T) {
	table := builtinTable(t)
	want := map[string]int{
		"Syntax error": 0, "Import error": 0, "Permission error": 0, "Semantic error": 0, "Incorrect inputs": 0, "Output node error": 0,
		"Cannot load libs": 0, "CUDA ver. mismatch": 0, "Core dump": 1, "CPU out of memory": 1, "GPU out of memory": 1,
		"Traceback from crash": 1, "Model diverged": 1, "No signature": 1, "CUDA init failed": 3, "GPU ECC error": 3, "MPI error": 3,
		"MPI runtime failure": 3, "Job preempted": Unlimited,
	}
	for _, r := range table.Reasons() {
		if budget, ok := want[r.Philly]; ok && r.Retry.Budget != budget {
			t.Errorf("reason %s (%s): %d retries; want %d", r.ID, r.Philly, r.Retry.Budget, budget)
		}
		if r.Category == User && r.Retry.Budget > 1 {
			t.Errorf("reason %s: %d retries for the user's fault; want at most 1", r.ID, r.Retry.Budget)
		}
	}
}

func TestWith(t *testing.T) {
	table := builtinTable(t)
	mine, err := ParseFile([]byte(`{"benign": ["no worry"], "reasons": [
		{"id": "licence", "text": "no licence", "category": "infrastructure", "retry": {"budget": 5, "after": "10m", "say": "wait"},
		 "events": ["licence-lost"], "signatures": [{"has": ["licence server"], "match": "licence server .* refused"}]},
		{"id": "gpu-out-of-memory", "retry": {"budget": 0, "say": "ask the team"}, "signatures": [{"has": ["vram exhausted"]}]},
		{"id": "program-bug", "signatures": [{"exceptions": ["ModuleNotFoundError"], "match": "'ourlib"}]}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	table, err = table.With(mine)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text, want string
		budget     int
	}{
		{"licence server 10.0.0.1 refused: Connection refused", "licence", 5},
		{"VRAM exhausted in block 4", "gpu-out-of-memory", 0},
		{"RuntimeError: CUDA out of memory. Tried to allocate 2 GiB", "gpu-out-of-memory", 0},
		{"ModuleNotFoundError: No module named 'ourlib.x'", "program-bug", 0},
		{"ModuleNotFoundError: No module named 'numpy'", "import-error", 0},
		{"OSError: [Errno 28] No space left on device", "disk-full", 1},
	} {
		got := table.Classify(Input{Logs: []Log{{Rank: -1, Text: c.text}}})
		if got.Reason != c.want || got.Retry.Budget != c.budget {
			t.Errorf("%q: %s with %d retries; want %s with %d", c.text, got.Reason, got.Retry.Budget, c.want, c.budget)
		}
	}
	if got := table.Classify(Input{Events: []Event{{Kind: "licence-lost", Node: "n1"}}}); got.Reason != "licence" || got.Evidence.Node != "n1" {
		t.Errorf("event licence-lost: %+v; want licence on n1", got)
	}
	if kinds := table.EventKinds(); !slices.Contains(kinds, "licence-lost") || !slices.IsSorted(kinds) {
		t.Errorf("event kinds %v; want licence-lost among them, sorted", kinds)
	}
	quiet := table.Classify(Input{Logs: []Log{{Rank: -1, Text: "ls: x: Permission denied, no worry\nbash: a: command not found"}}})
	if quiet.Reason != "missing-program" {
		t.Errorf("benign line: %s; want missing-program", quiet.Reason)
	}
}

func TestBadTables(t *testing.T) {
	reason := func(rest string) string {
		return `{"reasons": [{"id": "x", "text": "t", "category": "user", "retry": {"budget": 0, "say": "s"}, ` + rest + `}]}`
	}
	for _, c := range []struct{ text, want string }{
		{`{`, "line 1"},
		{`{"reasonz": []}`, "reasonz"},
		{`{"reasons": []} {}`, "goes on"},
		{"{\"reasons\": [\n\n{\"id\": 7}]}", "line 3"},
		{`{"reasons": [{"id": "Bad Id"}]}`, `"Bad Id"`},
		{`{"reasons": [{"id": "x", "category": "user", "retry": {"budget": 0}}]}`, "text"},
		{`{"reasons": [{"id": "x", "text": "t", "category": "users", "retry": {"budget": 0}}]}`, `category = "users"`},
		{`{"reasons": [{"id": "x", "text": "t", "category": "user"}]}`, "retry = nothing"},
		{`{"reasons": [{"id": "x", "text": "t", "category": "user", "retry": {"budget": -2}}]}`, "budget = -2"},
		{`{"reasons": [{"id": "x", "text": "t", "category": "user", "retry": {"budget": 1, "after": "2h"}}]}`, "after = 2h"},
		{`{"reasons": [{"id": "x", "text": "t", "category": "user", "retry": {"budget": 1, "more": "luck"}}]}`, `more = "luck"`},
		{reason(`"signatures": [{"has": ["ab"]}]`), `has = "ab"`},
		{reason(`"signatures": [{}]`), "one of the two"},
		{reason(`"signatures": [{"has": ["abcd"], "exceptions": ["X"]}]`), "one of the two"},
		{reason(`"signatures": [{"has": ["abcd"], "match": "(("}]`), `match = "(("`},
		{reason(`"signatures": [{"has": ["abcd"], "as": "root"}]`), `as = "root"`},
		{reason(`"signatures": [{"has": ["abcd"], "confidence": 2}]`), "confidence = 2"},
		{reason(`"signatures": [{"has": ["abcd"], "match": "` + strings.Repeat("a", 3000) + `"}]`), "3000 bytes"},
	} {
		f, err := ParseFile([]byte(c.text))
		if err == nil {
			_, err = builtinTable(t).With(f)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: error %v; want one with %s", c.text, err, c.want)
		}
	}
	if _, err := NewTable(File{}); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("empty table: error %v; want one that misses %q", err, ReasonUnknown)
	}
}

// TestPage: docs/failures.md lists the reasons as they are in the table.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "<!-- table -->\n")
	got, _, ok := strings.Cut(after, "<!-- end of table -->")
	if !ok {
		t.Fatal("docs/failures.md has no table between its marks")
	}
	if diff := cmp.Diff(Page(builtinTable(t).Reasons()), got); diff != "" {
		t.Errorf("docs/failures.md (-want +got); fairway classify --list --markdown prints the table:\n%s", diff)
	}
}
