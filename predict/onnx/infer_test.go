// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRules infers one node at a time. Inputs are shapes of floats; a *Tensor
// is an initializer.
func TestRules(t *testing.T) {
	type in []any
	d := func(n ...int64) []int64 { return nonNil(n) }
	half := func(list ...float64) *Tensor {
		return &Tensor{Type: Float, Dims: d(int64(len(list))), Floats: list}
	}
	for _, tc := range []struct {
		op    string
		in    in
		attrs []any
		want  [][]int64
	}{
		{"Conv", in{d(2, 3, 224, 224), d(64, 3, 7, 7)}, []any{"strides", d(2, 2), "pads", d(3, 3, 3, 3)}, [][]int64{{2, 64, 112, 112}}},
		{"Conv", in{d(2, 8, 10), d(8, 1, 3)}, []any{"group", 8, "dilations", d(2)}, [][]int64{{2, 8, 6}}},
		{"Conv", in{d(1, 3, 9, 9), d(4, 3, 3, 3)}, []any{"auto_pad", "SAME_UPPER", "strides", d(2, 2)}, [][]int64{{1, 4, 5, 5}}},
		{"Conv", in{d(1, 3, 9, 9), d(4, 3, 3, 3)}, []any{"auto_pad", "VALID"}, [][]int64{{1, 4, 7, 7}}},
		{"Conv", in{d(1, 3, 2, 2), d(4, 3, 3, 3)}, nil, [][]int64{nil}},
		{"ConvTranspose", in{d(1, 8, 4, 4), d(8, 2, 3, 3)}, []any{"strides", d(2, 2), "pads", d(1, 1, 1, 1), "output_padding", d(1, 1), "group", 2}, [][]int64{{1, 4, 8, 8}}},
		{"MaxPool", in{d(1, 4, 112, 112)}, []any{"kernel_shape", d(3, 3), "strides", d(2, 2), "pads", d(1, 1, 1, 1)}, [][]int64{{1, 4, 56, 56}, {1, 4, 56, 56}}},
		{"MaxPool", in{d(1, 4, 55, 55)}, []any{"kernel_shape", d(3, 3), "strides", d(2, 2), "ceil_mode", 1}, [][]int64{{1, 4, 27, 27}}},
		{"AveragePool", in{d(1, 4, 6)}, []any{"kernel_shape", d(3), "strides", d(2), "ceil_mode", 1}, [][]int64{{1, 4, 3}}},
		{"GlobalAveragePool", in{d(2, 512, 7, 7)}, nil, [][]int64{{2, 512, 1, 1}}},
		{"Gemm", in{d(8, 2), d(9, 8)}, []any{"transA", 1, "transB", 1}, [][]int64{{2, 9}}},
		{"Gemm", in{d(8, 2), d(3, 8)}, nil, [][]int64{nil}},
		{"MatMul", in{d(2, 1, 5, 3), d(4, 3, 6)}, nil, [][]int64{{2, 4, 5, 6}}},
		{"MatMul", in{d(3), d(3, 6)}, nil, [][]int64{{6}}},
		{"MatMul", in{d(2, 5, 3), d(3)}, nil, [][]int64{{2, 5}}},
		{"Einsum", in{d(2, 5, 3), d(2, 3, 7)}, []any{"equation", "bij, bjk -> bik"}, [][]int64{{2, 5, 7}}},
		{"Einsum", in{d(2, 4, 5, 3), d(3, 7)}, []any{"equation", "...j,jk->...k"}, [][]int64{{2, 4, 5, 7}}},
		{"Einsum", in{d(5, 3), d(3, 7)}, []any{"equation", "ij,jk"}, [][]int64{{5, 7}}},
		{"Add", in{d(2, 1, 5), d(4, 1)}, nil, [][]int64{{2, 4, 5}}},
		{"Add", in{d(2, 3), d(4)}, nil, [][]int64{nil}},
		{"Where", in{d(5, 1), d(1, 4), d()}, nil, [][]int64{{5, 4}}},
		{"BatchNormalization", in{d(2, 3, 4, 4), d(3), d(3), d(3), d(3)}, nil, [][]int64{{2, 3, 4, 4}, {3}, {3}}},
		{"LayerNormalization", in{d(2, 7, 16), d(16)}, nil, [][]int64{{2, 7, 16}, {2, 7, 1}}},
		{"Dropout", in{d(2, 3)}, nil, [][]int64{{2, 3}, {2, 3}}},
		{"LSTM", in{d(20, 2, 8), d(2, 64, 8), d(2, 64, 16)}, []any{"hidden_size", 16, "direction", "bidirectional"}, [][]int64{{20, 2, 2, 16}, {2, 2, 16}, {2, 2, 16}}},
		{"GRU", in{d(20, 2, 8), d(1, 48, 8), d(1, 48, 16)}, nil, [][]int64{{20, 1, 2, 16}, {1, 2, 16}}},
		{"Gather", in{d(100, 16), d(2, 7)}, nil, [][]int64{{2, 7, 16}}},
		{"GatherElements", in{d(5, 6), d(2, 6)}, nil, [][]int64{{2, 6}}},
		{"GatherND", in{d(2, 3, 4), d(5, 2)}, nil, [][]int64{{5, 4}}},
		{"ReduceMean", in{d(2, 3, 4)}, []any{"axes", d(-1)}, [][]int64{{2, 3, 1}}},
		{"ReduceSum", in{d(2, 3, 4), ints("", 0, 2)}, []any{"keepdims", 0}, [][]int64{{3}}},
		{"ReduceMax", in{d(2, 3)}, []any{"keepdims", 0}, [][]int64{{}}},
		{"ArgMax", in{d(2, 3, 4)}, []any{"axis", 1, "keepdims", 0}, [][]int64{{2, 4}}},
		{"TopK", in{d(2, 30), ints("", 5)}, nil, [][]int64{{2, 5}, {2, 5}}},
		{"Reshape", in{d(2, 3, 4), ints("", 0, -1)}, nil, [][]int64{{2, 12}}},
		{"Reshape", in{d(2, 3, 4), ints("", 4, 6)}, nil, [][]int64{{4, 6}}},
		{"Flatten", in{d(2, 3, 4, 5)}, []any{"axis", 2}, [][]int64{{6, 20}}},
		{"Squeeze", in{d(1, 3, 1)}, nil, [][]int64{{3}}},
		{"Squeeze", in{d(1, 3, 1), ints("", -1)}, nil, [][]int64{{1, 3}}},
		{"Unsqueeze", in{d(3, 4), ints("", 0, -1)}, nil, [][]int64{{1, 3, 4, 1}}},
		{"Transpose", in{d(2, 3, 4)}, []any{"perm", d(1, 2, 0)}, [][]int64{{3, 4, 2}}},
		{"Transpose", in{d(2, 3, 4)}, nil, [][]int64{{4, 3, 2}}},
		{"Slice", in{d(10, 20), ints("", 2, -5), ints("", 1<<62, 1<<62), ints("", 0, 1), ints("", 3, 1)}, nil, [][]int64{{3, 5}}},
		{"Slice", in{d(10), ints("", -1), ints("", -1<<62), ints("", 0), ints("", -2)}, nil, [][]int64{{5}}},
		{"Slice", in{d(10, 4)}, []any{"starts", d(1), "ends", d(3)}, [][]int64{{2, 4}}},
		{"Concat", in{d(2, 3), d(2, 5)}, []any{"axis", -1}, [][]int64{{2, 8}}},
		{"Split", in{d(2, 9)}, []any{"axis", 1}, [][]int64{{2, 5}, {2, 4}}},
		{"Split", in{d(2, 9), ints("", 2, 7)}, []any{"axis", 1}, [][]int64{{2, 2}, {2, 7}}},
		{"Expand", in{d(3, 1), ints("", 2, 1, 6)}, nil, [][]int64{{2, 3, 6}}},
		{"Tile", in{d(3, 2), ints("", 2, 4)}, nil, [][]int64{{6, 8}}},
		{"Pad", in{d(3, 2), ints("", 0, 1, 2, 3)}, nil, [][]int64{{5, 6}}},
		{"Resize", in{d(1, 3, 5, 5), half(), half(1, 1, 2, 2.5)}, nil, [][]int64{{1, 3, 10, 12}}},
		{"Resize", in{d(1, 3, 5, 5), nil, nil, ints("", 1, 3, 7, 9)}, nil, [][]int64{{1, 3, 7, 9}}},
		{"Upsample", in{d(1, 3, 5, 5), half(1, 1, 2, 2)}, nil, [][]int64{{1, 3, 10, 10}}},
		{"DepthToSpace", in{d(1, 8, 2, 3)}, []any{"blocksize", 2}, [][]int64{{1, 2, 4, 6}}},
		{"OneHot", in{d(2, 3), ints("", 10), d(2)}, nil, [][]int64{{2, 3, 10}}},
		{"NonZero", in{d(2, 3)}, nil, [][]int64{{2, -1}}},
		{"ConstantOfShape", in{ints("", 4, 5)}, nil, [][]int64{{4, 5}}},
		{"Range", in{&Tensor{Type: Int64, Ints: d(3)}, &Tensor{Type: Int64, Ints: d(10)}, &Tensor{Type: Int64, Ints: d(2)}}, nil, [][]int64{{4}}},
		{"SoftmaxCrossEntropyLoss", in{d(8, 10), d(8)}, nil, [][]int64{{}, {8, 10}}},
		{"DequantizeLinear", in{d(4, 5), d()}, nil, [][]int64{{4, 5}}},
		{"RoiAlign", in{d(1, 256, 50, 50), d(30, 4), d(30)}, []any{"output_height", 7, "output_width", 7}, [][]int64{{30, 256, 7, 7}}},
		{"DFT", in{d(2, 100, 1)}, nil, [][]int64{{2, 100, 2}}},
		{"DFT", in{d(2, 100, 7, 1), &Tensor{Type: Int64, Ints: d(64)}}, []any{"axis", 1, "onesided", 1}, [][]int64{{2, 33, 7, 2}}},
		{"DFT", in{d(2, 33, 2)}, []any{"axis", 1, "onesided", 1, "inverse", 1}, [][]int64{{2, 64, 1}}},
		{"DFT", in{d(2, 33, 2)}, []any{"axis", 2}, [][]int64{nil}},
		{"STFT", in{d(2, 8000), &Tensor{Type: Int64, Ints: d(160)}, d(400)}, nil, [][]int64{{2, 48, 201, 2}}},
		{"STFT", in{d(2, 8000, 1), &Tensor{Type: Int64, Ints: d(160)}, nil, &Tensor{Type: Int64, Ints: d(400)}}, []any{"onesided", 0}, [][]int64{{2, 48, 400, 2}}},
		{"HannWindow", in{&Tensor{Type: Int64, Ints: d(400)}}, nil, [][]int64{{400}}},
		{"Attention", in{d(2, 4, 10, 8), d(2, 4, 12, 8), d(2, 4, 12, 6)}, nil, [][]int64{{2, 4, 10, 6}}},
	} {
		g := &Graph{}
		n := node(tc.op, nil, nil, tc.attrs...)
		for i, v := range tc.in {
			name := fmt.Sprint("in", i)
			switch v := v.(type) {
			case []int64:
				g.Initializers = append(g.Initializers, weight(name, v...))
			case *Tensor:
				c := *v
				c.Name = name
				g.Initializers = append(g.Initializers, &c)
			default:
				name = ""
			}
			n.Inputs = append(n.Inputs, name)
		}
		var got [][]int64
		for i := range tc.want {
			n.Outputs = append(n.Outputs, fmt.Sprint("out", i))
		}
		g.Nodes = []*Node{n}
		s, err := Infer(read(t, model(g)), Options{})
		if err != nil {
			t.Errorf("%s%v: %v", tc.op, tc.in, err)
			continue
		}
		for _, id := range s.Ops[0].Out {
			got = append(got, s.Values[id].Dims)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s of %v %v (-want +got):\n%s", tc.op, tc.in, tc.attrs, diff)
		}
		if unfit := tc.want[0] == nil; unfit != (len(s.Notes) > 0) {
			t.Errorf("%s of %v: notes %q", tc.op, tc.in, s.Notes)
		}
		if len(s.Unknown) > 0 {
			t.Errorf("%s has no rule", tc.op)
		}
	}
}

// paddedResize is what an exporter writes for a padding and a doubling whose
// amounts it computes from shapes.
func paddedResize() *Model {
	return model(&Graph{
		Inputs: []ValueInfo{{"x", Float, []Dim{{-1, "batch"}, {3, ""}, {10, ""}, {12, ""}}}},
		Initializers: []*Tensor{ints("two", 1, 2), ints("zeros", 4), ints("pairs", -1, 2), ints("flat", -1), ints("axis0", 0),
			ints("last", -1), ints("min", -1<<62), ints("minus", -1), ints("at2", 2), ints("end", 1<<62)},
		Nodes: []*Node{
			// pads [1 2 0 0 0 0 0 0] by axis from the last, reordered to begins and ends
			node("ConstantOfShape", names("zeros0"), names("rest"), "value", ints("", 0)),
			node("Identity", names("six"), names("zeros0")),
			node("Constant", nil, names("six"), "value_ints", []int64{6}),
			node("Concat", names("two", "rest"), names("all"), "axis", 0),
			node("Reshape", names("all", "pairs"), names("table")),
			node("Slice", names("table", "last", "min", "axis0", "minus"), names("turned")),
			node("Transpose", names("turned"), names("columns"), "perm", []int64{1, 0}),
			node("Reshape", names("columns", "flat"), names("pads")),
			node("Pad", names("x", "pads"), names("padded")),
			// sizes [batch 3 2H 2W]
			node("Shape", names("padded"), names("shape")),
			node("Slice", names("shape", "axis0", "at2"), names("outer")),
			node("Slice", names("shape", "at2", "end"), names("inner")),
			node("Mul", names("inner", "at2"), names("doubled")),
			node("Concat", names("outer", "doubled"), names("sizes"), "axis", 0),
			node("Resize", names("padded", "", "", "sizes"), names("y")),
		},
		Outputs: []ValueInfo{{Name: "y"}},
	})
}

func TestShapeArithmetic(t *testing.T) {
	s, err := Infer(read(t, paddedResize()), Options{Batch: 5})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int64{"padded": {5, 3, 10, 15}, "y": {5, 3, 20, 30}}
	if diff := cmp.Diff(want, dimsOf(s, "padded", "y")); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
	for _, op := range s.Ops {
		runs := op.Node.Op == "Pad" || op.Node.Op == "Resize"
		if op.Folded == runs {
			t.Errorf("%s: folded %v, want %v", op.Node, op.Folded, !runs)
		}
	}
	if s.Unshaped != 0 || s.Recorded != 0 {
		t.Errorf("unshaped %d, recorded batch %d; want 0, 0", s.Unshaped, s.Recorded)
	}
}

// frozenAttention is an attention block as a tracing exporter writes it at
// batch 2: the batch is a number in every target, for the class token too.
func frozenAttention() *Model {
	return model(&Graph{
		Inputs: []ValueInfo{sized("x", Float, 2, 3, 32, 32)},
		Initializers: []*Tensor{weight("patch", 64, 3, 8, 8), weight("token", 2, 1, 64), weight("qkv", 64, 192),
			ints("t1", 2, 64, 16), ints("t2", 2, 17, 3, 4, 16), ints("t3", 2, 17, 64), ints("t4", 34, 64), ints("t5", 17, 8, 16), ints("t7", 17, 2, 64)},
		Nodes: []*Node{
			node("Conv", names("x", "patch"), names("p"), "strides", []int64{8, 8}),
			node("Reshape", names("p", "t1"), names("p1")),
			node("Transpose", names("p1"), names("p2"), "perm", []int64{0, 2, 1}),
			node("Concat", names("token", "p2"), names("seq"), "axis", 1),
			node("MatMul", names("seq", "qkv"), names("m")),
			node("Reshape", names("m", "t2"), names("m1")),
			node("Transpose", names("m1"), names("m2"), "perm", []int64{2, 0, 3, 1, 4}),
			node("Split", names("m2"), names("q", "k", "v"), "axis", 0),
			node("Transpose", names("k"), names("kt"), "perm", []int64{0, 1, 2, 4, 3}),
			node("MatMul", names("q", "kt"), names("scores")),
			node("Softmax", names("scores"), names("soft")),
			node("MatMul", names("soft", "v"), names("o")),
			node("Transpose", names("o"), names("o1"), "perm", []int64{0, 1, 3, 2, 4}),
			node("Reshape", names("o1", "t3"), names("o2")),
			node("Reshape", names("o2", "t4"), names("rows")),
			// heads beside the batch, behind the sequence
			node("Transpose", names("o2"), names("o3"), "perm", []int64{1, 0, 2}),
			node("Reshape", names("o3", "t5"), names("heads")),
			// sequence and batch as one axis and apart again
			node("Reshape", names("o3", "t4"), names("flat")),
			node("Reshape", names("flat", "t7"), names("apart")),
			node("Mystery", names("o2"), names("secret")),
			node("Relu", names("secret"), names("y")),
		},
		Values:  []ValueInfo{sized("secret", Float, 2, 99)},
		Outputs: []ValueInfo{{Name: "y"}},
	})
}

func TestFrozenBatch(t *testing.T) {
	m := read(t, frozenAttention())
	s, err := Infer(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Batch != 2 || s.Recorded != 2 || s.Unshaped != 0 || len(s.Notes) > 0 {
		t.Errorf("as recorded: batch %d, recorded %d, unshaped %d, notes %q", s.Batch, s.Recorded, s.Unshaped, s.Notes)
	}
	s, err = s.WithBatch(7)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int64{
		"p1": {7, 64, 16}, "seq": {7, 17, 64}, "m1": {7, 17, 3, 4, 16}, "q": {1, 7, 4, 17, 16}, "scores": {1, 7, 4, 17, 17},
		"o2": {7, 17, 64}, "rows": {119, 64}, "heads": {17, 28, 16}, "apart": {17, 7, 64}, "secret": {7, 99}, "y": {7, 99},
	}
	var list []string
	for name := range want {
		list = append(list, name)
	}
	if diff := cmp.Diff(want, dimsOf(s, list...)); diff != "" {
		t.Errorf("at batch 7 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"Mystery": 1}, s.Unknown); diff != "" {
		t.Errorf("unknown operators (-want +got):\n%s", diff)
	}
	if s.Unshaped != 0 || len(s.Notes) > 0 {
		t.Errorf("at batch 7: unshaped %d, notes %q", s.Unshaped, s.Notes)
	}
}

// TestFrozenMask has a random mask of the recorded batch, as exporters write
// stochastic depth: it must not bring the recorded batch back.
func TestFrozenMask(t *testing.T) {
	m := read(t, model(&Graph{
		Inputs: []ValueInfo{sized("x", Float, 2, 4, 5)},
		Nodes: []*Node{
			node("RandomUniform", nil, names("r"), "shape", []int64{2, 1, 1}),
			node("Mul", names("x", "r"), names("dropped")),
			node("Add", names("x", "dropped"), names("y")),
		},
		Outputs: []ValueInfo{{Name: "y"}},
	}))
	for _, batch := range []int64{1, 2, 3, 8} {
		s, err := Infer(m, Options{Batch: batch})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int64{batch, 4, 5}, dimsOf(s, "y")["y"]); diff != "" {
			t.Errorf("batch %d (-want +got):\n%s", batch, diff)
		}
	}
}

func TestInputsAreBound(t *testing.T) {
	ids := func(name string, dims ...Dim) ValueInfo { return ValueInfo{name, Int64, dims} }
	n, seq, open := Dim{-1, "n"}, Dim{-1, "seq"}, Dim{-1, ""}
	g := func(in ...ValueInfo) *Model { return model(&Graph{Inputs: in}) }
	for _, tc := range []struct {
		name string
		m    *Model
		o    Options
		want map[string][]int64
	}{
		{"symbols", g(ids("a", n, seq), ids("b", seq, n)), Options{Batch: 4, Dims: map[string]int64{"seq": 9}}, map[string][]int64{"a": {4, 9}, "b": {9, 4}}},
		{"open stays open", g(ids("a", n, seq)), Options{Batch: 4}, map[string][]int64{"a": {4, -1}}},
		{"assumed", g(ids("a", n, seq)), Options{Batch: 4, Assume: 128}, map[string][]int64{"a": {4, 128}}},
		{"by place", g(ids("a", n, seq)), Options{Batch: 4, Dims: map[string]int64{"a:1": 6}}, map[string][]int64{"a": {4, 6}}},
		{"numbers", g(ids("a", Dim{2, ""}, Dim{5, ""}), ids("b", Dim{3, ""}), ids("c", Dim{2, ""})), Options{Batch: 8}, map[string][]int64{"a": {8, 5}, "b": {3}, "c": {8}}},
		{"nothing recorded", g(ids("a", open, Dim{5, ""})), Options{}, map[string][]int64{"a": {1, 5}}},
		{"scalar first", g(ids("a"), ids("b", n)), Options{Batch: 3}, map[string][]int64{"b": {3}}},
	} {
		s, err := Infer(read(t, tc.m), tc.o)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		got := dimsOf(s, "a", "b", "c")
		for name, dims := range got {
			if len(dims) == 0 {
				delete(got, name)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// controlFlow has an If whose condition is known, one whose is not, and a
// Loop of six trips with a Scan inside.
func controlFlow() *Model {
	branch := func(op string, out string, more ...*Node) *Graph {
		nodes := append(more, node(op, names("x"), names(out)))
		return &Graph{Nodes: nodes, Outputs: []ValueInfo{{Name: out}}}
	}
	scan := &Graph{
		Inputs:  []ValueInfo{{Name: "state"}, {Name: "row"}},
		Nodes:   []*Node{node("Add", names("state", "row"), names("next")), node("Neg", names("next"), names("neg"))},
		Outputs: []ValueInfo{{Name: "next"}, {Name: "neg"}},
	}
	body := &Graph{
		Inputs: []ValueInfo{{Name: "i", Type: Int64, Shape: []Dim{}}, {Name: "c", Type: Bool, Shape: []Dim{}}, {Name: "v"}},
		Nodes: []*Node{
			node("Identity", names("c"), names("c1")),
			node("Scan", names("start", "v"), names("last", "rows"), "body", scan, "num_scan_inputs", 1),
			node("Relu", names("rows"), names("v1")),
		},
		Outputs: []ValueInfo{{Name: "c1"}, {Name: "v1"}, {Name: "last"}},
	}
	yes := &Tensor{Name: "yes", Type: Bool, Dims: []int64{}, Ints: []int64{1}}
	return model(&Graph{
		Inputs:       []ValueInfo{sized("x", Float, 4, 3), sized("maybe", Bool)},
		Initializers: []*Tensor{yes, weight("start", 3), {Name: "six", Type: Int64, Dims: []int64{}, Ints: []int64{6}}},
		Nodes: []*Node{
			node("If", names("yes"), names("a"), "then_branch", branch("Relu", "r"), "else_branch", branch("NonZero", "z")),
			node("If", names("maybe"), names("b"), "then_branch", branch("Relu", "r"), "else_branch", branch("Tanh", "h", node("Exp", names("x"), names("e")))),
			node("Loop", names("six", "", "x"), names("y", "lasts"), "body", body),
		},
		Outputs: []ValueInfo{{Name: "y"}},
	})
}

func TestControlFlow(t *testing.T) {
	s, err := Infer(read(t, controlFlow()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int64{"a": {4, 3}, "b": {4, 3}, "y": {4, 3}, "lasts": {6, 3}, "neg": {3}}
	if diff := cmp.Diff(want, dimsOf(s, "a", "b", "y", "lasts", "neg")); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
	var got []string
	for _, op := range s.Ops {
		got = append(got, fmt.Sprintf("%s x%d", op.Node.Op, op.Repeat))
	}
	// The loop runs 6 times, the scan in it over 4 rows.
	order := "Relu x1, If x1, Exp x1, Tanh x1, If x1, Identity x6, Add x24, Neg x24, Scan x6, Relu x6, Loop x1"
	if diff := cmp.Diff(order, strings.Join(got, ", ")); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	for id, v := range s.Values {
		if v.Producer >= len(s.Ops) {
			t.Errorf("value %d %q: producer %d of %d", id, v.Name, v.Producer, len(s.Ops))
		}
	}
}

func TestHugeValues(t *testing.T) {
	for _, nodes := range [][]*Node{
		{node("ConstantOfShape", names("big"), names("y"))},
		{node("Expand", names("x", "big"), names("y"))},
		{node("Tile", names("x", "big"), names("y"))},
		{node("MatMul", names("column", "row"), names("y"))},
	} {
		g := &Graph{Nodes: nodes, Outputs: []ValueInfo{{Name: "y"}},
			Initializers: []*Tensor{weight("x", 1, 1), ints("big", 1<<31, 1<<31), weight("column", 1<<30, 1), weight("row", 1, 1<<30)}}
		if _, err := Infer(read(t, model(g)), Options{}); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: error %v, want a value too large", nodes[0].Op, err)
		}
	}
	if _, err := Infer(read(t, small()), Options{Batch: 1 << 40}); err == nil {
		t.Error("a batch of 2^40 images was accepted")
	}
	if _, err := Infer(read(t, small()), Options{Batch: -1}); err == nil {
		t.Error("a batch of -1 was accepted")
	}
}

// chain is a network of 1,000 operators in 200 blocks.
func chain() *Model {
	g := &Graph{Inputs: []ValueInfo{sized("x0", Float, 2, 16, 32, 32)}}
	for i := range 200 {
		name := func(s string) string { return fmt.Sprint(s, i) }
		g.Initializers = append(g.Initializers, weight(name("w"), 16, 16, 3, 3), weight(name("s"), 16), weight(name("b"), 16),
			weight(name("m"), 16), weight(name("v"), 16), ints(name("t"), 2, 16, 32, 32))
		g.Nodes = append(g.Nodes,
			node("Conv", names(name("x"), name("w")), names(name("c")), "pads", []int64{1, 1, 1, 1}),
			node("BatchNormalization", names(name("c"), name("s"), name("b"), name("m"), name("v")), names(name("n"))),
			node("Relu", names(name("n")), names(name("r"))),
			node("Reshape", names(name("r"), name("t")), names(name("f"))),
			node("Add", names(name("f"), name("x")), names(fmt.Sprint("x", i+1))))
	}
	g.Outputs = []ValueInfo{{Name: "x200"}}
	return model(g)
}

func BenchmarkRead1000(b *testing.B) {
	file := encodeModel(chain())
	for b.Loop() {
		if _, err := Read(bytes.NewReader(file)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInfer1000(b *testing.B) {
	m := read(b, chain())
	for b.Loop() {
		if _, err := Infer(m, Options{Batch: 32}); err != nil {
			b.Fatal(err)
		}
	}
}
