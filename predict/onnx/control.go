// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "slices"

// control infers an If, Loop or Scan by inferring its bodies in place: their
// operations are listed before the node itself.
func (e *engine) control(c *call) error {
	switch c.Op {
	case "If":
		return e.branch(c)
	case "Loop":
		return e.loop(c)
	}
	return e.scan(c)
}

// body infers a graph inside the node and returns the values of its outputs.
func (e *engine) body(c *call, g *Graph, args []*Value) ([]int, error) {
	inner := newScope(c.scope, g)
	if err := e.graph(g, inner, nonNil(args)); err != nil {
		return nil, err
	}
	outs := make([]int, len(g.Outputs))
	for i, v := range g.Outputs {
		outs[i] = -1
		if id, ok := inner.find(v.Name); ok {
			outs[i] = id
		}
	}
	return outs, nil
}

// value returns a value by index, nil for -1.
func (e *engine) value(id int) *Value {
	if id < 0 {
		return nil
	}
	return e.shapes.Values[id]
}

func graphAttr(n *Node, name string) *Graph {
	if a := n.Attr(name); a != nil && a.Graph != nil {
		return a.Graph
	}
	return &Graph{}
}

// branch takes the branch that the condition names; where that is not known
// it infers both, keeps the operations of the longer one, and knows of the
// outputs what both agree on.
func (e *engine) branch(c *call) error {
	then, other := graphAttr(c.Node, "then_branch"), graphAttr(c.Node, "else_branch")
	if cond := c.data(0); cond.single() {
		g := other
		if cond.float(0) != 0 {
			g = then
		}
		outs, err := e.body(c, g, nil)
		if err != nil {
			return err
		}
		for i, id := range outs {
			if v := e.value(id); v != nil && i < len(c.out) {
				c.set(i, v.Type, v.Dims)
				c.out[i].data, c.out[i].items = v.data, v.items
			}
		}
		c.extra = outs
		return nil
	}
	start, values := len(e.shapes.Ops), len(e.shapes.Values)
	a, err := e.body(c, then, nil)
	if err != nil {
		return err
	}
	middle := len(e.shapes.Ops)
	b, err := e.body(c, other, nil)
	if err != nil {
		return err
	}
	c.extra = a
	if len(e.shapes.Ops)-middle > middle-start {
		c.extra = b
		e.dropOps(start, middle, values)
	} else {
		e.dropOps(middle, len(e.shapes.Ops), values)
	}
	for i := range c.out {
		if i >= len(a) || i >= len(b) || e.value(a[i]) == nil || e.value(b[i]) == nil {
			continue
		}
		x, y := e.value(a[i]), e.value(b[i])
		c.set(i, orType(x.Type, y.Type), agree(x.Dims, y.Dims))
	}
	return nil
}

// dropOps removes a run of operations; values produced by later ones, which
// are numbered from first on, move up with them.
func (e *engine) dropOps(from, to, first int) {
	e.shapes.Ops = slices.Delete(e.shapes.Ops, from, to)
	for _, v := range e.shapes.Values[first:] {
		switch {
		case v.Producer >= to:
			v.Producer -= to - from
		case v.Producer >= from:
			v.Producer = -1
		}
	}
}

// agree keeps the dimensions that two shapes share.
func agree(a, b []int64) []int64 {
	if a == nil || b == nil || len(a) != len(b) {
		return nil
	}
	out := clone(a)
	for i := range out {
		if out[i] != b[i] {
			out[i] = -1
		}
	}
	return out
}

// maxRepeat bounds the product of nested trip counts.
const maxRepeat = 1 << 30

// loop infers the body once, with what the loop carries as it was at the
// start; outputs are the carried values and, one step per trip, the scanned
// ones.
func (e *engine) loop(c *call) error {
	body := graphAttr(c.Node, "body")
	trips := int64(-1)
	if d := c.data(0); d.single() {
		trips = clamp(int64(d.float(0)), 0, maxElements)
	}
	if trips >= 0 && trips <= maxUnrolled && !e.unrolling && slices.ContainsFunc(c.in, (*Value).sequence) {
		return e.unrolled(c, body, trips)
	}
	args := []*Value{{Type: Int64, Dims: []int64{}}, {Type: Bool, Dims: []int64{}}}
	carried := 0
	for i := 2; i < len(c.in); i++ {
		carried++
		if c.in[i] == nil {
			args = append(args, nil)
			continue
		}
		args = append(args, &Value{Type: c.in[i].Type, Dims: c.in[i].Dims, Source: c.in[i].Source})
	}
	outs, err := e.repeated(c, body, args, trips)
	if err != nil {
		return err
	}
	for i := range c.out {
		if i+1 >= len(outs) || e.value(outs[i+1]) == nil {
			continue
		}
		v := e.value(outs[i+1])
		switch {
		case i < carried:
			c.set(i, v.Type, agree(v.Dims, c.dims(i+2)))
		case v.Dims != nil:
			c.set(i, v.Type, append([]int64{trips}, v.Dims...))
		}
	}
	return nil
}

// repeated infers a body whose operations run trips times.
func (e *engine) repeated(c *call, body *Graph, args []*Value, trips int64) ([]int, error) {
	if trips < 0 {
		e.note("%s: the trip count is not known; its body counts once", c.Node)
	}
	outer := e.repeat
	e.repeat = clamp(times(outer, max(trips, 1)), 1, maxRepeat)
	outs, err := e.body(c, body, args)
	e.repeat = outer
	c.extra = outs
	return outs, err
}

// scan cuts its last inputs along their first axes and stacks its last
// outputs.
func (e *engine) scan(c *call) error {
	body := graphAttr(c.Node, "body")
	scanned := int(clamp(c.Int("num_scan_inputs", 0), 0, int64(len(c.in))))
	states := len(c.in) - scanned
	trips := int64(-1)
	args := make([]*Value, len(c.in))
	axes := c.Ints("scan_input_axes")
	for i, v := range c.in {
		if v == nil {
			continue
		}
		args[i] = &Value{Type: v.Type, Dims: clone(v.Dims), Source: v.Source}
		if i < states || len(v.Dims) == 0 {
			continue
		}
		a := 0
		if k := i - states; k < len(axes) {
			a, _ = axis(axes[k], len(v.Dims))
		}
		if a < 0 || a >= len(v.Dims) {
			continue
		}
		trips = v.Dims[a]
		args[i].Dims = slices.Delete(args[i].Dims, a, a+1)
	}
	outs, err := e.repeated(c, body, args, trips)
	if err != nil {
		return err
	}
	for i := range c.out {
		if i >= len(outs) || e.value(outs[i]) == nil || e.value(outs[i]).Dims == nil {
			continue
		}
		v := e.value(outs[i])
		dims := clone(v.Dims)
		if i >= states {
			dims = append([]int64{trips}, dims...)
		}
		c.set(i, v.Type, dims)
	}
	return nil
}
