// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

// groupNorm finds a group normalisation written as an instance normalisation
// of a reshaped tensor, reshaped back, scaled and shifted.
func (g *graph) groupNorm(norm int) *pattern {
	before := g.made(g.in(norm, 0), "Reshape")
	if before < 0 {
		return nil
	}
	after := g.next(norm, "Reshape")
	if after < 0 {
		return nil
	}
	p := &pattern{ops: []int{before, norm, after}, unit: unit{kind: Norm, name: "GroupNormalization", in: []int{g.in(before, 0)}}}
	last := after
	for _, name := range []string{"Mul", "Add"} {
		k := g.next(last, name)
		if k < 0 || len(g.uses[g.out(last)]) != 1 || !g.constant(g.other(k, g.out(last)), true) {
			break
		}
		p.unit.in = append(p.unit.in, g.other(k, g.out(last)))
		p.ops = append(p.ops, k)
		last = k
	}
	return p.end(g, last)
}

// linear finds a product with stored weights and its bias: one kernel.
func (g *graph) linear(product int) *pattern {
	in := g.s.Ops[product].In
	plus := g.next(product, "Add")
	if len(in) != 2 || !g.constant(in[1], true) || plus < 0 || len(g.uses[g.out(product)]) != 1 {
		return nil
	}
	bias := g.other(plus, g.out(product))
	if !g.constant(bias, true) || len(g.s.Values[bias].Dims) != 1 {
		return nil
	}
	p := &pattern{ops: []int{product, plus}, unit: unit{kind: MatMul, name: "MatMul", in: []int{in[0], in[1], bias}, bias: true}}
	p.end(g, plus)
	p.unit.node = g.s.Ops[product].Node
	return p
}

// fusedDims is the most dimensions of operands of fused attention.
const fusedDims = 4

// attention finds softmax(q*k + mask) * v in the form in which exporters write a
// fused scaled-dot-product attention: both queries and keys are scaled by a number
// before the product. Attention that scales the scores instead was written by hand;
// frameworks run it as written, with scores in memory, so it is not fused here. Neither
// is attention over windows in a fifth dimension: PyTorch's fused kernels take four.
func (g *graph) attention(softmax int) *pattern {
	scores := g.in(softmax, 0)
	p := &pattern{ops: []int{softmax}}
	var mask []int
	if plus := g.made(scores, "Add"); plus >= 0 {
		p.ops = append(p.ops, plus)
		in := g.s.Ops[plus].In
		if len(in) != 2 {
			return nil
		}
		scores = in[0]
		mask = in[1:]
		if g.made(scores, "MatMul") < 0 {
			scores, mask = in[1], in[:1]
		}
	}
	first := g.made(scores, "MatMul")
	if first < 0 || len(g.s.Values[scores].Dims) > fusedDims {
		return nil
	}
	q, k := g.in(first, 0), g.in(first, 1)
	scaleQ, scaleK := g.scaled(q), g.scaled(k)
	if scaleQ < 0 || scaleK < 0 {
		return nil
	}
	second := g.next(softmax, "MatMul")
	weights := g.out(softmax)
	if drop := g.next(softmax, "Dropout"); drop >= 0 {
		p.ops = append(p.ops, drop)
		second, weights = g.next(drop, "MatMul"), g.out(drop)
	}
	if second < 0 || g.in(second, 0) != weights {
		return nil
	}
	p.ops = append(p.ops, first, scaleQ, scaleK, second)
	p.unit = unit{kind: Attention, name: "ScaledDotProduct", scores: g.s.Values[weights].Elements(),
		in: append([]int{g.operand(scaleQ), g.operand(scaleK), g.in(second, 1)}, mask...)}
	return p.end(g, second)
}

// scaled returns the multiplication by a number that computes a value, -1
// when there is none.
func (g *graph) scaled(id int) int {
	mul := g.made(id, "Mul", "Div")
	if mul < 0 || g.operand(mul) < 0 {
		return -1
	}
	return mul
}

// operand returns what an operation scales by a number, -1 when neither
// operand is one.
func (g *graph) operand(i int) int {
	in := g.s.Ops[i].In
	switch {
	case len(in) != 2:
		return -1
	case g.constant(in[1], false):
		return in[0]
	case g.constant(in[0], false):
		return in[1]
	}
	return -1
}
