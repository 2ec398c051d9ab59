// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"errors"
	"fmt"
)

// Options are the sizes at which shapes are inferred.
type Options struct {
	// Batch is the first dimension of the inputs; 0 keeps the one recorded in the
	// file, or 1 if there is none.
	Batch int64
	// Dims gives sizes to symbols ("sequence") and to single dimensions of
	// inputs ("input_ids:1").
	Dims map[string]int64
	// Assume is the size of every other input dimension that the file leaves open;
	// 0 leaves them unknown.
	Assume int64
}

// Source says where a value comes from.
type Source int

// The sources of a value.
const (
	Computed Source = iota // by an operation of this graph
	Fed                    // an input
	Stored                 // an initializer
)

// Value is one tensor of the graph, at the chosen sizes.
type Value struct {
	Name   string
	Type   DataType
	Source Source
	// Dims is nil when the rank is unknown; an unknown dimension is -1.
	Dims []int64
	// Producer is the index in Shapes.Ops of the operation that computes the
	// value, -1 for inputs and initializers.
	Producer int
	// Digest is the digest of the stored tensor.
	Digest uint64

	data  *constant // its elements, if they are few and known
	items sequence  // what a sequence holds; nil for tensors and if unknown
}

// Known reports whether all dimensions are known.
func (v *Value) Known() bool {
	if v.Dims == nil {
		return false
	}
	for _, n := range v.Dims {
		if n < 0 {
			return false
		}
	}
	return true
}

// Elements returns the number of elements; 0 if the shape is unknown.
func (v *Value) Elements() int64 {
	if !v.Known() {
		return 0
	}
	return product(v.Dims)
}

// Bytes returns the size in bytes; 0 if the shape is unknown.
func (v *Value) Bytes() int64 { return v.Elements() * v.Type.Bytes() }

// Constant reports whether the elements are known without running the model.
func (v *Value) Constant() bool { return v.data != nil }

// Ints returns the elements of an integer constant; nil if unknown.
func (v *Value) Ints() []int64 {
	if v.data == nil || !v.data.whole() {
		return nil
	}
	return v.data.ints
}

// Number returns the element of a constant with one element; ok is false if v is
// not one or the element is unknown.
func (v *Value) Number() (n float64, ok bool) {
	if !v.data.single() {
		return 0, false
	}
	return v.data.float(0), true
}

// Op is one operation, in the order of execution. In and Out are indices into
// Shapes.Values; -1 for an omitted optional one.
type Op struct {
	Node *Node
	In   []int
	Out  []int
	// Repeat is how often the operation runs: the trip count of the loops around
	// it; 1 if unknown.
	Repeat int64
	// Folded is set if the result is known without running the model: the operation
	// is part of a shape computation.
	Folded bool
}

// Shapes is a model with the shape of every value.
type Shapes struct {
	Model *Model
	// Batch is the batch size used, Recorded the one in the file (0 if the file
	// leaves it open).
	Batch, Recorded int64
	Values          []*Value
	Ops             []Op
	Inputs          []int // of the graph, initializers aside
	Outputs         []int
	// Unknown counts the operators without a rule, by name.
	Unknown map[string]int
	// Unshaped counts the computed values whose shape is unknown.
	Unshaped int
	// Notes are remarks about inconsistencies, at most maxNotes.
	Notes []string

	options Options
}

const maxNotes = 50

// foldBudget is how many constant elements one inference may compute.
const foldBudget = 1 << 22

// WithBatch infers the shapes again at another batch size.
func (s *Shapes) WithBatch(n int64) (*Shapes, error) {
	if n <= 0 {
		return nil, fmt.Errorf("batch %d; it must be positive", n)
	}
	o := s.options
	o.Batch = n
	return Infer(s.Model, o)
}

// Infer infers the shape of every value of a model.
//
// Shapes come from the rule of the operator; if there is none, or if it depends on
// data, from value_info. value_info holds for the recorded batch only: for another
// batch, the model is first inferred as recorded, and shapes without a rule are
// scaled from there.
func Infer(m *Model, o Options) (*Shapes, error) {
	if o.Batch < 0 {
		return nil, fmt.Errorf("infer shapes: batch %d; it must be positive", o.Batch)
	}
	bound, err := bindInputs(m.Graph, o)
	if err != nil {
		return nil, fmt.Errorf("infer shapes: %w", err)
	}
	e := newEngine(m, bound)
	if bound.recorded > 0 && bound.batch != bound.recorded {
		asRecorded := o
		asRecorded.Batch = bound.recorded
		base, err := Infer(m, asRecorded)
		if err != nil {
			return nil, err
		}
		e.useBase(base)
	}
	if err := e.graph(m.Graph, newScope(nil, m.Graph), nil); err != nil {
		return nil, fmt.Errorf("infer shapes: %w", err)
	}
	s := e.shapes
	s.options = o
	for _, v := range s.Values {
		if v.Source == Computed && !v.Known() {
			s.Unshaped++
		}
	}
	return s, nil
}

// scope maps names to values, including those of the enclosing graphs.
type scope struct {
	outer *scope
	ids   map[string]int
}

func newScope(outer *scope, g *Graph) *scope {
	return &scope{outer, make(map[string]int, len(g.Inputs)+len(g.Initializers)+len(g.Nodes))}
}

func (s *scope) find(name string) (int, bool) {
	for ; s != nil; s = s.outer {
		if id, ok := s.ids[name]; ok {
			return id, true
		}
	}
	return -1, false
}

// engine walks the graph once and gives each value its shape.
type engine struct {
	shapes *Shapes
	bound  *binding
	rules  map[string]rule
	folds  map[string]fold
	repeat int64
	// unrolling is set within a loop that is inferred trip by trip: inner loops are
	// not, since that would multiply the trips.
	unrolling bool
	// budget is how many elements may still be folded: it bounds the time and
	// memory for constants.
	budget int64
	// base holds the dimensions of the outermost graph's values at the recorded
	// batch, if the batch differs.
	base map[string][]int64
	// info holds value_info by name, for the outermost graph only.
	info map[string]*ValueInfo
}

func newEngine(m *Model, b *binding) *engine {
	e := &engine{
		shapes: &Shapes{Model: m, Batch: b.batch, Recorded: b.recorded, Unknown: map[string]int{}},
		bound:  b, rules: rules(), folds: folds(), repeat: 1, budget: foldBudget,
		info: map[string]*ValueInfo{},
	}
	for _, list := range [][]ValueInfo{m.Graph.Values, m.Graph.Outputs} {
		for i := range list {
			e.info[list[i].Name] = &list[i]
		}
	}
	return e
}

func (e *engine) useBase(base *Shapes) {
	e.base = make(map[string][]int64, len(base.Values))
	for _, v := range base.Values {
		if _, taken := e.base[v.Name]; !taken && v.Known() {
			e.base[v.Name] = v.Dims
		}
	}
}

func (e *engine) note(format string, args ...any) {
	if len(e.shapes.Notes) < maxNotes {
		e.shapes.Notes = append(e.shapes.Notes, fmt.Sprintf(format, args...))
	}
}

// add adds a value and returns its index.
func (e *engine) add(s *scope, v *Value) int {
	id := len(e.shapes.Values)
	e.shapes.Values = append(e.shapes.Values, v)
	if v.Name != "" {
		s.ids[v.Name] = id
	}
	return id
}

// errHuge ends the inference of a graph with impossibly large values.
var errHuge = errors.New("value too large")

// graph infers the nodes of a graph. args are the values of its inputs for a body;
// nil for the model's graph, whose inputs get their sizes.
func (e *engine) graph(g *Graph, s *scope, args []*Value) error {
	stored := map[string]bool{}
	for _, t := range g.Initializers {
		stored[t.Name] = true
		e.add(s, &Value{Name: t.Name, Type: t.Type, Dims: nonNil(t.Dims), Source: Stored, Producer: -1, Digest: t.Digest, data: constantOf(t)})
	}
	for i, in := range g.Inputs {
		switch {
		case stored[in.Name]:
		case args != nil:
			v := &Value{Name: in.Name, Type: in.Type, Producer: -1, Dims: e.bound.recordedDims(in.Shape)}
			if i < len(args) && args[i] != nil {
				v.Dims, v.data, v.items, v.Source = args[i].Dims, args[i].data, args[i].items, args[i].Source
				v.Type = orType(args[i].Type, v.Type)
			}
			e.add(s, v)
		default:
			id := e.add(s, &Value{Name: in.Name, Type: in.Type, Dims: e.bound.inputs[in.Name], Source: Fed, Producer: -1})
			e.shapes.Inputs = append(e.shapes.Inputs, id)
		}
	}
	for _, n := range g.Nodes {
		if err := e.node(n, s); err != nil {
			return err
		}
	}
	if args == nil {
		for _, out := range g.Outputs {
			if id, ok := s.find(out.Name); ok {
				e.shapes.Outputs = append(e.shapes.Outputs, id)
			}
		}
	}
	return nil
}

func orType(a, b DataType) DataType {
	if a != Undefined {
		return a
	}
	return b
}

// node infers the outputs of one node and records the operation.
func (e *engine) node(n *Node, s *scope) error {
	c := &call{e: e, Node: n, scope: s}
	op := Op{Node: n, Repeat: e.repeat}
	for _, name := range n.Inputs {
		id, ok := s.find(name)
		if name == "" || !ok {
			c.in, op.In = append(c.in, nil), append(op.In, -1)
			continue
		}
		c.in, op.In = append(c.in, e.shapes.Values[id]), append(op.In, id)
	}
	for _, name := range n.Outputs {
		v := &Value{Name: name, Producer: -1}
		if name == "" {
			c.out, op.Out = append(c.out, v), append(op.Out, -1)
			continue
		}
		c.out, op.Out = append(c.out, v), append(op.Out, e.add(s, v))
	}
	if err := e.apply(c); err != nil {
		return err
	}
	for _, v := range c.out {
		v.Producer = len(e.shapes.Ops)
		if err := e.settle(v, c); err != nil {
			return err
		}
	}
	op.In = append(op.In, c.extra...)
	op.Folded = len(c.out) > 0 && c.out[0].data != nil
	e.shapes.Ops = append(e.shapes.Ops, op)
	return nil
}

// apply runs the rule of a node, or counts its operator as unknown.
func (e *engine) apply(c *call) error {
	switch {
	case len(c.out) == 0:
		return nil
	case c.Node.Op == "If" || c.Node.Op == "Loop" || c.Node.Op == "Scan":
		return e.control(c)
	}
	r := e.rules[c.Node.Op]
	if r == nil {
		e.shapes.Unknown[c.Node.Op]++
		return nil
	}
	r(c)
	if f := e.folds[c.Node.Op]; f != nil && e.budget > 0 {
		f(c)
		for _, v := range c.out {
			if v.data != nil {
				e.budget -= int64(v.data.count())
			}
		}
	}
	return nil
}

// settle completes a value from value_info and from the base, and rejects
// impossible sizes.
func (e *engine) settle(v *Value, c *call) error {
	if c.scope.outer == nil {
		if info := e.info[v.Name]; info != nil {
			v.Type = orType(v.Type, info.Type)
			if e.base == nil {
				v.Dims = merge(v.Dims, e.bound.recordedDims(info.Shape))
			}
		}
		if base := e.base[v.Name]; base != nil && !v.Known() {
			v.Dims = merge(v.Dims, e.scaled(base, c))
		}
	}
	v.Type = orType(v.Type, Float)
	known := make([]int64, 0, len(v.Dims))
	for i, n := range v.Dims {
		if n >= 0 {
			known = append(known, n)
		} else if n < -1 {
			e.note("%s: output %q would have a size of %d", c.Node, v.Name, n)
			v.Dims = clone(v.Dims)
			v.Dims[i] = -1
		}
	}
	if _, err := countOf(known); err != nil {
		return fmt.Errorf("%s: output %q: %w: %w", c.Node, v.Name, errHuge, err)
	}
	if v.data != nil && int64(v.data.count()) != v.Elements() {
		v.data = nil
	}
	return nil
}

// merge fills the unknown dimensions of a from b.
func merge(a, b []int64) []int64 {
	if a == nil {
		return b
	}
	if len(a) != len(b) {
		return a
	}
	out := append([]int64{}, a...)
	for i, n := range out {
		if n < 0 {
			out[i] = b[i]
		}
	}
	return out
}
