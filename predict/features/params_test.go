// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"testing"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// TestParametersInOddPlaces counts parameters that are no plain weights of a
// layer: experts picked by index, and a decay kept as its logarithm.
func TestParametersInOddPlaces(t *testing.T) {
	for _, tc := range []struct {
		name  string
		build func(*net)
		want  int64
	}{
		{"experts", func(b *net) {
			x := b.input("x", onnx.Int64, 2, 3, 1)
			b.op("Relu", nil, b.op("GatherND", nil, b.weight(8, 64, 16), x))
		}, 8 * 64 * 16},
		{"decay", func(b *net) {
			x := b.input("x", onnx.Float, 2, 32, 8)
			b.op("Mul", nil, x, b.op("Neg", nil, b.op("Exp", nil, b.weight(32, 8))))
		}, 32 * 8},
	} {
		b := &net{}
		tc.build(b)
		if got := b.extract(t, 2).Params; got != tc.want {
			t.Errorf("%s: %d parameters, want %d", tc.name, got, tc.want)
		}
	}
}

// TestParameterOfOneNumber: an activation that scales its result by a learned number
// keeps what it scales, for the gradient of that number. A constant of one number that
// belongs to no module needs none.
func TestParameterOfOneNumber(t *testing.T) {
	for name, want := range map[string]int64{"act.scale": 1, "onnx::Mul_9": 0} {
		b := &net{}
		x := b.input("x", onnx.Float, 2, 32, 8)
		b.g.Initializers = append(b.g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Float, Dims: []int64{1}})
		b.op("Mul", nil, name, b.op("Abs", nil, x))
		f := b.extract(t, 2)
		if f.Params != want || f.Activations != want*2*32*8 {
			t.Errorf("%s: %d parameters, %d kept numbers; want %d and %d", name, f.Params, f.Activations, want, want*2*32*8)
		}
	}
}

// TestMergedBiasesOfFoldedNorms: the exporter folds two normalisations into
// convolutions, and writes the second's equal shift as an Identity of the
// first's. Unfolding puts scale and shift back; the stored shift is neither.
func TestMergedBiasesOfFoldedNorms(t *testing.T) {
	b := &net{}
	x := b.input("x", onnx.Float, 2, 8, 6, 6)
	weights := []string{"onnx::Conv_10", "onnx::Conv_13"}
	for _, name := range weights {
		b.g.Initializers = append(b.g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Float, Dims: []int64{8, 8, 1, 1}})
	}
	b.g.Initializers = append(b.g.Initializers, &onnx.Tensor{Name: "onnx::Conv_11", Type: onnx.Float, Dims: []int64{8}})
	b.g.Nodes = append(b.g.Nodes, &onnx.Node{Op: "Identity", Inputs: []string{"onnx::Conv_11"}, Outputs: []string{"onnx::Conv_14"}})
	x = b.op("Conv", nil, x, weights[0], "onnx::Conv_11")
	b.op("Conv", nil, x, weights[1], "onnx::Conv_14")
	if got, want := b.extract(t, 2).Params, int64(2*(8*8+2*8)); got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
}

// TestTiedWeights: an embedding whose transpose is the last layer is one
// parameter where the contents say so, and two where they are not known.
func TestTiedWeights(t *testing.T) {
	for _, tc := range []struct {
		table, head uint64
		want        int64
	}{{7, 7, 5000 * 64}, {7, 8, 2 * 5000 * 64}, {0, 0, 2 * 5000 * 64}} {
		b := &net{}
		ids := b.input("ids", onnx.Int64, 2, 10)
		b.g.Initializers = append(b.g.Initializers,
			&onnx.Tensor{Name: "onnx::MatMul_9", Type: onnx.Float, Dims: []int64{64, 5000}, Digest: tc.head},
			&onnx.Tensor{Name: "e.weight", Type: onnx.Float, Dims: []int64{5000, 64}, Digest: tc.table})
		b.op("MatMul", nil, b.op("Gather", nil, "e.weight", ids), "onnx::MatMul_9")
		f := b.extract(t, 2)
		if f.Params != tc.want {
			t.Errorf("digests %d and %d: %d parameters, want %d", tc.table, tc.head, f.Params, tc.want)
		}
		if macs := 2.0 * 10 * 64 * 5000; f.FlopsBackward < 4*macs {
			t.Errorf("digests %d and %d: %g backward flops, want the gradients of both sides, %g", tc.table, tc.head, f.FlopsBackward, 4*macs)
		}
	}
}
