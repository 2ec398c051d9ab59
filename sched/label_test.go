// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

// TestMarks: what a mark may be, which nodes take which jobs, and that both survive
// the journal.
func TestMarks(t *testing.T) {
	for mark, ok := range map[string]bool{
		"screening": true, "c-0123456789ab": true, "a/b.c_D-9": true, strings.Repeat("x", 63): true,
		"": false, "-a": false, "a b": false, "é": false, strings.Repeat("x", 64): false,
	} {
		if err := sched.CheckLabel(mark); (err == nil) != ok {
			t.Errorf("mark %q: %v; want it right: %t", mark, err, ok)
		}
		if mark == "" {
			continue
		}
		if err := (&sched.Spec{ID: "j", GPUs: 1, Selector: mark}).Validate(); (err == nil) != ok {
			t.Errorf("needs %q: %v; want it right: %t", mark, err, ok)
		}
		if _, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 1, Labels: []string{mark}}}); (err == nil) != ok {
			t.Errorf("marks [%q]: %v; want them right: %t", mark, err, ok)
		}
	}
	for _, marks := range [][]string{{"b", "a"}, {"a", "a"}} {
		if _, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 1, Labels: marks}}); err == nil {
			t.Errorf("marks %v are taken; want them ascending, each once", marks)
		}
	}
	nodes := []sched.Node{{Name: "plain", Type: "t4", GPUMemory: 16}, {Name: "fast", Type: "t4", GPUMemory: 16, Labels: []string{"disk"}}, {Name: "kept", Type: "t4", GPUMemory: 16, Labels: []string{"disk", "team"}, Dedicated: true}}
	for _, c := range []struct {
		spec sched.Spec
		want string
	}{
		{sched.Spec{}, "plain fast"},
		{sched.Spec{Selector: "disk"}, "fast kept"},
		{sched.Spec{Selector: "team"}, "kept"},
		{sched.Spec{Selector: "gold"}, ""},
		{sched.Spec{Selector: "disk", GPUTypes: []sched.GPUType{"h200"}}, ""},
		{sched.Spec{GPUMemory: 17}, ""},
	} {
		var got []string
		for i := range nodes {
			if (&sched.Job{Spec: c.spec}).Suits(&nodes[i]) {
				got = append(got, nodes[i].Name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("a job that needs %q of %d bytes and types %v may be on %v; want %s", c.spec.Selector, c.spec.GPUMemory, c.spec.GPUTypes, got, c.want)
		}
	}
	text, err := json.Marshal(nodes[2])
	var back sched.Node
	if err != nil || json.Unmarshal(text, &back) != nil || !back.Matches("team") || back.Matches("") {
		t.Errorf("a node comes back from %s as %+v", text, back)
	}
}

// TestMarkChecked: a job comes only to nodes that bear its mark, and stays where it is
// when a node loses it.
func TestMarkChecked(t *testing.T) {
	nodes := []sched.Node{{Name: "a", GPUs: 4, Labels: []string{"disk"}}, {Name: "b", GPUs: 4}}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	st := sched.NewState(c)
	apply := func(e sched.Event) {
		t.Helper()
		e.At = start
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	apply(submit(sched.Spec{ID: "j", GPUs: 2, MinGPUs: 1, MaxGPUs: 4, Selector: "disk"}))
	check := func(want string, p ...sched.Slice) {
		t.Helper()
		var got []string
		for _, v := range sched.Check(st.Snapshot(start), sched.Plan{Want: []sched.Placement{p}, Why: make([]sched.Reason, 1)}) {
			got = append(got, v.String())
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("on %v: %q; want %q", p, text, want)
		}
	}
	check("", on(0, 0b11))
	check(`fit: job j: it requires the label "disk"; node b has []`, on(1, 0b11))
	apply(sched.Event{Kind: sched.JobStarted, Job: "j", Placement: sched.Placement{on(0, 0b11)}})
	bare := nodes[0]
	bare.Labels = nil
	apply(sched.Event{Kind: sched.NodeJoined, Node: &bare})
	check("", on(0, 0b11))
	check("", on(0, 0b111))
	check(`fit: job j: it requires the label "disk"; node b has []`, on(0, 0b11), on(1, 0b1))
}
