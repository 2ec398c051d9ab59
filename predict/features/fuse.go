// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"slices"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// fuse groups operators into units. A pattern is found from one operator that it
// always contains, and takes the place of its last operator.
func (g *graph) fuse() {
	patterns := map[int]unit{} // last operator -> unit
	for i := range g.s.Ops {
		op := &g.s.Ops[i]
		if g.fused[i] || g.idle(op) || g.out(i) < 0 || g.in(i, 0) < 0 {
			continue
		}
		var found *pattern
		switch op.Node.Op {
		case "Sub":
			found = g.layerNorm(i)
		case "Erf":
			found = g.gelu(i)
		case "Sigmoid", "HardSigmoid":
			found = g.gate(i)
		case "Softplus":
			found = g.mish(i)
		case "InstanceNormalization":
			found = g.groupNorm(i)
		case "Softmax":
			found = g.attention(i)
		case "MatMul":
			found = g.linear(i)
		}
		if found == nil || slices.Min(found.unit.in) < 0 || slices.Min(found.unit.out) < 0 || !g.private(found) {
			continue
		}
		for _, k := range found.ops {
			g.fused[k] = true
		}
		patterns[slices.Max(found.ops)] = found.unit
	}
	for i := range g.s.Ops {
		op := &g.s.Ops[i]
		switch u, ok := patterns[i]; {
		case ok:
			u.repeat = op.Repeat
			g.units = append(g.units, u)
		case !g.fused[i] && !g.idle(op):
			g.units = append(g.units, g.single(op))
		}
	}
}

// single makes a unit of one operator.
func (g *graph) single(op *onnx.Op) unit {
	u := unit{kind: Other, name: op.Node.Op, node: op.Node, slots: op.In, repeat: op.Repeat}
	if k, ok := g.kinds[op.Node.Op]; ok {
		u.kind = k
	}
	for _, id := range op.In {
		if id >= 0 {
			u.in = append(u.in, id)
		}
	}
	for _, id := range op.Out {
		if id >= 0 {
			u.out = append(u.out, id)
		}
	}
	switch {
	case u.name == "Gather" && g.selects(op):
		u.kind, u.name = View, "Slice" // one index: a view
	case g.noDropout(op):
		u.kind, u.name, u.out = View, "Identity", u.out[:min(1, len(u.out))]
	}
	u.bias = u.kind == Conv && len(op.In) > 2 || u.name == "Gemm" && len(op.In) > 2
	u.copies = u.name == "Reshape" && g.transposed(op.In)
	return u
}

// selects reports whether a Gather takes one fixed index out of a computed
// value.
func (g *graph) selects(op *onnx.Op) bool {
	data, index := op.In[0], -1
	if len(op.In) > 1 {
		index = op.In[1]
	}
	return data >= 0 && !g.static[data] && g.constant(index, false)
}

// transposed reports whether a Reshape reads what a Transpose has permuted:
// the permuted view cannot be viewed again and is copied.
func (g *graph) transposed(in []int) bool {
	if len(in) == 0 || in[0] < 0 {
		return false
	}
	p := g.producer(in[0])
	if p == nil || p.Node.Op != "Transpose" || g.static[in[0]] {
		return false
	}
	// A recurrent cell writes its directions side by side at once.
	cell := g.producer(p.In[0])
	return cell == nil || g.kinds[cell.Node.Op] != Recurrent
}

// pattern is a unit and the operators it consists of.
type pattern struct {
	ops  []int
	unit unit
}

// private reports whether nothing outside a pattern reads its inner values.
func (g *graph) private(p *pattern) bool {
	for _, k := range p.ops {
		if g.fused[k] {
			return false
		}
		for _, id := range g.s.Ops[k].Out {
			if id < 0 || slices.Contains(p.unit.out, id) {
				continue
			}
			for _, use := range g.uses[id] {
				if !slices.Contains(p.ops, use) {
					return false
				}
			}
		}
	}
	return true
}

// producer returns the operation that computes a value, nil for none.
func (g *graph) producer(id int) *onnx.Op {
	if id < 0 || g.s.Values[id].Producer < 0 {
		return nil
	}
	return &g.s.Ops[g.s.Values[id].Producer]
}

// made returns the index of the operation that computes a value if it is one
// of the named, else -1.
func (g *graph) made(id int, names ...string) int {
	if id < 0 {
		return -1
	}
	p := g.s.Values[id].Producer
	if p < 0 || !slices.Contains(names, g.s.Ops[p].Node.Op) {
		return -1
	}
	return p
}

// next returns the index of the one named operation that reads the first
// result of operation i, else -1.
func (g *graph) next(i int, names ...string) int {
	found, id := -1, g.out(i)
	if id < 0 {
		return -1
	}
	for _, use := range g.uses[id] {
		if slices.Contains(names, g.s.Ops[use].Node.Op) {
			if found >= 0 {
				return -1
			}
			found = use
		}
	}
	return found
}

// out returns the first result of operation i, -1 when it is left out.
func (g *graph) out(i int) int {
	if len(g.s.Ops[i].Out) == 0 {
		return -1
	}
	return g.s.Ops[i].Out[0]
}

// in returns an operand of operation i, -1 when it is left out.
func (g *graph) in(i, at int) int {
	if at >= len(g.s.Ops[i].In) {
		return -1
	}
	return g.s.Ops[i].In[at]
}

// other returns the operand of a two-operand operation that is not id, -1
// when there is none.
func (g *graph) other(i, id int) int {
	in := g.s.Ops[i].In
	switch {
	case len(in) != 2:
		return -1
	case in[0] == id:
		return in[1]
	case in[1] == id:
		return in[0]
	}
	return -1
}

// constant reports whether a value is static and no larger than one element,
// or (with any) static of any size.
func (g *graph) constant(id int, any bool) bool {
	return id >= 0 && (g.static[id] || g.s.Values[id].Constant()) && (any || g.s.Values[id].Elements() <= 1)
}

// layerNorm finds (x - mean) / sqrt(mean((x-mean)^2) + eps) * scale + shift
// from the subtraction.
func (g *graph) layerNorm(sub int) *pattern {
	in := g.s.Ops[sub].In
	if len(in) != 2 {
		return nil
	}
	mean := g.made(in[1], "ReduceMean")
	if mean < 0 || g.in(mean, 0) != in[0] {
		return nil
	}
	square, div := g.next(sub, "Pow", "Mul"), g.next(sub, "Div")
	if square < 0 || div < 0 {
		return nil
	}
	variance := g.next(square, "ReduceMean")
	if variance < 0 {
		return nil
	}
	plus := g.next(variance, "Add")
	if plus < 0 {
		return nil
	}
	root := g.next(plus, "Sqrt")
	if root < 0 || g.other(div, g.out(sub)) != g.out(root) {
		return nil
	}
	p := &pattern{ops: []int{mean, sub, square, variance, plus, root, div}, unit: unit{kind: Norm, name: "LayerNormalization", in: []int{in[0]}}}
	last := div
	for _, name := range []string{"Mul", "Add"} {
		if k := g.next(last, name); k >= 0 && len(g.uses[g.out(last)]) == 1 && g.constant(g.other(k, g.out(last)), true) {
			p.unit.in = append(p.unit.in, g.other(k, g.out(last)))
			p.ops = append(p.ops, k)
			last = k
		}
	}
	return p.end(g, last)
}

// end completes a pattern with its last operation.
func (p *pattern) end(g *graph, last int) *pattern {
	p.unit.out = []int{g.out(last)}
	p.unit.node = g.s.Ops[last].Node
	p.unit.slots = p.unit.in
	return p
}

// gelu finds x * (erf(x/sqrt 2) + 1) * 0.5, the half before or after.
func (g *graph) gelu(erf int) *pattern {
	scale := g.made(g.in(erf, 0), "Div", "Mul")
	if scale < 0 {
		return nil
	}
	x := g.in(scale, 0)
	if g.constant(x, false) {
		x = g.other(scale, x)
	}
	plus := g.next(erf, "Add")
	if x < 0 || plus < 0 {
		return nil
	}
	mul := g.next(plus, "Mul")
	if mul < 0 {
		return nil
	}
	p := &pattern{ops: []int{scale, erf, plus, mul}, unit: unit{kind: Curve, name: "Gelu", in: []int{x}}}
	factor := g.other(mul, g.out(plus))
	if factor != x {
		// Either x/2 here, or one half of the sum first.
		half := g.made(factor, "Mul")
		switch {
		case half >= 0 && g.constant(g.other(half, x), false):
			p.ops = append(p.ops, half)
		case g.constant(factor, false):
			final := g.next(mul, "Mul")
			if final < 0 || g.other(final, g.out(mul)) != x {
				return nil
			}
			p.ops = append(p.ops, final)
			return p.end(g, final)
		default:
			return nil
		}
		return p.end(g, mul)
	}
	if half := g.next(mul, "Mul"); half >= 0 && len(g.uses[g.out(mul)]) == 1 && g.constant(g.other(half, g.out(mul)), false) {
		p.ops = append(p.ops, half)
		return p.end(g, half)
	}
	return p.end(g, mul)
}

// gate finds x * sigmoid(x), the SiLU, and x * hardsigmoid(x).
func (g *graph) gate(sigmoid int) *pattern {
	mul := g.next(sigmoid, "Mul")
	x := g.in(sigmoid, 0)
	if mul < 0 || g.other(mul, g.out(sigmoid)) != x {
		return nil
	}
	p := &pattern{ops: []int{sigmoid, mul}, unit: unit{kind: Curve, name: "Silu", in: []int{x}}}
	return p.end(g, mul)
}

// mish finds x * tanh(softplus(x)).
func (g *graph) mish(softplus int) *pattern {
	tanh := g.next(softplus, "Tanh")
	if tanh < 0 {
		return nil
	}
	mul := g.next(tanh, "Mul")
	x := g.in(softplus, 0)
	if mul < 0 || g.other(mul, g.out(tanh)) != x {
		return nil
	}
	p := &pattern{ops: []int{softplus, tanh, mul}, unit: unit{kind: Curve, name: "Mish", in: []int{x}}}
	return p.end(g, mul)
}
