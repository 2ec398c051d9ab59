// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

// small is a model with a bit of everything that is read.
func small() *Model {
	return model(&Graph{
		Name:   "g",
		Inputs: []ValueInfo{{"x", Float, []Dim{{-1, "N"}, {3, ""}, {8, ""}, {8, ""}}}},
		Nodes: []*Node{
			node("Conv", names("x", "w", ""), names("c"), "pads", []int64{1, 1, 1, 1}, "auto_pad", "NOTSET", "group", 1),
			node("Reshape", names("c", "shape"), names("r")),
			node("Upsample", names("r2"), names("u"), "scales", []float32{1, 1, 2, 2}),
			node("Constant", nil, names("k"), "value", &Tensor{Type: Float, Dims: []int64{2}, Floats: []float64{0.5, 2}}),
			node("Identity", names("c"), names("r2")),
		},
		Initializers: []*Tensor{weight("w", 4, 3, 3, 3), ints("shape", 0, -1),
			{Name: "flags", Type: Int32, Dims: []int64{3}, Ints: []int64{1, -2, 3}}},
		Outputs: []ValueInfo{sized("r", Float, 1, 256), sized("u", Float)},
		Values:  []ValueInfo{sized("c", Float, 1, 4, 8, 8)},
	})
}

func TestReadKeepsTheGraph(t *testing.T) {
	want := small()
	got := read(t, small())
	// The Identity comes before its reader after Read.
	n := want.Graph.Nodes
	want.Graph.Nodes = []*Node{n[0], n[3], n[1], n[4], n[2]}
	for _, t := range append(want.Graph.Initializers, n[3].Attrs[0].Tensor) {
		t.Dims = nonNil(t.Dims)
	}
	got.Weights = 0
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Attribute{})); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
}

func TestTensorForms(t *testing.T) {
	f32 := func(v float32) []byte { return message{}.float(1, v)[1:] }
	for _, tc := range []struct {
		name   string
		body   message
		ints   []int64
		floats []float64
	}{
		{"unpacked int64", message{}.num(1, 2).num(2, int64(Int64)).num(7, 5).num(7, -1), []int64{5, -1}, nil},
		{"int32 negative", message{}.num(1, 1).num(2, int64(Int32)).bytes(5, packed(-7)), []int64{-7}, nil},
		{"contents before type", message{}.bytes(9, []byte{1, 0}).num(2, int64(Int8)).num(1, 2), []int64{1, 0}, nil},
		{"raw int16", message{}.num(1, 1).num(2, int64(Int16)).bytes(9, []byte{0xfe, 0xff}), []int64{-2}, nil},
		{"bool", message{}.num(1, 2).num(2, int64(Bool)).bytes(9, []byte{1, 0}), []int64{1, 0}, nil},
		{"packed float", message{}.num(1, 1).num(2, int64(Float)).bytes(4, f32(1.5)), nil, []float64{1.5}},
		{"half", message{}.num(1, 3).num(2, int64(Float16)).bytes(9, []byte{0, 0x3c, 0, 0xc0, 1, 0}), nil, []float64{1, -2, 1.0 / (1 << 24)}},
		{"bfloat in int32", message{}.num(1, 1).num(2, int64(BFloat16)).bytes(5, packed(0x3fc0)), nil, []float64{1.5}},
		{"scalar", message{}.num(2, int64(Int64)).num(7, 9), []int64{9}, nil},
		{"count does not match", message{}.num(1, 3).num(2, int64(Int64)).num(7, 9), nil, nil},
		{"empty", message{}.num(1, 0).num(2, int64(Int64)), []int64{}, nil},
		{"external", message{}.num(1, 4).num(2, int64(Float)).num(14, 1), nil, nil},
		{"too many to keep", message{}.num(1, 1<<20).num(2, int64(Int8)).bytes(9, make([]byte, 1<<20)), nil, nil},
	} {
		file := message{}.bytes(7, message{}.bytes(5, tc.body.text(8, "t")))
		m, err := Read(bytes.NewReader(file))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		got := m.Graph.Initializers[0]
		if diff := cmp.Diff(tc.ints, got.Ints) + cmp.Diff(tc.floats, got.Floats); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// zeros is a reader of n zero bytes that takes no memory.
type zeros int64

func (z *zeros) Read(b []byte) (int, error) {
	if *z == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), int64(*z))
	clear(b[:n])
	*z -= zeros(n)
	return int(n), nil
}

// TestWeightsAreNotKept streams 256 MiB of weights through a model that may
// keep 64 KiB.
func TestWeightsAreNotKept(t *testing.T) {
	const size = 256 << 20
	tensor := message{}.num(1, size/4).num(2, int64(Float)).text(8, "w")
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 9, protowire.BytesType), size)
	whole := len(tensor) + size
	graph := protowire.AppendVarint(protowire.AppendTag(nil, 5, protowire.BytesType), uint64(whole))
	whole += len(graph)
	file := protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.BytesType), uint64(whole))
	file = append(append(file, graph...), tensor...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	weights := zeros(size)
	m, err := Limits{Memory: 64 << 10}.Read(io.MultiReader(bytes.NewReader(file), &weights))
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Graph.Initializers[0]; got.Dims[0] != size/4 || got.Floats != nil {
		t.Errorf("initializer %+v, want %d floats without contents", got, size/4)
	}
	if m.Weights < size {
		t.Errorf("weights %d bytes, want at least %d", m.Weights, size)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("reading allocated %d bytes, want at most 1 MiB", used)
	}
}

func TestHostileFiles(t *testing.T) {
	graph := func(g *Graph) []byte { return encodeModel(model(g)) }
	claim := func(field protowire.Number, size uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), size)
	}
	tensor := func(b message) []byte { return message{}.bytes(7, message{}.bytes(5, b)) }
	nested := &Graph{}
	for range 12 {
		nested = &Graph{Nodes: []*Node{node("If", nil, nil, "then_branch", nested)}}
	}
	many := message{}
	for range 30_000 {
		many = many.bytes(1, message{}.text(4, "Relu"))
	}
	deep := []byte{}
	for range 3000 {
		deep = message{}.bytes(6, message{}.bytes(1, message{}.bytes(5, deep)))
	}
	call := func(name string) *Node { return &Node{Op: name, Domain: "f"} }
	function := func(name string, body ...*Node) message {
		f := message{}.text(1, name).text(10, "f")
		for _, n := range body {
			f = f.bytes(7, encodeNode(n))
		}
		return f
	}
	bomb := message{}.bytes(7, message{}.bytes(1, encodeNode(call("f0"))))
	for i := range 8 {
		var body []*Node
		for range 30 {
			body = append(body, call(fmt.Sprintf("f%d", i+1)))
		}
		bomb = bomb.bytes(25, function(fmt.Sprintf("f%d", i), body...))
	}
	x := sized("x", Float, 1)
	negative := message{}.bytes(1, message{}.num(1, 1).bytes(2, message{}.bytes(1, message{}.num(1, -7))))
	for _, tc := range []struct {
		name, want string
		file       []byte
	}{
		{"empty", "no graph", nil},
		{"text", "", []byte("this is not a model, it is a line of text\n")},
		{"graph of 2 GB", "unexpected EOF", claim(7, 2<<30)},
		{"graph of 2^63 bytes", "bytes where", claim(7, 1<<63)},
		{"name of 2 GB", "unexpected EOF", claim(2, 2<<30)},
		{"raw data of 2 GB", "bytes where", tensor(message(claim(9, 2<<30)))},
		{"negative dimension", "must not be negative", tensor(message{}.num(1, -4).num(2, 1).text(8, "w"))},
		{"huge dimension", "elements", tensor(message{}.num(1, 1<<62).num(2, 1))},
		{"product overflows", "elements", tensor(message{}.bytes(1, packed(1<<32, 1<<32)).num(2, 1))},
		{"rank", "dimensions", tensor(message{}.bytes(1, make([]byte, 100)))},
		{"negative input", "size -7", message{}.bytes(7, message{}.bytes(11, message{}.text(1, "x").bytes(2, negative)))},
		{"varint without end", "varint", bytes.Repeat([]byte{0xff}, 20)},
		{"group", "wire type 3", []byte{0x0b}},
		{"field 0", "start at 1", []byte{0x00}},
		{"two graphs", "second graph", message{}.bytes(7, nil).bytes(7, nil)},
		{"cycle", "cycle", graph(&Graph{Nodes: []*Node{node("Relu", names("a"), names("b")), node("Relu", names("b"), names("a"))}})},
		{"self", "cycle", graph(&Graph{Nodes: []*Node{node("Relu", names("a"), names("a"))}})},
		{"two producers", "already has a value", graph(&Graph{Inputs: []ValueInfo{x}, Nodes: []*Node{node("Relu", names("x"), names("b")), node("Relu", names("x"), names("b"))}})},
		{"overwritten input", "already has a value", graph(&Graph{Inputs: []ValueInfo{x}, Nodes: []*Node{node("Relu", names("x"), names("x"))}})},
		{"two inputs", "two inputs", graph(&Graph{Inputs: []ValueInfo{x, x}})},
		{"two initializers", "two initializers", graph(&Graph{Initializers: []*Tensor{weight("w", 1), weight("w", 1)}})},
		{"unknown name", "nothing produces", graph(&Graph{Nodes: []*Node{node("Relu", names("a"), names("b"))}})},
		{"unknown output", "produced by nothing", graph(&Graph{Outputs: []ValueInfo{x}})},
		{"no operator", "no operator", graph(&Graph{Nodes: []*Node{node("", nil, nil)}})},
		{"nested graphs", "deeper than 8", graph(nested)},
		{"thousands of nested graphs", "deeper than 8", message{}.bytes(7, message{}.bytes(1, message{}.bytes(5, deep)))},
		{"many nodes", "20000 nodes", message{}.bytes(7, many)},
		{"function that calls itself", "deeper than 8", message{}.bytes(7, message{}.bytes(1, encodeNode(call("f")))).bytes(25, function("f", call("f")))},
		{"functions that multiply", "20000 nodes", bomb},
	} {
		_, err := Limits{Nodes: 20_000}.Read(bytes.NewReader(tc.file))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

func TestLimits(t *testing.T) {
	file := encodeModel(small())
	for _, tc := range []struct {
		limits Limits
		want   string
	}{
		{Limits{Bytes: 20}, "bytes"},
		{Limits{Memory: 500}, "Limits.Memory"},
		{Limits{Nodes: 4}, "more than 4 nodes"},
	} {
		_, err := tc.limits.Read(bytes.NewReader(file))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want one with %q", tc.limits, err, tc.want)
		}
	}
}

// TestTruncated cuts a file at every byte: no cut may panic, and none inside
// the graph may pass.
func TestTruncated(t *testing.T) {
	file := encodeModel(small())
	graphEnd := bytes.Index(file, message{}.bytes(8, message{}.text(1, "").num(2, 17)))
	if graphEnd < 0 {
		t.Fatal("the opset does not follow the graph")
	}
	for n := range file {
		_, err := Read(bytes.NewReader(file[:n]))
		if n < graphEnd && err == nil {
			t.Errorf("a file cut to %d of %d bytes was read", n, len(file))
		}
	}
}

func TestFunctionsAreExpanded(t *testing.T) {
	body := message{}.text(1, "Twice").text(10, "f").text(4, "a").text(5, "b").
		bytes(7, encodeNode(node("Concat", names("a", "a"), names("c")))).
		bytes(7, encodeNode(&Node{Op: "Flatten", Inputs: names("c"), Outputs: names("b"), Attrs: []Attribute{{Name: "axis", ref: "at"}}}))
	calls := []*Node{
		{Op: "Twice", Domain: "f", Inputs: names("x"), Outputs: names("y"), Attrs: []Attribute{{Name: "at", I: 2}}},
		{Op: "Twice", Domain: "f", Inputs: names("y"), Outputs: names("z")},
	}
	g := &Graph{Inputs: []ValueInfo{sized("x", Float, 2, 3, 5)}, Nodes: calls, Outputs: []ValueInfo{{Name: "z"}}}
	m, err := Read(bytes.NewReader(message(encodeModel(model(g))).bytes(25, body)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Infer(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// [2 3 5] doubled on axis 1, flattened at 2; doubled again, flattened at 1.
	if diff := cmp.Diff(map[string][]int64{"y": {12, 5}, "z": {12, 10}}, dimsOf(s, "y", "z")); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
}

// dimsOf returns the dimensions of values by name.
func dimsOf(s *Shapes, list ...string) map[string][]int64 {
	out := map[string][]int64{}
	for _, v := range s.Values {
		for _, name := range list {
			if v.Name == name {
				out[name] = v.Dims
			}
		}
	}
	return out
}

func FuzzRead(f *testing.F) {
	f.Add(encodeModel(small()))
	f.Add(encodeModel(frozenAttention()))
	f.Add(encodeModel(controlFlow()))
	f.Add(encodeModel(paddedResize()))
	f.Add([]byte("\x08\x07"))
	limits := Limits{Bytes: 1 << 20, Memory: 4 << 20, Nodes: 2000}
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := limits.Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		for _, batch := range []int64{0, 7} {
			s, err := Infer(m, Options{Batch: batch, Assume: 16})
			if err != nil {
				continue
			}
			for _, v := range s.Values {
				for _, n := range v.Dims {
					if n < -1 {
						t.Fatalf("value %q has dimensions %v", v.Name, v.Dims)
					}
				}
				if v.Elements() < 0 || v.Elements() > maxElements {
					t.Fatalf("value %q has %d elements", v.Name, v.Elements())
				}
			}
		}
	})
}
