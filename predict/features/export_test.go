// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

const onnxFloat = onnx.Float

// store stores a weight under a name.
func (b *net) store(name string, dims ...int64) string {
	b.g.Initializers = append(b.g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Float, Dims: dims})
	return name
}

// A convolution that an exporter has folded a normalisation into counts as
// both, whatever way the exporter names it.
func TestFoldedNorm(t *testing.T) {
	want := block().extract(t, 4)
	folded := func(weight, bias, result string) *Features {
		b := &net{}
		x := b.input("x", onnx.Float, 1, 3, 16, 16)
		in := []string{x, b.store(weight, 8, 3, 3, 3)}
		if bias != "" {
			in = append(in, b.store(bias, 8))
		}
		b.g.Nodes = append(b.g.Nodes, &onnx.Node{Op: "Conv", Inputs: in, Outputs: []string{result}, Attrs: ints("pads", 1, 1, 1, 1)})
		y := b.op("GlobalAveragePool", nil, b.op("Relu", nil, result))
		b.op("Gemm", []onnx.Attribute{{Name: "transB", I: 1}}, b.op("Flatten", nil, y), b.weight(10, 8), b.weight(10))
		return b.extract(t, 4)
	}
	for _, names := range [][3]string{{"onnx::Conv_12", "onnx::Conv_13", "y"}, {"112", "113", "y"}, {"conv1.weight", "", "getitem_3"}} {
		got := folded(names[0], names[1], names[2])
		if diff := cmp.Diff(
			[]any{want.Params, want.BufferBytes, want.FlopsForward, want.FlopsBackward, want.Kernels, want.ActivationBytes, want.Footprint},
			[]any{got.Params, got.BufferBytes, got.FlopsForward, got.FlopsBackward, got.Kernels, got.ActivationBytes, got.Footprint}); diff != "" {
			t.Errorf("%v (-written out +folded):\n%s", names, diff)
		}
		if got.Ops["BatchNormalization"] != 0 {
			t.Errorf("%v: the operators of the file have a normalisation: %v", names, got.Ops)
		}
	}
	if got := folded("conv1.weight", "conv1.bias", "y"); got.Kinds[Norm] != 0 {
		t.Errorf("a convolution with a bias of its own counts as normalised: %v", got.Kinds)
	}
}

// Parameters that happen to be equal are stored once, and copied by Identity.
func TestEqualParameters(t *testing.T) {
	b := &net{}
	x := b.input("x", onnx.Float, 1, 8)
	w := b.weight(8, 8)
	x = b.op("MatMul", nil, x, w)
	b.op("MatMul", nil, x, b.op("Identity", nil, w))
	if f := b.extract(t, 2); f.Params != 128 || f.ParamTensors != 2 {
		t.Errorf("%d parameters in %d tensors, want 128 in 2", f.Params, f.ParamTensors)
	}
}

func TestDropoutOfNothing(t *testing.T) {
	for ratio, kept := range map[float64]int64{0: 0, 0.1: 4 * 64} {
		b := &net{}
		x := b.op("MatMul", nil, b.input("x", onnx.Float, 1, 64), b.weight(64, 64))
		b.op("Dropout", nil, x, b.number(ratio))
		if f := b.extract(t, 4); f.ActivationBytes != kept {
			t.Errorf("ratio %g: %d bytes kept, want %d", ratio, f.ActivationBytes, kept)
		}
	}
}

// Taking one index out of a value is a view; a table is a lookup, and sorts
// its indices on the way back if they are many.
func TestGathers(t *testing.T) {
	b := &net{}
	x := b.op("MatMul", nil, b.input("x", onnx.Float, 1, 3, 8), b.weight(8, 8))
	b.op("Gather", []onnx.Attribute{{Name: "axis", I: 1}}, x, b.scalar(1))
	if f := b.extract(t, 2); f.Kinds[Lookup] != 0 || f.Kinds[View] != 1 {
		t.Errorf("one index: kinds %v, want a view", f.Kinds)
	}
	for batch, launches := range map[int64]float64{16: 2, 4096: 1 + sortKernels} {
		b := &net{}
		b.op("Gather", nil, b.weight(100, 8), b.input("ids", onnx.Int64, 1))
		f := b.extract(t, batch)
		w := f.Work()[0]
		if w.BackKernels != launches || w.Fill != 4*100*8 {
			t.Errorf("%d rows of a table: %g launches back, fill %g; want %g, 3200", batch, w.BackKernels, w.Fill, launches)
		}
	}
}

func (b *net) scalar(n int64) string {
	name := b.fresh("i")
	b.g.Initializers = append(b.g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Int64, Dims: []int64{}, Ints: []int64{n}})
	return name
}

// Exporters reorder the gates of recurrent cells; the framework does not, and
// neither does it copy their result.
func TestRecurrentLayout(t *testing.T) {
	const seq, hidden = 5, 16
	b := &net{}
	x := b.input("x", onnx.Float, 1, seq, hidden)
	x = b.op("Transpose", ints("perm", 1, 0, 2), x)
	gates := func(dims ...int64) string {
		w := b.weight(dims...)
		first := b.op("Slice", nil, w, b.ints(0), b.ints(2*hidden), b.ints(0))
		rest := b.op("Slice", nil, w, b.ints(2*hidden), b.ints(4*hidden), b.ints(0))
		return b.op("Unsqueeze", nil, b.op("Concat", []onnx.Attribute{{Name: "axis", I: 0}}, rest, first), b.ints(0))
	}
	y := b.op("LSTM", []onnx.Attribute{{Name: "hidden_size", I: hidden}}, x, gates(4*hidden, hidden), gates(4*hidden, hidden))
	y = b.op("Transpose", ints("perm", 0, 2, 1, 3), y)
	b.op("Reshape", nil, y, b.ints(0, 0, -1))
	f := b.extract(t, 3)
	if f.Params != 2*4*hidden*hidden {
		t.Errorf("%d parameters, want %d", f.Params, 2*4*hidden*hidden)
	}
	for _, w := range f.Work() {
		if w.Kind != Recurrent && w.Kernels > 0 {
			t.Errorf("%s launches %g kernels", w.Name, w.Kernels)
		}
		if w.Kind == Recurrent && w.BackKernels == 0 {
			t.Error("no gradient flows to the cell's weights")
		}
	}
}

func TestCopies(t *testing.T) {
	perm := func(list ...int64) []onnx.Attribute { return ints("perm", list...) }
	for _, tc := range []struct {
		name string
		add  func(b *net, x string) string // x is [2 4 6 8]
		want float64                       // copies of the last unit, both ways
	}{
		{"a linear layer over rows in order", func(b *net, x string) string { return b.op("MatMul", nil, x, b.weight(8, 8)) }, 0},
		{"over exchanged ones", func(b *net, x string) string {
			return b.op("MatMul", nil, b.op("Transpose", perm(0, 1, 3, 2), x), b.weight(6, 6))
		}, 2},
		{"a batch of products takes exchanged axes as they are", func(b *net, x string) string {
			return b.op("MatMul", nil, x, b.op("Transpose", perm(0, 1, 3, 2), x))
		}, 0},
		{"but not a permuted batch", func(b *net, x string) string {
			return b.op("MatMul", nil, b.op("Transpose", perm(0, 2, 1, 3), x), b.op("Transpose", perm(0, 2, 3, 1), x))
		}, 4},
		{"elements keep the order", func(b *net, x string) string {
			return b.op("Softmax", nil, b.op("Mul", nil, b.op("Transpose", perm(0, 2, 1, 3), x), b.number(2)))
		}, 2},
		{"two transposes undo each other", func(b *net, x string) string {
			return b.op("Softmax", nil, b.op("Transpose", perm(0, 2, 1, 3), b.op("Transpose", perm(0, 2, 1, 3), x)))
		}, 0},
	} {
		b := &net{}
		x := b.op("Conv", nil, b.input("x", onnx.Float, 1, 4, 6, 8), b.weight(4, 4, 1, 1))
		tc.add(b, x)
		work := b.extract(t, 2).Work()
		if got := work[len(work)-1].Copies; got != tc.want {
			t.Errorf("%s: %g copies, want %g", tc.name, got, tc.want)
		}
	}
}

// Two branches that apply the same function to the same value run it twice, whatever an
// exporter makes of it; one that a block hands to the next runs once.
func TestMergedActivations(t *testing.T) {
	for _, tc := range []struct {
		first string // convolution that reads the activation of /cell/left
		kept  int64  // activations that are kept
	}{{"/cell/left/conv/Conv", 2}, {"/cell/next/conv/Conv", 1}} {
		b := &net{}
		x := b.op("Conv", nil, b.input("x", onnx.Float, 1, 4, 8, 8), b.weight(4, 4, 1, 1))
		shared := b.op("Relu", nil, x)
		b.op("Conv", nil, shared, b.weight(4, 4, 3, 3))
		b.op("Conv", nil, shared, b.weight(4, 4, 3, 3))
		for i, name := range []string{"/stem/Conv", "/cell/left/act/Relu", tc.first, "/cell/right/conv/Conv"} {
			b.g.Nodes[i].Name = name
		}
		if f := b.extract(t, 2); f.Activations != tc.kept*2*4*8*8 {
			t.Errorf("read by %s: %d numbers kept, want %d", tc.first, f.Activations, tc.kept*2*4*8*8)
		}
	}
}

// The loss is no part of a graph, but of a step.
func TestLossWork(t *testing.T) {
	b := block()
	b.g.Outputs = []onnx.ValueInfo{{Name: b.g.Nodes[len(b.g.Nodes)-1].Outputs[0]}}
	with := b.extract(t, 4)
	without := block().extract(t, 4)
	last := with.Work()[len(with.Work())-1]
	if last.Kind != Loss || last.Results != 4*10 || len(with.Work()) != len(without.Work())+1 {
		t.Errorf("last of %d units (%d without): %+v", len(with.Work()), len(without.Work()), last)
	}
	if with.FlopsForward != without.FlopsForward {
		t.Errorf("flops %g with a loss, %g without", with.FlopsForward, without.FlopsForward)
	}
}
