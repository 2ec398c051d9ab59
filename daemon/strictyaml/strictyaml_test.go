// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package strictyaml_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/sched"
)

type inner struct {
	Budget int `json:"budget"`
}

type sample struct {
	Name  string            `json:"name"`
	Count int               `json:"count"`
	Share float64           `json:"share"`
	On    bool              `json:"on"`
	Every sched.Duration    `json:"every"`
	List  []string          `json:"list"`
	Env   map[string]string `json:"env"`
	Parts map[string]inner  `json:"parts"`
	Rule  *inner            `json:"rule"`
}

func TestUnmarshal(t *testing.T) {
	got := sample{Name: "before", Count: 7}
	text := `
name: 3.10
count:          # no value: stays 7
share: 2
on: true
every: 1m30s
list: [1, two]
env: {A: 1, B: }
parts: {x: {budget: 1e+06}}
rule: {budget: 3}
`
	if err := strictyaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := sample{
		Name: "3.10", Count: 7, Share: 2, On: true, Every: sched.Duration(90 * time.Second), List: []string{"1", "two"},
		Env: map[string]string{"A": "1", "B": ""}, Parts: map[string]inner{"x": {1_000_000}}, Rule: &inner{3},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("got (-want +got):\n%s", d)
	}
	if err := strictyaml.Unmarshal([]byte("# only a comment\n"), &got); err != nil || got.Count != 7 {
		t.Errorf("a file without fields: %v, count %d", err, got.Count)
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"nam: x":                `1:1: unknown field "nam"; did you mean "name"?`,
		"on: true\non: false":   "2:1: on is set twice",
		"count: 1.5":            "1:8: count is \"1.5\"; want a whole number",
		"count: x":              "1:8: count is \"x\"; want a whole number",
		"share: .nan":           "share is \".nan\"; want a number",
		"on: maybe":             "want true or false",
		"every: 30":             `duration "30"`,
		"list: a":               "1:7: list is \"a\"; want a list",
		"env: [a]":              "want names with values",
		"env: {A: 1, A: 2}":     "env.A is set twice",
		"rule: {budge: 1}":      "unknown field \"budge\"",
		"list: &a [x]\nenv: *a": "env uses a YAML alias",
		"- a":                   "1:1: the document is a list; want fields",
		"name: a\n---\nname: b": "3:1: the file has a second document",
		"name: [":               "1:1: did not find",
		strings.Repeat("#", strictyaml.MaxBytes+1): "larger than",
	} {
		if err := strictyaml.Unmarshal([]byte(text), &sample{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want an error with %q", text, err, want)
		}
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	right := func() error { return nil }
	if err := strictyaml.ReadFile(path, &sample{}, right); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("\ncount: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := strictyaml.ReadFile(path, &sample{}, right); err == nil || !strings.HasPrefix(err.Error(), path+":2:8: count") {
		t.Errorf("got %v; want the file and the place", err)
	}
}

// TestCheckNamesThePlace: what is wrong with the whole is at the line of its field.
func TestCheckNamesThePlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	text := "name: a\nrule:\n  # a comment\n  budget: 3\nlist:\n  - x\n  - y\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for message, place := range map[string]string{
		"name = a; want b":               ":1:1: ",
		"rule.budget = 3; want less":     ":4:3: ",
		"rule: budget = 3; want less":    ":4:3: ",
		"rule.window = 0; want more":     ":2:1: ",
		"list[1]: element y: no":         ":7:5: ",
		"share = 0; want more":           ": ", // the default, which the file does not have
		"rule.budget, share: want both":  ":4:3: ",
		"Something that names no field.": ": ",
	} {
		err := strictyaml.ReadFile(path, &sample{}, func() error { return errors.New(message) })
		if want := path + place + message; err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{"name: x", "a: &a [*a]", "parts: {x: {budget: 1}}", "{", "rule:", "env: {<<: {}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) { _ = strictyaml.Unmarshal(text, &sample{}) })
}
