// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFolds computes the elements of one node's result. Inputs are lists of
// integers or of floats.
func TestFolds(t *testing.T) {
	type list = []int64
	type floats = []float64
	for _, tc := range []struct {
		op    string
		in    []any
		attrs []any
		want  any
	}{
		{"Add", []any{list{1, 2}, list{3}}, nil, list{4, 5}},
		{"Sub", []any{list{1, 2}, list{3, 3}}, nil, list{-2, -1}},
		{"Mul", []any{floats{1.5}, floats{2}}, nil, floats{3}},
		{"Div", []any{list{7, -7}, list{2}}, nil, list{3, -3}},
		{"Div", []any{floats{7}, floats{2}}, nil, floats{3.5}},
		{"Div", []any{list{7}, list{0}}, nil, list{unknownInt}},
		{"Mod", []any{list{-7}, list{4}}, nil, list{1}},
		{"Pow", []any{floats{2}, floats{0.5 * 6}}, nil, floats{8}},
		{"Pow", []any{list{3}, list{4}}, nil, list{81}},
		{"Min", []any{list{3, 9}, list{5}}, nil, list{3, 5}},
		{"Max", []any{floats{3}, floats{5}}, nil, floats{5}},
		{"Equal", []any{list{1, 2}, list{1}}, nil, list{1, 0}},
		{"Less", []any{floats{1, 2}, floats{2}}, nil, list{1, 0}},
		{"GreaterOrEqual", []any{list{1, 2}, list{2}}, nil, list{0, 1}},
		{"And", []any{list{1, 0}, list{1}}, nil, list{1, 0}},
		{"Or", []any{list{1, 0}, list{0}}, nil, list{1, 0}},
		{"Not", []any{list{1, 0}}, nil, list{0, 1}},
		{"Neg", []any{list{1, -5}}, nil, list{-1, 5}},
		{"Floor", []any{floats{2.7}}, nil, floats{2}},
		{"Ceil", []any{floats{2.2}}, nil, floats{3}},
		{"Sqrt", []any{floats{9}}, nil, floats{3}},
		{"Cast", []any{floats{2.9, -2.9}}, []any{"to", int(Int64)}, list{2, -2}},
		{"Cast", []any{list{2, 3}}, []any{"to", int(Float)}, floats{2, 3}},
		{"Cast", []any{list{2, 0}}, []any{"to", int(Bool)}, list{1, 0}},
		{"Where", []any{list{1, 0}, list{5}, list{6, 7}}, nil, list{5, 7}},
		{"Where", []any{list{1, 0}, floats{5, 5}, floats{6}}, nil, floats{5, 6}},
		{"Where", []any{list{unknownInt, 0}, list{5, 5}, list{6, 6}}, nil, list{unknownInt, 6}},
		{"Concat", []any{list{1}, list{2, 3}}, []any{"axis", 0}, list{1, 2, 3}},
		{"Gather", []any{list{4, 5, 6}, list{-1, 0}}, nil, list{6, 4}},
		{"Slice", []any{list{4, 5, 6, 7}, list{3}, list{0}, list{0}, list{-2}}, nil, list{7, 5}},
		{"Expand", []any{list{4}, list{3}}, nil, list{4, 4, 4}},
		{"Tile", []any{list{4, 5}, list{2}}, nil, list{4, 5, 4, 5}},
		{"ReduceProd", []any{list{2, 3, 4}}, nil, list{24}},
		{"ReduceMax", []any{floats{2, 3}}, nil, floats{3}},
		{"Clip", []any{floats{-3, 0.5, 9}, floats{0}, floats{2}}, nil, floats{0, 0.5, 2}},
		{"Clip", []any{list{-3, 9}, list{0}}, nil, list{0, 9}},
		{"ConstantOfShape", []any{list{2}}, nil, floats{0, 0}},
		{"Size", []any{list{9, 9, 9}}, nil, list{3}},
	} {
		g := &Graph{}
		n := node(tc.op, nil, names("out"), tc.attrs...)
		for i, v := range tc.in {
			c := &Tensor{Name: fmt.Sprint("in", i)}
			switch v := v.(type) {
			case list:
				c.Type, c.Ints, c.Dims = Int64, v, list{int64(len(v))}
			case floats:
				c.Type, c.Floats, c.Dims = Float, v, list{int64(len(v))}
			}
			g.Initializers = append(g.Initializers, c)
			n.Inputs = append(n.Inputs, c.Name)
		}
		g.Nodes = []*Node{n}
		s, err := Infer(model(g), Options{})
		if err != nil {
			t.Errorf("%s of %v: %v", tc.op, tc.in, err)
			continue
		}
		got := s.Values[s.Ops[0].Out[0]].data
		if got == nil {
			t.Errorf("%s of %v was not folded", tc.op, tc.in)
			continue
		}
		want := &constant{}
		switch v := tc.want.(type) {
		case list:
			want.ints = v
		case floats:
			want.floats = v
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(constant{})); diff != "" {
			t.Errorf("%s of %v (-want +got):\n%s", tc.op, tc.in, diff)
		}
	}
}

// TestOpenDimension follows an unknown size through shape arithmetic: the one
// open dimension of a Reshape is found all the same.
func TestOpenDimension(t *testing.T) {
	g := &Graph{
		Inputs:       []ValueInfo{{"x", Float, []Dim{{-1, "n"}, {-1, "seq"}, {64, ""}}}},
		Initializers: []*Tensor{ints("zero", 0), ints("one", 1), ints("heads", 4, 16)},
		Nodes: []*Node{
			node("Shape", names("x"), names("shape")),
			node("Gather", names("shape", "zero"), names("n")),
			node("Gather", names("shape", "one"), names("seq")),
			node("Concat", names("n", "seq", "heads"), names("target"), "axis", 0),
			node("Reshape", names("x", "target"), names("y")),
		},
	}
	for assume, want := range map[int64][]int64{0: {5, -1, 4, 16}, 30: {5, 30, 4, 16}} {
		s, err := Infer(read(t, model(g)), Options{Batch: 5, Assume: assume})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, dimsOf(s, "y")["y"]); diff != "" {
			t.Errorf("assume %d (-want +got):\n%s", assume, diff)
		}
	}
}

func TestValueAccessors(t *testing.T) {
	s, err := Infer(read(t, small()), Options{Batch: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Values {
		switch v.Name {
		case "shape":
			if diff := cmp.Diff([]int64{0, -1}, v.Ints()); diff != "" || !v.Constant() || v.Source != Stored {
				t.Errorf("shape: %v, constant %v, source %v", v.Ints(), v.Constant(), v.Source)
			}
		case "c":
			if v.Bytes() != 4*3*4*64 || v.Constant() || v.Source != Computed {
				t.Errorf("c: %d bytes, want %d", v.Bytes(), 4*3*4*64)
			}
		case "x":
			if v.Source != Fed || v.Elements() != 3*3*8*8 {
				t.Errorf("x: source %v, %d elements", v.Source, v.Elements())
			}
		}
	}
}
