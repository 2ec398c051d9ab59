// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A Slice from the least integer starts at the start: exporters write it so.
func TestSliceFromTheLeastInteger(t *testing.T) {
	m := read(t, model(&Graph{
		Inputs: []ValueInfo{sized("x", Float, 2, 3, 4, 5)},
		Nodes: []*Node{
			node("Shape", names("x"), names("s")),
			node("Slice", names("s", "least", "two"), names("front")),
			node("Concat", names("front", "rest"), names("target"), "axis", 0),
			node("Reshape", names("x", "target"), names("y")),
		},
		Initializers: []*Tensor{ints("least", math.MinInt64), ints("two", 2), ints("rest", -1)},
		Outputs:      []ValueInfo{{Name: "y"}},
	}))
	s, err := Infer(m, Options{Batch: 7})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{7, 3, 20}, dimsOf(s, "y")["y"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFrozenBatchOfOne has an attention's result, sequence before batch, put
// into a matrix and out of it by sizes of a batch of one.
func TestFrozenBatchOfOne(t *testing.T) {
	m := read(t, model(&Graph{
		Inputs: []ValueInfo{sized("x", Float, 1, 12, 50, 64)},
		Nodes: []*Node{
			node("Transpose", names("x"), names("apart"), "perm", []int64{2, 0, 1, 3}),
			node("Reshape", names("apart", "matrix"), names("rows")),
			node("Reshape", names("rows", "back"), names("joined")),
			node("Transpose", names("joined"), names("y"), "perm", []int64{1, 0, 2}),
		},
		Initializers: []*Tensor{ints("matrix", 50, 768), ints("back", 50, 1, 768)},
		Outputs:      []ValueInfo{{Name: "y"}},
	}))
	s, err := Infer(m, Options{Batch: 16})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int64{"rows": {800, 768}, "joined": {50, 16, 768}, "y": {16, 50, 768}}
	if diff := cmp.Diff(want, dimsOf(s, "rows", "joined", "y")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNumber(t *testing.T) {
	for _, tc := range []struct {
		v    Value
		want float64
		ok   bool
	}{
		{Value{}, 0, false},
		{Value{data: &constant{floats: []float64{0.25}}}, 0.25, true},
		{Value{data: &constant{ints: []int64{3}}}, 3, true},
		{Value{data: &constant{ints: []int64{unknownInt}}}, 0, false},
		{Value{data: &constant{ints: []int64{3, 4}}}, 0, false},
	} {
		if got, ok := tc.v.Number(); got != tc.want || ok != tc.ok {
			t.Errorf("%+v: %g, %v; want %g, %v", tc.v.data, got, ok, tc.want, tc.ok)
		}
	}
}
