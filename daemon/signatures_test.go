// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/diagnose"
)

const licence = `reasons:
  - id: licence-lost
    text: the licence server is gone
    category: infrastructure
    retry: {budget: 5, after: 10m, say: wait for the licence server}
    signatures:
      - has: [licence server refused]
        as: cause
`

func TestSignatures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(licence)
	table, err := Signatures(file)
	if err != nil {
		t.Fatal(err)
	}
	code := 1
	in := diagnose.Input{Exit: &code, Logs: []diagnose.Log{{Text: "Licence server refused: no seats\n"}}}
	if got := table.Classify(in).Reason; got != "licence-lost" {
		t.Errorf("a line of ours is %q; want licence-lost", got)
	}
	if table, err = Signatures(""); err != nil || table.Classify(in).Reason == "licence-lost" {
		t.Errorf("without a file it is %q, %v; want what is built in", table.Classify(in).Reason, err)
	}
	for text, want := range map[string]string{
		"reasons: [{nonsense: 1}]":                         "nonsense",
		"reasons: [":                                       ":1:1: ",
		strings.Repeat("#", strictyaml.MaxBytes+1):         "larger than",
		strings.Replace(licence, "licence-lost", "Ä", 1):   file,
		strings.Replace(licence, "infrastructure", "x", 1): file,
	} {
		write(text)
		if _, err := Signatures(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want an error with %q", text, err, want)
		}
	}
	if _, err := Signatures(file + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}

func FuzzSignatures(f *testing.F) {
	for _, s := range []string{licence, "", "reasons: []", "{", "a: &a [*a]", "reasons: [{id: 7}]"} {
		f.Add([]byte(s))
	}
	table, err := diagnose.Builtin()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var mine diagnose.File
		if strictyaml.Unmarshal(text, &mine) == nil {
			_, _ = table.With(mine)
		}
	})
}
