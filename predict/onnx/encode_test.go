// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message writes protobuf fields, for files made by tests.
type message []byte

func (m message) num(field protowire.Number, v int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(v))
}

func (m message) bytes(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

func (m message) text(field protowire.Number, s string) message { return m.bytes(field, []byte(s)) }

func (m message) float(field protowire.Number, f float32) message {
	return protowire.AppendFixed32(protowire.AppendTag(m, field, protowire.Fixed32Type), math.Float32bits(f))
}

// packed writes varints one behind the other.
func packed(list ...int64) (b []byte) {
	for _, v := range list {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return b
}

// encodeModel writes a model as Read expects it.
func encodeModel(m *Model) []byte {
	out := message{}.num(1, m.IRVersion).text(2, m.Producer).bytes(7, encodeGraph(m.Graph))
	for _, domain := range []string{"", "com.microsoft"} {
		if v, ok := m.Opsets[domain]; ok {
			out = out.bytes(8, message{}.text(1, domain).num(2, v))
		}
	}
	return out
}

func encodeGraph(g *Graph) []byte {
	out := message{}.text(2, g.Name)
	for _, n := range g.Nodes {
		out = out.bytes(1, encodeNode(n))
	}
	for _, t := range g.Initializers {
		out = out.bytes(5, encodeTensor(t))
	}
	for i, list := range [][]ValueInfo{g.Inputs, g.Outputs, g.Values} {
		for _, v := range list {
			out = out.bytes(protowire.Number(11+i), encodeValue(v))
		}
	}
	return out
}

func encodeNode(n *Node) []byte {
	out := message{}
	for _, s := range n.Inputs {
		out = out.text(1, s)
	}
	for _, s := range n.Outputs {
		out = out.text(2, s)
	}
	out = out.text(3, n.Name).text(4, n.Op)
	for i := range n.Attrs {
		a := &n.Attrs[i]
		b := message{}.text(1, a.Name)
		switch {
		case a.ref != "":
			b = b.text(21, a.ref)
		case a.Tensor != nil:
			b = b.bytes(5, encodeTensor(a.Tensor))
		case a.Graph != nil:
			b = b.bytes(6, encodeGraph(a.Graph))
		case a.Ints != nil:
			b = b.bytes(8, packed(a.Ints...))
		case a.Floats != nil:
			for _, f := range a.Floats {
				b = b.float(7, f)
			}
		case a.S != "":
			b = b.text(4, a.S)
		case a.F != 0:
			b = b.float(2, a.F)
		default:
			b = b.num(3, a.I)
		}
		out = out.bytes(5, b)
	}
	return out.text(7, n.Domain)
}

func encodeTensor(t *Tensor) []byte {
	out := message{}.bytes(1, packed(t.Dims...)).num(2, int64(t.Type)).text(8, t.Name)
	var raw []byte
	switch {
	case t.Type == Int64 && t.Ints != nil:
		for _, v := range t.Ints {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		}
		return out.bytes(9, raw)
	case t.Ints != nil:
		return out.bytes(5, packed(t.Ints...))
	case t.Floats != nil:
		for _, v := range t.Floats {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(v)))
		}
		return out.bytes(9, raw)
	}
	return out.num(14, 1) // external
}

func encodeValue(v ValueInfo) []byte {
	typ := message{}.num(1, int64(v.Type))
	if v.Shape != nil {
		shape := message{}
		for _, d := range v.Shape {
			dim := message{}
			if d.Symbol != "" {
				dim = dim.text(2, d.Symbol)
			} else if d.Size >= 0 {
				dim = dim.num(1, d.Size)
			}
			shape = shape.bytes(1, dim)
		}
		typ = typ.bytes(2, shape)
	}
	return message{}.text(1, v.Name).bytes(2, message{}.bytes(1, typ))
}

// sized makes the recorded type of a value.
func sized(name string, t DataType, dims ...int64) ValueInfo {
	v := ValueInfo{Name: name, Type: t, Shape: []Dim{}}
	for _, n := range dims {
		v.Shape = append(v.Shape, Dim{Size: n})
	}
	return v
}

// node makes a node; attributes are given as name, value pairs.
func node(op string, in, out []string, attrs ...any) *Node {
	n := &Node{Op: op, Inputs: in, Outputs: out}
	for i := 0; i+1 < len(attrs); i += 2 {
		a := Attribute{Name: attrs[i].(string)}
		switch v := attrs[i+1].(type) {
		case int:
			a.I = int64(v)
		case []int64:
			a.Ints = v
		case []float32:
			a.Floats = v
		case string:
			a.S = v
		case *Tensor:
			a.Tensor = v
		case *Graph:
			a.Graph = v
		default:
			panic("attribute of a kind that no test needs")
		}
		n.Attrs = append(n.Attrs, a)
	}
	return n
}

// names is a list of names.
func names(list ...string) []string { return list }

// ints makes an initializer of 64-bit integers.
func ints(name string, list ...int64) *Tensor {
	return &Tensor{Name: name, Type: Int64, Dims: []int64{int64(len(list))}, Ints: nonNil(list)}
}

// weight makes an initializer without contents.
func weight(name string, dims ...int64) *Tensor {
	return &Tensor{Name: name, Type: Float, Dims: nonNil(dims)}
}

// model makes a model of opset 17.
func model(g *Graph) *Model {
	return &Model{IRVersion: 8, Producer: "test", Opsets: map[string]int64{"": 17}, Graph: g}
}

// read encodes and reads a model back.
func read(t testing.TB, m *Model) *Model {
	t.Helper()
	got, err := Read(bytes.NewReader(encodeModel(m)))
	if err != nil {
		t.Fatal(err)
	}
	return got
}
