// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

// stride is the memory order of a value.
type stride int

const (
	contiguous stride = iota
	swapped           // its last two axes are swapped, the others in order
	permuted          // any other order
)

// findStrides tracks the memory order of values: a Transpose only changes the view,
// elementwise operators keep the order of their operand, and all others write their
// results in order.
func (g *graph) findStrides() {
	g.strides = make([]stride, len(g.s.Values))
	for i := range g.units {
		u := &g.units[i]
		if len(u.in) == 0 || len(u.out) == 0 || u.copies || g.static[u.out[0]] {
			continue
		}
		order := contiguous
		switch {
		case u.name == "Transpose":
			order = g.transposeOrder(u)
		case u.kind == View && u.name != "Reshape" && u.name != "Flatten", u.kind == Curve, u.kind == Elements:
			order = g.strides[u.in[0]]
		}
		for _, id := range u.out {
			g.strides[id] = order
		}
	}
}

func (g *graph) transposeOrder(u *unit) stride {
	perm := u.node.Ints("perm")
	n := len(perm)
	if g.strides[u.in[0]] != contiguous {
		// Two transposes often cancel each other: heads are split and joined that
		// way.
		return contiguous
	}
	inOrder := func(upto int) bool {
		for i, p := range perm[:upto] {
			if int(p) != i {
				return false
			}
		}
		return true
	}
	switch {
	case n < 2 || inOrder(n):
		return contiguous
	case inOrder(n-2) && int(perm[n-1]) == n-2:
		return swapped
	}
	return permuted
}

// copiesOf counts the operands that a unit must first copy into order: a layer
// normalisation, a softmax and a product with weights need contiguous rows, a batch
// of products needs contiguous batches.
func (g *graph) copiesOf(u *unit) (operands []int) {
	switch {
	case u.kind == MatMul && u.name != "Einsum":
		for at, id := range u.in[:min(2, len(u.in))] {
			if g.static[id] {
				continue
			}
			weights := len(u.in) > 1 && g.static[u.in[1-at]]
			if g.strides[id] == permuted || weights && g.strides[id] == swapped {
				operands = append(operands, id)
			}
		}
	case u.name == "LayerNormalization" || u.kind == Softmax:
		if len(u.in) > 0 && !g.static[u.in[0]] && g.strides[u.in[0]] != contiguous {
			operands = u.in[:1]
		}
	}
	return operands
}

// addCopies adds the cost of copying operands: forward and, where a gradient flows,
// backward.
func (g *graph) addCopies(u *unit, w *Work) {
	for _, id := range g.copiesOf(u) {
		bytes := 2 * float64(g.s.Values[id].Bytes())
		w.Copies++
		w.CopyBytes += bytes
		if g.grad[id] {
			w.CopyBytes += bytes
			w.Copies++
		}
	}
}
