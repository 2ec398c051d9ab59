// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// net builds graphs for tests: a value is a name.
type net struct {
	g onnx.Graph
	n int
}

func (b *net) input(name string, t onnx.DataType, dims ...int64) string {
	v := onnx.ValueInfo{Name: name, Type: t}
	for _, n := range dims {
		v.Shape = append(v.Shape, onnx.Dim{Size: n})
	}
	b.g.Inputs = append(b.g.Inputs, v)
	return name
}

func (b *net) fresh(prefix string) string {
	b.n++
	return fmt.Sprint(prefix, b.n)
}

// weight stores a tensor without contents.
func (b *net) weight(dims ...int64) string {
	name := b.fresh("w")
	b.g.Initializers = append(b.g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Float, Dims: dims})
	return name
}

// number stores a scalar.
func (b *net) number(f float64) string {
	name := b.fresh("f")
	b.g.Initializers = append(b.g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Float, Dims: []int64{}, Floats: []float64{f}})
	return name
}

// ints stores a list.
func (b *net) ints(list ...int64) string {
	name := b.fresh("i")
	b.g.Initializers = append(b.g.Initializers, &onnx.Tensor{Name: name, Type: onnx.Int64, Dims: []int64{int64(len(list))}, Ints: list})
	return name
}

// op adds a node with one result.
func (b *net) op(op string, attrs []onnx.Attribute, in ...string) string {
	name := b.fresh("v")
	b.g.Nodes = append(b.g.Nodes, &onnx.Node{Op: op, Inputs: in, Outputs: []string{name}, Attrs: attrs})
	return name
}

func ints(name string, list ...int64) []onnx.Attribute {
	return []onnx.Attribute{{Name: name, Ints: list}}
}

// extract infers and extracts at a batch.
func (b *net) extract(t testing.TB, batch int64) *Features {
	t.Helper()
	m := &onnx.Model{Opsets: map[string]int64{"": 17}, Graph: &b.g}
	s, err := onnx.Infer(m, onnx.Options{Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Notes) > 0 {
		t.Fatalf("notes: %q", s.Notes)
	}
	return Extract(s, Recipe{})
}

// block is Conv, BatchNormalization and ReLU: 8 channels of 16 x 16 out.
func block() *net {
	b := &net{}
	x := b.input("x", onnx.Float, 1, 3, 16, 16)
	y := b.op("Conv", ints("pads", 1, 1, 1, 1), x, b.weight(8, 3, 3, 3))
	y = b.op("BatchNormalization", nil, y, b.weight(8), b.weight(8), b.weight(8), b.weight(8))
	y = b.op("Relu", nil, y)
	y = b.op("GlobalAveragePool", nil, y)
	y = b.op("Flatten", nil, y)
	b.op("Gemm", []onnx.Attribute{{Name: "transB", I: 1}}, y, b.weight(10, 8), b.weight(10))
	return b
}

func TestConvolutionBlock(t *testing.T) {
	const n, plane = 4, 8 * 16 * 16
	f := block().extract(t, n)
	macs := float64(n * (plane*27 + 80))
	if f.MACs != macs {
		t.Errorf("macs %v, want %v", f.MACs, macs)
	}
	if f.Params != 8*27+16+80+10 || f.ParamTensors != 5 || f.BufferBytes != 4*16 {
		t.Errorf("%d params in %d tensors, %d bytes of buffers; want %d, 5, 64", f.Params, f.ParamTensors, f.BufferBytes, 8*27+16+90)
	}
	if f.InputBytes != 4*n*3*256 {
		t.Errorf("input %d bytes, want %d", f.InputBytes, 4*n*3*256)
	}
	// Kept: the convolution's result (for the batch norm) with its statistics,
	// the ReLU's result, the pooled features. The input belongs to the caller.
	if want := int64(4*n*(plane+plane+8) + 8*8); f.ActivationBytes != want {
		t.Errorf("activations %d bytes, want %d", f.ActivationBytes, want)
	}
	forward := 2*macs + n*(8*plane+plane+plane) + n*10
	if f.FlopsForward != forward {
		t.Errorf("forward flops %v, want %v", f.FlopsForward, forward)
	}
	// The first convolution needs no gradient of its input: 1 product, the
	// last layer 2; the batch norm twice its forward, ReLU and pool once, the
	// bias a sum.
	backward := 2.0*n*plane*27 + 2*2*n*80 + n*(16*plane+plane+plane) + n*10
	if f.FlopsBackward != backward {
		t.Errorf("backward flops %v, want %v", f.FlopsBackward, backward)
	}
	if f.Depth != 5 || f.Units != 5 || f.Kinds[View] != 1 || f.Ops["Relu"] != 1 {
		t.Errorf("depth %d, units %d, kinds %v, ops %v", f.Depth, f.Units, f.Kinds, f.Ops)
	}
	want := Kernels{Forward: 1 + 2 + 1 + 1 + 1, Backward: 1 + 1 + 1 + 1 + 3, Optimizer: 3, Tensors: 15}
	if diff := cmp.Diff(want, f.Kernels); diff != "" {
		t.Errorf("kernels (-want +got):\n%s", diff)
	}
	if f.PeakBytes < f.ActivationBytes || f.PeakBytes > 2*f.ActivationBytes {
		t.Errorf("peak %d, activations %d", f.PeakBytes, f.ActivationBytes)
	}
	if f.Certain != 1 || f.Largest[0].Bytes != 4*n*plane {
		t.Errorf("certain %v, largest %v", f.Certain, f.Largest)
	}
	sum := 0.0
	for _, share := range f.Share {
		sum += share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("shares sum to %v", sum)
	}
}

// layerNorm writes a layer normalisation out.
func (b *net) layerNorm(x string, width int64) string {
	last := ints("axes", -1)
	d := b.op("Sub", nil, x, b.op("ReduceMean", last, x))
	v := b.op("ReduceMean", last, b.op("Pow", nil, d, b.number(2)))
	y := b.op("Div", nil, d, b.op("Sqrt", nil, b.op("Add", nil, v, b.number(1e-5))))
	return b.op("Add", nil, b.op("Mul", nil, y, b.weight(width)), b.weight(width))
}

func (b *net) linear(x string, in, out int64) string {
	return b.op("Add", nil, b.weight(out), b.op("MatMul", nil, x, b.weight(in, out)))
}

// transformer is one encoder layer, 4 heads of 16 over 10 tokens, as
// exporters write it; fused says in which of two forms the attention is.
func transformer(fused bool) *net {
	b := &net{}
	ids := b.input("ids", onnx.Int64, 2, 10)
	x := b.op("Gather", nil, b.weight(100, 64), ids)
	heads := func(x string, perm ...int64) string {
		return b.op("Transpose", ints("perm", perm...), b.op("Reshape", nil, x, b.ints(0, 0, 4, 16)))
	}
	h := b.layerNorm(x, 64)
	q, k, v := heads(b.linear(h, 64, 64), 0, 2, 1, 3), heads(b.linear(h, 64, 64), 0, 2, 3, 1), heads(b.linear(h, 64, 64), 0, 2, 1, 3)
	var scores string
	if fused {
		scores = b.op("MatMul", nil, b.op("Mul", nil, q, b.number(0.5)), b.op("Mul", nil, k, b.number(0.5)))
	} else {
		scores = b.op("Div", nil, b.op("MatMul", nil, q, k), b.number(4))
	}
	o := b.op("MatMul", nil, b.op("Softmax", nil, scores), v)
	o = b.op("Reshape", nil, b.op("Transpose", ints("perm", 0, 2, 1, 3), o), b.ints(0, 0, 64))
	x = b.op("Add", nil, x, b.linear(o, 64, 64))
	h = b.linear(b.layerNorm(x, 64), 64, 256)
	erf := b.op("Erf", nil, b.op("Div", nil, h, b.number(math.Sqrt2)))
	gelu := b.op("Mul", nil, b.op("Mul", nil, h, b.op("Add", nil, erf, b.number(1))), b.number(0.5))
	b.op("Add", nil, x, b.linear(gelu, 256, 64))
	return b
}

// Attention with windows as a fifth dimension keeps its scores: no fused kernel takes it.
func TestAttentionOverWindows(t *testing.T) {
	for _, dims := range [][]int64{{2, 4, 10, 16}, {2, 4, 3, 10, 16}} {
		b := &net{}
		x := b.input("x", onnx.Float, dims...)
		q := b.linear(x, 16, 16)
		perm := []int64{0, 1, 3, 2}
		if len(dims) == 5 {
			perm = []int64{0, 1, 2, 4, 3}
		}
		k := b.op("Transpose", ints("perm", perm...), b.linear(x, 16, 16))
		scores := b.op("MatMul", nil, b.op("Mul", nil, q, b.number(0.5)), b.op("Mul", nil, k, b.number(0.5)))
		b.op("MatMul", nil, b.op("Softmax", nil, scores), b.linear(x, 16, 16))
		if got, want := b.extract(t, 2).Kinds[Attention], 5-len(dims); got != want {
			t.Errorf("%v: %d fused attentions, want %d", dims, got, want)
		}
	}
}

func TestTransformerPatterns(t *testing.T) {
	for fused, attention := range map[bool]int{true: 1, false: 0} {
		f := transformer(fused).extract(t, 2)
		if got := [3]int{f.Kinds[Norm], f.Kinds[Curve], f.Kinds[Attention]}; got != [3]int{2, 1, attention} {
			t.Errorf("fused %v: norms, curves, attentions %v; want [2 1 %d]; kinds %v", fused, got, attention, f.Kinds)
		}
		// 4 projections, 2 of the feed-forward, and the 2 products of heads.
		const rows = 2 * 10
		if want := float64(rows*(4*64*64+2*64*256) + 2*2*4*10*10*16); f.MACs != want {
			t.Errorf("fused %v: macs %v, want %v", fused, f.MACs, want)
		}
		if want := int64(100*64 + 2*128 + 4*(64*64+64) + 64*256 + 256 + 256*64 + 64); f.Params != want {
			t.Errorf("fused %v: %d params, want %d", fused, f.Params, want)
		}
		scores := int64(4 * 2 * 4 * 10 * 10)
		if fused {
			scores = 0
		}
		if f.AttentionScoreBytes != scores {
			t.Errorf("fused %v: %d bytes of scores, want %d", fused, f.AttentionScoreBytes, scores)
		}
		if f.Ops["Erf"] != 1 || f.Unshaped != 0 {
			t.Errorf("fused %v: ops %v, unshaped %d", fused, f.Ops, f.Unshaped)
		}
	}
}

// TestBrokenPattern breaks a pattern by reading an inner value: it
// must fall apart into its operators.
func TestBrokenPattern(t *testing.T) {
	silu := func(leak bool) *Features {
		b := &net{}
		x := b.op("Conv", nil, b.input("x", onnx.Float, 1, 4, 4, 4), b.weight(4, 4, 1, 1))
		s := b.op("Sigmoid", nil, x)
		y := b.op("Mul", nil, x, s)
		if leak {
			b.op("Add", nil, y, s)
		}
		return b.extract(t, 1)
	}
	if f := silu(false); f.Kinds[Curve] != 1 || f.Kinds[Elements] != 0 {
		t.Errorf("SiLU: kinds %v, want one activation", f.Kinds)
	}
	if f := silu(true); f.Kinds[Curve] != 1 || f.Kinds[Elements] != 2 {
		t.Errorf("SiLU with a second reader: kinds %v, want an activation and two element-wise", f.Kinds)
	}
}

func TestKeptForBackward(t *testing.T) {
	const size = 4 * 8 * 8 // floats of [1 4 8 8]
	for _, tc := range []struct {
		name string
		add  func(b *net, x string) // x comes out of a convolution, unkept
		want int64                  // bytes kept beyond
	}{
		{"relu keeps its result", func(b *net, x string) { b.op("Relu", nil, x) }, 4 * size},
		{"add keeps nothing", func(b *net, x string) { b.op("Add", nil, x, x) }, 0},
		{"product by a number keeps nothing", func(b *net, x string) { b.op("Mul", nil, x, b.number(3)) }, 0},
		{"product keeps its partners", func(b *net, x string) { b.op("Mul", nil, x, b.op("Neg", nil, x)) }, 8 * size},
		{"max pool keeps input and indices", func(b *net, x string) { b.op("MaxPool", ints("kernel_shape", 8, 8), x) }, 4*size + 8*4},
		{"dropout keeps a mask", func(b *net, x string) { b.op("Dropout", nil, x) }, size},
		{"views share memory", func(b *net, x string) {
			b.op("Relu", nil, x)
			y := b.op("Reshape", nil, b.op("Relu", nil, x), b.ints(4, 64))
			b.op("MatMul", nil, y, b.weight(64, 2))
		}, 2 * 4 * size},
		{"a permuted view is copied", func(b *net, x string) {
			y := b.op("Reshape", nil, b.op("Transpose", ints("perm", 0, 2, 3, 1), x), b.ints(64, 4))
			b.op("MatMul", nil, y, b.weight(4, 2))
		}, 4 * size},
		{"softmax keeps its result", func(b *net, x string) { b.op("Softmax", nil, x) }, 4 * size},
		{"indices do not need gradients", func(b *net, x string) { b.op("ArgMax", nil, x) }, 0},
	} {
		b := &net{}
		x := b.op("Conv", nil, b.input("x", onnx.Float, 1, 4, 8, 8), b.weight(4, 4, 1, 1))
		tc.add(b, x)
		if got := b.extract(t, 1).ActivationBytes; got != tc.want {
			t.Errorf("%s: %d bytes, want %d", tc.name, got, tc.want)
		}
	}
}

func TestRecurrent(t *testing.T) {
	b := &net{}
	x := b.input("x", onnx.Float, 20, 5, 8)
	b.op("LSTM", []onnx.Attribute{{Name: "hidden_size", I: 16}}, x, b.weight(1, 64, 8), b.weight(1, 64, 16), b.weight(1, 128))
	f := b.extract(t, 20)
	if want := float64(20 * 5 * 64 * (8 + 16)); f.MACs != want || f.RecurrentSteps != 20 {
		t.Errorf("macs %v, steps %d; want %v, 20", f.MACs, f.RecurrentSteps, want)
	}
	if f.Params != 64*8+64*16+128 {
		t.Errorf("params %d", f.Params)
	}
}

func TestRoofline(t *testing.T) {
	f := block().extract(t, 4)
	free := f.Roofline(Device{Flops: 1e12, Bandwidth: 1e15})
	if want := f.FlopsForward / 1e12; math.Abs(free.Forward-want) > 1e-3*want || free.ComputeBound < 0.99 {
		t.Errorf("bound by arithmetic: %+v, want forward %v", free, want)
	}
	slow := f.Roofline(Device{Flops: 1e18, Bandwidth: 1e9})
	if want := f.BytesBackward / 1e9; math.Abs(slow.Backward-want) > 1e-3*want || slow.MemoryBound < 0.99 {
		t.Errorf("bound by memory: %+v, want backward %v", slow, want)
	}
	launch := f.Roofline(Device{Flops: 1e18, Bandwidth: 1e18, Launch: 1e-5})
	if want := 1e-5 * float64(f.Kernels.Total()); math.Abs(launch.Step()-want) > 1e-3*want || launch.LaunchBound < 0.99 {
		t.Errorf("bound by launches: %+v, want step %v", launch, want)
	}
}

func TestUnknownOperators(t *testing.T) {
	b := &net{}
	y := b.op("Mystery", nil, b.input("x", onnx.Float, 1, 4))
	b.op("Relu", nil, y)
	f := b.extract(t, 1)
	if f.Unknown["Mystery"] != 1 || f.Unshaped != 2 || f.Certain != 0 || f.Kinds[Other] != 1 {
		t.Errorf("unknown %v, unshaped %d, certain %v, kinds %v", f.Unknown, f.Unshaped, f.Certain, f.Kinds)
	}
}

func TestJSONIsStable(t *testing.T) {
	one, err := json.Marshal(transformer(true).extract(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	two, err := json.Marshal(transformer(true).extract(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	if string(one) != string(two) {
		t.Errorf("the same model gives\n%s\nand\n%s", one, two)
	}
}

// TestPublishedFigures compares whole models with the figures that their
// authors and the model zoos print: parameters and multiply-adds per image.
func TestPublishedFigures(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "data", "onnx-graphs", "onnx", "backend", "test", "data", "light")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the graphs are not here")
	}
	for _, tc := range []struct {
		name        string
		mega, gmacs float64
	}{
		{"resnet50", 25.56, 4.09},
		{"vgg19", 143.67, 19.6},
		{"densenet121", 8.06, 2.83}, // its scale layers double the batch norms' parameters
		{"squeezenet", 1.235, 0.349},
		{"bvlc_alexnet", 60.97, 0.655}, // the grouped one
		{"inception_v1", 7.0, 1.43},
	} {
		file, err := os.Open(filepath.Join(dir, "light_"+tc.name+".onnx"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Read(file)
		file.Close()
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		s, err := onnx.Infer(m, onnx.Options{Batch: 16})
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		f := Extract(s, Recipe{})
		if got := float64(f.Params) / 1e6; math.Abs(got/tc.mega-1) > 0.005 {
			t.Errorf("%s: %.3f M parameters, want %.3f", tc.name, got, tc.mega)
		}
		if got := f.MACs / 16e9; math.Abs(got/tc.gmacs-1) > 0.01 {
			t.Errorf("%s: %.3f G multiply-adds, want %.3f", tc.name, got, tc.gmacs)
		}
		if len(f.Unknown) > 0 || f.Unshaped > 0 || f.Certain != 1 {
			t.Errorf("%s: unknown %v, unshaped %d", tc.name, f.Unknown, f.Unshaped)
		}
	}
}

// deep is 1,000 operators: 66 transformer-like blocks.
func deep() *net {
	b := &net{}
	x := b.input("x", onnx.Float, 2, 128, 64)
	for len(b.g.Nodes) < 1000 {
		h := b.linear(b.layerNorm(x, 64), 64, 64)
		s := b.op("Softmax", nil, b.op("MatMul", nil, h, b.op("Transpose", ints("perm", 0, 2, 1), h)))
		x = b.op("Add", nil, x, b.op("MatMul", nil, s, h))
	}
	return b
}

func BenchmarkInferAndExtract1000(b *testing.B) {
	n := deep()
	for b.Loop() {
		n.extract(b, 32)
	}
}

func BenchmarkExtract1000(b *testing.B) {
	m := &onnx.Model{Opsets: map[string]int64{"": 17}, Graph: &deep().g}
	s, err := onnx.Infer(m, onnx.Options{Batch: 32})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Extract(s, Recipe{})
	}
}
