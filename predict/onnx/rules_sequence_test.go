// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSequences splits [batch, 9] at 2 and 5 as an exporter writes it: a loop
// over the places to cut puts slices into a list, the rest follows, and the
// parts are taken out again. Batch 3 is not the recorded one.
func TestSequences(t *testing.T) {
	body := &Graph{
		Inputs: []ValueInfo{{"trip", Int64, nil}, {"go", Bool, nil}, {"from", Int64, nil}, {"list", Float, nil}},
		Nodes: []*Node{
			node("Gather", names("cuts", "trip"), names("place")),
			node("Unsqueeze", names("place", "first"), names("to")),
			node("Slice", names("x", "from", "to", "one"), names("part")),
			node("SequenceInsert", names("list", "part"), names("longer")),
			node("Identity", names("go"), names("on")),
		},
		Outputs: []ValueInfo{{"on", Bool, nil}, {"to", Int64, nil}, {"longer", Float, nil}},
	}
	g := &Graph{
		Inputs: []ValueInfo{{"x", Float, []Dim{{2, ""}, {9, ""}}}},
		Initializers: []*Tensor{ints("cuts", 2, 5), ints("first", 0), ints("one", 1), ints("zero", 0), ints("end", 1<<62),
			{Name: "two", Type: Int64, Dims: []int64{}, Ints: []int64{2}}, {Name: "minus", Type: Int64, Dims: []int64{}, Ints: []int64{-3}}},
		Nodes: []*Node{
			node("SequenceEmpty", nil, names("none")),
			node("Loop", names("two", "", "zero", "none"), names("last", "cut"), "body", body),
			node("Slice", names("x", "last", "end", "one"), names("rest")),
			node("SequenceInsert", names("cut", "rest"), names("parts")),
			node("SequenceAt", names("parts", "two"), names("third")),
			node("SequenceAt", names("parts", "minus"), names("head")),
			node("SequenceErase", names("parts", "two"), names("fewer")),
			node("SequenceLength", names("fewer"), names("n")),
			node("ConcatFromSequence", names("parts"), names("whole"), "axis", 1),
			node("SplitToSequence", names("x", "two"), names("pairs"), "axis", 1),
			node("SequenceAt", names("pairs", "two"), names("pair")),
			node("SplitToSequence", names("x"), names("columns"), "axis", 1, "keepdims", 0),
			node("ConcatFromSequence", names("columns"), names("turned"), "axis", 0, "new_axis", 1),
		},
		Outputs: []ValueInfo{{"whole", Float, nil}},
	}
	s, err := Infer(read(t, model(g)), Options{Batch: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int64{"head": {3, 2}, "third": {3, 4}, "whole": {3, 9}, "pair": {3, 2}, "turned": {9, 3}, "n": {}}
	got := map[string][]int64{}
	for _, v := range s.Values {
		if _, asked := want[v.Name]; asked {
			got[v.Name] = v.Dims
		}
		if v.Name == "n" && !cmp.Equal(v.Ints(), []int64{2}) {
			t.Errorf("the shorter list has %v parts, want 2", v.Ints())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
	if s.Unshaped != 0 || len(s.Unknown) > 0 || len(s.Notes) > 0 {
		t.Errorf("%d values without a shape, unknown %v, notes %q", s.Unshaped, s.Unknown, s.Notes)
	}
}
