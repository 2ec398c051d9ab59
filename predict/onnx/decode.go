// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Limits bounds what Read accepts. The zero value of a field stands for its
// default.
type Limits struct {
	Bytes  int64 // of the file; default 16 GiB
	Memory int64 // that the decoded model may take, in bytes; default 512 MiB
	Nodes  int   // in all graphs together; default 200,000
	Depth  int   // of graphs within graphs and functions within functions; default 8
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 16 << 30
	}
	if l.Memory <= 0 {
		l.Memory = 512 << 20
	}
	if l.Nodes <= 0 {
		l.Nodes = 200_000
	}
	if l.Depth <= 0 {
		l.Depth = 8
	}
	return l
}

// decoder turns the messages of a file into a Model.
type decoder struct {
	wire
	limits    Limits
	nodes     int
	weights   int64
	functions map[functionKey]*function
}

// Read reads a model within the default limits.
func Read(r io.Reader) (*Model, error) { return Limits{}.Read(r) }

// Read reads a model, expands its functions, checks it and puts its nodes in
// topological order.
func (l Limits) Read(r io.Reader) (*Model, error) {
	l = l.withDefaults()
	d := &decoder{limits: l, functions: map[functionKey]*function{}}
	d.r, d.keep = bufio.NewReaderSize(r, 64<<10), l.Memory
	m, err := d.model()
	if err != nil {
		return nil, fmt.Errorf("read ONNX model: at byte %d: %w", d.off, err)
	}
	if err := d.expand(m.Graph, 0); err != nil {
		return nil, fmt.Errorf("expand functions: %w", err)
	}
	if err := m.Graph.check(nil); err != nil {
		return nil, fmt.Errorf("check ONNX graph: %w", err)
	}
	return m, nil
}

// model reads the outermost message, which ends with the stream.
func (d *decoder) model() (*Model, error) {
	m := &Model{Opsets: map[string]int64{}}
	for {
		if _, err := d.r.Peek(1); errors.Is(err, io.EOF) {
			break
		}
		if d.off >= d.limits.Bytes {
			return nil, fmt.Errorf("the file is longer than %d bytes (Limits.Bytes)", d.limits.Bytes)
		}
		num, typ, err := d.tag(d.limits.Bytes)
		if err != nil {
			return nil, err
		}
		switch num {
		case 1:
			m.IRVersion, err = d.number(typ, d.limits.Bytes)
		case 2:
			m.Producer, err = d.text(typ, d.limits.Bytes)
		case 7:
			if m.Graph != nil {
				return nil, errors.New("a second graph; a model has one")
			}
			m.Graph, err = inside(d, typ, d.limits.Bytes, func(end int64) (*Graph, error) { return d.graph(end, 0) })
		case 8:
			err = d.opset(m.Opsets, typ)
		case 25:
			err = d.function(typ)
		default:
			err = d.skip(typ, d.limits.Bytes)
		}
		if err != nil {
			return nil, err
		}
	}
	if m.Graph == nil {
		return nil, errors.New("there is no graph: this is not an ONNX model")
	}
	m.Weights = d.weights
	return m, nil
}

// inside reads a nested message with f and makes sure that it ends where it
// says.
func inside[T any](d *decoder, typ wireType, end int64, f func(end int64) (T, error)) (T, error) {
	var none T
	stop, err := d.length(typ, end)
	if err != nil {
		return none, err
	}
	v, err := f(stop)
	if err == nil && d.off != stop {
		return none, fmt.Errorf("a message ends at byte %d instead of %d", d.off, stop)
	}
	return v, err
}

func (d *decoder) opset(opsets map[string]int64, typ wireType) error {
	_, err := inside(d, typ, d.limits.Bytes, func(end int64) (struct{}, error) {
		domain, version := "", int64(0)
		for d.off < end {
			num, typ, err := d.tag(end)
			switch {
			case err != nil:
			case num == 1:
				domain, err = d.text(typ, end)
			case num == 2:
				version, err = d.number(typ, end)
			default:
				err = d.skip(typ, end)
			}
			if err != nil {
				return struct{}{}, fmt.Errorf("opset_import: %w", err)
			}
		}
		opsets[standard(domain)] = version
		return struct{}{}, d.charge(64)
	})
	return err
}

// graph reads a GraphProto.
func (d *decoder) graph(end int64, depth int) (*Graph, error) {
	if depth > d.limits.Depth {
		return nil, fmt.Errorf("graphs nest deeper than %d (Limits.Depth)", d.limits.Depth)
	}
	g := &Graph{}
	for d.off < end {
		num, typ, err := d.tag(end)
		if err != nil {
			return nil, err
		}
		switch num {
		case 1:
			err = d.addNode(&g.Nodes, typ, end, depth)
		case 2:
			g.Name, err = d.text(typ, end)
		case 5:
			var t *Tensor
			if t, err = inside(d, typ, end, d.tensor); err == nil {
				g.Initializers = append(g.Initializers, t)
			} else {
				err = fmt.Errorf("initializer %d: %w", len(g.Initializers), err)
			}
		case 11:
			err = d.addValue(&g.Inputs, typ, end)
		case 12:
			err = d.addValue(&g.Outputs, typ, end)
		case 13:
			err = d.addValue(&g.Values, typ, end)
		case 15:
			var t *Tensor
			if t, err = inside(d, typ, end, d.sparse); err == nil {
				g.Initializers = append(g.Initializers, t)
			}
		default:
			err = d.skip(typ, end)
		}
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (d *decoder) addNode(list *[]*Node, typ wireType, end int64, depth int) error {
	if d.nodes++; d.nodes > d.limits.Nodes {
		return fmt.Errorf("more than %d nodes (Limits.Nodes)", d.limits.Nodes)
	}
	n, err := inside(d, typ, end, func(end int64) (*Node, error) { return d.node(end, depth) })
	if err != nil {
		return fmt.Errorf("node %d: %w", len(*list), err)
	}
	*list = append(*list, n)
	return nil
}

func (d *decoder) addValue(list *[]ValueInfo, typ wireType, end int64) error {
	v, err := inside(d, typ, end, d.valueInfo)
	if err != nil {
		return fmt.Errorf("value_info %d (%q): %w", len(*list), v.Name, err)
	}
	*list = append(*list, v)
	return nil
}

// node reads a NodeProto.
func (d *decoder) node(end int64, depth int) (*Node, error) {
	n := &Node{}
	if err := d.charge(256); err != nil {
		return nil, err
	}
	for d.off < end {
		num, typ, err := d.tag(end)
		if err != nil {
			return nil, err
		}
		switch num {
		case 1:
			err = d.addName(&n.Inputs, typ, end)
		case 2:
			err = d.addName(&n.Outputs, typ, end)
		case 3:
			n.Name, err = d.text(typ, end)
		case 4:
			n.Op, err = d.text(typ, end)
		case 5:
			var a Attribute
			a, err = inside(d, typ, end, func(end int64) (Attribute, error) { return d.attribute(end, depth) })
			if err != nil {
				err = fmt.Errorf("attribute %q: %w", a.Name, err)
			}
			n.Attrs = append(n.Attrs, a)
		case 7:
			n.Domain, err = d.text(typ, end)
			n.Domain = standard(n.Domain)
		default:
			err = d.skip(typ, end)
		}
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (d *decoder) addName(list *[]string, typ wireType, end int64) error {
	s, err := d.text(typ, end)
	if err != nil {
		return err
	}
	*list = append(*list, s)
	return d.charge(16)
}

// attribute reads an AttributeProto. Kinds of attribute that no shape depends
// on (types, sparse tensors, lists of tensors and graphs) are passed over.
func (d *decoder) attribute(end int64, depth int) (a Attribute, err error) {
	if err := d.charge(192); err != nil {
		return a, err
	}
	for d.off < end {
		num, typ, err := d.tag(end)
		if err != nil {
			return a, err
		}
		switch num {
		case 1:
			a.Name, err = d.text(typ, end)
		case 2:
			var one []float64
			if one, _, err = d.fixed(nil, typ, 4, span{end, 1}); len(one) == 1 {
				a.F = float32(one[0])
			}
		case 3:
			a.I, err = d.number(typ, end)
		case 4:
			var b []byte
			b, _, err = d.bytes(typ, end, smallTensor)
			a.S = string(b)
		case 5:
			a.Tensor, err = inside(d, typ, end, d.tensor)
		case 6:
			a.Graph, err = inside(d, typ, end, func(end int64) (*Graph, error) { return d.graph(end, depth+1) })
		case 7:
			err = d.addFloats(&a.Floats, typ, end)
		case 8:
			a.Ints, _, err = d.numbers(a.Ints, typ, span{end, 1 << 20})
		case 9:
			err = d.addName(&a.Strings, typ, end)
		case 21:
			a.ref, err = d.text(typ, end)
		default:
			err = d.skip(typ, end)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

func (d *decoder) addFloats(list *[]float32, typ wireType, end int64) error {
	more, _, err := d.fixed(nil, typ, 4, span{end, 1 << 20})
	for _, v := range more {
		*list = append(*list, float32(v))
	}
	return err
}
