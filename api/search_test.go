// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrialSubmission(t *testing.T) {
	s := SearchSpec{ID: "sweep"}
	s.Trial.Command = []string{"train", "--lr={lr}", "{lr}{layers}", "{other}", "{ lr}"}
	s.Trial.Env = map[string]string{"OUT": "/out/{lr}"}
	got := s.Submission(Proposal{Number: 7, Params: map[string]string{"lr": "0.1", "layers": "{lr}"}})
	if diff := cmp.Diff([]string{"train", "--lr=0.1", "0.1{lr}", "{other}", "{ lr}"}, got.Command); diff != "" {
		t.Error(diff) // a value that looks like a placeholder is a value
	}
	want := map[string]string{"OUT": "/out/0.1", "FAIRWAY_PARAM_LR": "0.1", "FAIRWAY_PARAM_LAYERS": "{lr}"}
	if diff := cmp.Diff(want, got.Env); diff != "" {
		t.Error(diff)
	}
	if got.App != "sweep" || got.Key != "sweep/trial-7" || got.Name != "sweep" {
		t.Errorf("app %q, key %q, name %q", got.App, got.Key, got.Name)
	}
	if s.Trial.Command[1] != "--lr={lr}" || s.Trial.Env["OUT"] != "/out/{lr}" {
		t.Error("the template was changed")
	}
}

func TestMetricOf(t *testing.T) {
	loss := 0.5
	p := &Point{Loss: &loss, Metrics: map[string]float64{"acc": 0.9, "loss": 7}}
	for _, c := range []struct {
		name  string
		point *Point
		want  float64
		ok    bool
	}{
		{"", p, 0.5, true}, {"loss", p, 0.5, true}, {"acc", p, 0.9, true}, {"f1", p, 0, false}, {"acc", nil, 0, false},
		{"loss", &Point{Metrics: p.Metrics}, 7, true}, {"loss", &Point{}, 0, false},
	} {
		if got, ok := (Metric{Name: c.name}).Of(c.point); got != c.want || ok != c.ok {
			t.Errorf("%q: %g, %v; want %g, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestSearchKinds(t *testing.T) {
	for want, r := range map[string]SearchRecord{
		"search-submitted": {Spec: &SearchSpec{}}, "search-ended": {State: Finished}, "search-stepped": {Promote: []Promotion{{Trial: 1, Rung: 1}}},
	} {
		if got := (&Record{Search: &r}).Kind(); got != want {
			t.Errorf("kind %q; want %q", got, want)
		}
	}
}
