// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

// call is one node with its values while its rule runs.
type call struct {
	*Node
	e     *engine
	scope *scope
	in    []*Value // nil for one left out
	out   []*Value
	// extra are values of bodies that flow into the outputs.
	extra []int
}

// rule sets the types and dimensions of a node's outputs; what it cannot say
// it leaves unset.
type rule func(*call)

// dims returns the dimensions of an input, nil when it is left out or its
// rank is not known.
func (c *call) dims(i int) []int64 {
	if i >= len(c.in) || c.in[i] == nil {
		return nil
	}
	return c.in[i].Dims
}

// has reports whether an input is given.
func (c *call) has(i int) bool { return i >= 0 && i < len(c.in) && c.in[i] != nil }

// typ returns the element type of an input.
func (c *call) typ(i int) DataType {
	if !c.has(i) {
		return Undefined
	}
	return c.in[i].Type
}

// data returns the elements of an input that is a constant, else nil.
func (c *call) data(i int) *constant {
	if !c.has(i) {
		return nil
	}
	return c.in[i].data
}

// list returns a list that is an attribute in older operator sets and an
// input in newer ones. given is false when it is absent, ok is false when it
// is given but not known.
func (c *call) list(attr string, input int) (list []int64, given, ok bool) {
	if a := c.Attr(attr); a != nil {
		return a.Ints, true, true
	}
	if !c.has(input) {
		return nil, false, true
	}
	if d := c.data(input); d != nil && d.ints != nil {
		return d.ints, true, d.whole()
	}
	return nil, true, false
}

// set gives an output its type and dimensions; outputs left out are ignored.
func (c *call) set(i int, t DataType, dims []int64) {
	if i < len(c.out) {
		c.out[i].Type, c.out[i].Dims = t, dims
	}
}

// misfit remarks that inputs do not go together; the output stays unknown.
func (c *call) misfit(what string) {
	var shapes [][]int64
	for _, v := range c.in {
		if v != nil {
			shapes = append(shapes, v.Dims)
		}
	}
	c.e.note("%s: %s: inputs %v", c.Node, what, shapes)
}

// axis turns a possibly negative axis into an index below rank; ok is false
// when it is out of range.
func axis(a int64, rank int) (int, bool) {
	if a < 0 {
		a += int64(rank)
	}
	return int(a), a >= 0 && a < int64(rank)
}

// clone copies dimensions; nil stays nil.
func clone(dims []int64) []int64 {
	if dims == nil {
		return nil
	}
	return append([]int64{}, dims...)
}

// times multiplies two sizes, either of which may be unknown. Products that
// no value can have stay at the limit, for settle to refuse.
func times(a, b int64) int64 {
	switch {
	case a == 0 || b == 0:
		return 0
	case a < 0 || b < 0:
		return -1
	case a > maxElements/b:
		return maxElements + 1
	}
	return a * b
}

// product multiplies sizes; -1 when one is unknown.
func product(dims []int64) int64 {
	p := int64(1)
	for _, n := range dims {
		p = times(p, n)
	}
	return p
}

// broadcast combines dimensions by the rule of NumPy; nil when they do not go
// together or one is unknown.
func (e *engine) broadcast(a, b []int64) []int64 {
	if a == nil || b == nil {
		return nil
	}
	if len(a) < len(b) {
		a, b = b, a
	}
	out := clone(a)
	for i := range b {
		j := len(a) - len(b) + i
		switch x, y := a[j], b[i]; {
		case x == 1:
			out[j] = y
		case y == 1:
		case x < 0 && y < 0:
		default:
			if out[j] = e.reconcile(x, y); out[j] == -2 {
				return nil
			}
		}
	}
	return out
}

// broadcastAll combines the dimensions of several inputs.
func (c *call) broadcastAll(first int) []int64 {
	var out []int64
	for i, dims := range c.thawed() {
		if i < first || c.in[i] == nil {
			continue
		}
		next := dims
		if out != nil {
			next = c.e.broadcast(out, next)
			if next == nil && dims != nil {
				c.misfit("shapes do not broadcast")
			}
		}
		if next == nil {
			return nil
		}
		out = next
	}
	return out
}

// thawed returns the inputs' dimensions, with the recorded batch replaced in
// those that an exporter froze: where another input has moved to the batch in
// force along some axis, counted from the last, an input that still has the
// old size there is meant to move along. At a batch of 1 broadcasting would
// otherwise bring the old size back.
func (c *call) thawed() [][]int64 {
	out := make([][]int64, len(c.in))
	fromEnd, old, now := 0, int64(0), int64(0)
	for i, v := range c.in {
		if v == nil {
			continue
		}
		out[i] = v.Dims
		if a := c.e.growth(v); a >= 0 && fromEnd == 0 {
			fromEnd, old, now = len(v.Dims)-a, c.e.base[v.Name][a], v.Dims[a]
		}
	}
	for i, dims := range out {
		if at := len(dims) - fromEnd; fromEnd > 0 && at >= 0 && dims[at] == old && old > 1 && c.e.growth(c.in[i]) < 0 {
			out[i] = clone(dims)
			out[i][at] = now
		}
	}
	return out
}
