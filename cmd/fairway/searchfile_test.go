// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/sched"
)

func TestSearchFile(t *testing.T) {
	const text = `
id: sweep
search:
  parameters:
    lr: {min: 1e-4, max: 1, log: true}
    layers: {min: 1, max: 4, int: true, steps: 2}
    version: [3.10, "3.9"]
  method: grid
  stopping: {rule: pop, min: 2, max: 50, eta: 4, target: 0.95}
  metric: {name: accuracy, goal: maximize}
  at_once: 4
  seed: 9
  key: once
gpus: 1-2
command: [train, "{lr}"]
`
	number := func(v float64) *float64 { return &v }
	want := api.SearchSpec{
		ID: "sweep", Method: "grid", Metric: api.Metric{Name: "accuracy", Goal: "maximize"}, AtOnce: 4, Seed: 9, Key: "once",
		Parameters: map[string]api.Parameter{
			"lr": {Min: number(1e-4), Max: number(1), Log: true}, "layers": {Min: number(1), Max: number(4), Int: true, Steps: 2},
			"version": {Values: []string{"3.10", "3.9"}},
		},
		Stopping: api.StopRule{Rule: "pop", Min: 2, Max: 50, Eta: 4, Target: number(0.95)},
		Trial:    api.Submission{Spec: sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 2}, Task: api.Task{Command: []string{"train", "{lr}"}}},
	}
	app, err := parseApp("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, app.Search); diff != "" {
		t.Error(diff)
	}
	if err := readSearch("s.yaml", "other", app.Search); err != nil || app.Search.ID != "other" || app.Search.Metric.Goal != api.Maximise {
		t.Errorf("%v, id %q, goal %q", err, app.Search.ID, app.Search.Metric.Goal)
	}
	short, err := parseApp("s.yaml", []byte("search: {stopping: median, metric: acc}\ncommand: [a]\n"))
	if err != nil || short.Search.Stopping.Rule != "median" || short.Search.Metric.Name != "acc" {
		t.Errorf("%+v, %v; want plain words taken", short.Search, err)
	}
}

// TestSearchDocumented: every field is in the reference, and the examples can be
// submitted.
func TestSearchDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/search.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for name := range strictyaml.Fields(reflect.ValueOf(&api.SearchSpec{}).Elem()) {
		if name != "id" && name != "trial" && !strings.Contains(doc, "| `"+name+"` |") {
			t.Errorf("docs/search.md does not describe the field %s", name)
		}
	}
	for _, v := range []any{&api.StopRule{}, &api.Parameter{}, &api.Metric{}} {
		for name := range strictyaml.Fields(reflect.ValueOf(v).Elem()) {
			if name != "values" && !strings.Contains(doc, "`"+name+"`") && !strings.Contains(doc, "`"+name+": true`") {
				t.Errorf("docs/search.md does not mention %s", name)
			}
		}
	}
	_, example, _ := strings.Cut(doc, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	sample, err := os.ReadFile("../../examples/search.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"docs/search.md": example, "examples/search.yaml": string(sample)} {
		app, err := parseApp(name, []byte(text))
		if err != nil || app.Search == nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := readSearch(name, "", app.Search); err != nil {
			t.Error(err)
		}
	}
}
