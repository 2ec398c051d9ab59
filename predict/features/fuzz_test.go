// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// FuzzExtract wires operators at random, patterns' operators most, and
// checks that sums stay sums: nothing negative, shares of one, a peak that
// holds what is kept.
func FuzzExtract(f *testing.F) {
	for seed := range 300 {
		data := make([]byte, 250)
		state := uint32(seed)*2654435761 + 7
		for i := range data {
			state = state*1664525 + 1013904223
			data[i] = byte(state >> 24)
		}
		f.Add(data)
	}
	var ops []string
	for name := range kinds() {
		ops = append(ops, name)
	}
	slices.Sort(ops)
	for range 6 {
		ops = append(ops, "Sub", "ReduceMean", "Pow", "Mul", "Add", "Sqrt", "Div", "Erf", "Sigmoid", "MatMul", "Softmax", "Reshape", "Transpose", "Mystery")
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		draw := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			v := int(data[0]) % n
			data = data[1:]
			return v
		}
		b := &net{}
		values := []string{b.input("x", onnx.Float, 2, 4, 4), b.input("ids", onnx.Int64, 2), b.weight(4, 4), b.weight(4), b.number(2), b.ints(-1, 4), ""}
		for len(data) > 0 && b.n < 80 {
			var in, out []string
			op := ops[draw(len(ops))]
			for range draw(4) {
				in = append(in, values[(len(values)-1-draw(min(8, len(values))))])
			}
			for range draw(3) {
				out = append(out, b.fresh("v"))
			}
			if draw(12) == 0 {
				out = append([]string{""}, out...)
			}
			b.g.Nodes = append(b.g.Nodes, &onnx.Node{Op: op, Inputs: in, Outputs: out})
			values = append(values, out...)
			if draw(3) == 0 {
				values = append(values, values[draw(7)])
			}
			b.n++
		}
		m := &onnx.Model{Opsets: map[string]int64{"": 17}, Graph: &b.g}
		s, err := onnx.Infer(m, onnx.Options{Batch: 3})
		if err != nil {
			return
		}
		x := Extract(s, Recipe{})
		sum := 0.0
		for _, share := range x.Share {
			sum += share
		}
		if sum > 1.000001 || x.Params < 0 || x.ActivationBytes < 0 || x.FlopsForward < 0 || x.PeakBytes < x.ActivationBytes || x.Certain < 0 || x.Certain > 1 {
			t.Fatalf("%+v", x)
		}
		if r := x.Roofline(Device{1e12, 1e12, 1e-6}); !(r.Step() >= 0) {
			t.Fatalf("roofline %+v", r)
		}
	})
}

// FuzzParseRecipe: what is read says the same when it is written and read again.
func FuzzParseRecipe(f *testing.F) {
	for _, seed := range []string{"", "-", "amp+adam", "bf16+checkpoint+compile", "amp+bf16", "adam-adam", "sgd"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecipe(text)
		if err != nil {
			return
		}
		if again, err := ParseRecipe(r.String()); err != nil || again != r {
			t.Errorf("%q is %s, and that %s, %v", text, r, again, err)
		}
	})
}
