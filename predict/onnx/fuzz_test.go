// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
)

// odd are numbers that rules trip over.
var odd = []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, -1, -2, -3, -7, 64, 1000, 1 << 20, 1 << 41, 1 << 62, -1 << 62, math.MaxInt64, math.MinInt64}

// attrNames are the attributes that rules read.
var attrNames = names("axis", "axes", "keepdims", "perm", "pads", "strides", "dilations", "kernel_shape", "group", "to", "starts",
	"ends", "shape", "split", "blocksize", "start", "end", "transA", "transB", "ceil_mode", "output_padding", "output_shape", "layout",
	"hidden_size", "batch_dims", "k", "N", "num_scan_inputs", "scan_input_axes", "noop_with_empty_axes", "value_ints", "value_int", "sample_size",
	"pooled_shape", "qkv_hidden_sizes", "q_num_heads", "kv_num_heads", "dtype", "axes", "output_height")

// graphFrom makes a graph out of bytes: each draw picks an operator, an
// operand or a number.
func graphFrom(data []byte) *Graph {
	draw := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		v := int(data[0]) % n
		data = data[1:]
		return v
	}
	list := func(n int) []int64 {
		out := make([]int64, draw(n))
		for i := range out {
			out[i] = odd[draw(len(odd))]
		}
		return out
	}
	var ops []string
	for name := range rules() {
		ops = append(ops, name)
	}
	slices.Sort(ops)
	ops = append(ops, "Mystery", "If", "Loop", "Scan")
	g := &Graph{Inputs: []ValueInfo{sized("v0", Float, 2, 3, 8, 8), sized("v1", Float, 2, 4)}}
	values := names("v0", "v1", "")
	for i := range 4 {
		name := fmt.Sprint("k", i)
		t := ints(name, list(6)...)
		if i == 3 {
			t = weight(name, 4, 3, 3, 3)
		}
		g.Initializers = append(g.Initializers, t)
		values = append(values, name)
	}
	for i := 0; len(data) > 0 && i < 60; i++ {
		n := &Node{Op: ops[draw(len(ops))]}
		for range draw(6) {
			n.Inputs = append(n.Inputs, values[draw(len(values))])
		}
		for k := range draw(3) + 1 {
			n.Outputs = append(n.Outputs, fmt.Sprintf("n%d_%d", i, k))
		}
		for range draw(4) {
			a := Attribute{Name: attrNames[draw(len(attrNames))], I: odd[draw(len(odd))], Ints: list(6)}
			n.Attrs = append(n.Attrs, a)
		}
		switch n.Op {
		case "Einsum":
			n.Attrs = append(n.Attrs, Attribute{Name: "equation", S: []string{"ij,jk", "...i,i->...", "i...i..", "ab,cd->abcde", ""}[draw(5)]})
		case "If", "Loop", "Scan":
			body := &Graph{Inputs: []ValueInfo{{Name: fmt.Sprint("b", i)}}, Nodes: []*Node{node("Relu", names(values[draw(len(values))]), names(fmt.Sprint("r", i)))},
				Outputs: []ValueInfo{{Name: fmt.Sprint("r", i)}, {Name: fmt.Sprint("b", i)}}}
			for _, name := range names("body", "then_branch") {
				n.Attrs = append(n.Attrs, Attribute{Name: name, Graph: body})
			}
		}
		g.Nodes = append(g.Nodes, n)
		values = append(values, n.Outputs...)
	}
	return g
}

// FuzzInfer lets operators meet operands and attributes that they were not
// made for. Whatever comes out has sizes that a value may have.
func FuzzInfer(f *testing.F) {
	for seed := range 300 {
		data := make([]byte, 300)
		state := uint32(seed)*2654435761 + 1
		for i := range data {
			state = state*1664525 + 1013904223
			data[i] = byte(state >> 24)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := encodeModel(model(graphFrom(data)))
		m, err := Read(bytes.NewReader(file))
		if err != nil {
			t.Fatalf("the graph is sound, but: %v", err)
		}
		for _, batch := range []int64{0, 6} {
			s, err := Infer(m, Options{Batch: batch})
			if err != nil {
				continue
			}
			for _, v := range s.Values {
				if slices.ContainsFunc(v.Dims, func(n int64) bool { return n < -1 }) || v.Elements() < 0 || v.Elements() > maxElements {
					t.Fatalf("value %q has dimensions %v", v.Name, v.Dims)
				}
			}
		}
	})
}
