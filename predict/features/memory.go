// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import "strings"

// kept is what a unit holds for its gradient.
type kept struct {
	values []int // values of the graph
	extra  int64 // additional bytes: masks, indices, statistics
}

// Operators by what their gradient reads.
const (
	keepsOutput  = "Relu Sigmoid Tanh Exp Sqrt Softmax LogSoftmax Reciprocal Elu Selu Celu ReduceMax ReduceMin ReduceProd ReduceL2 ReduceLogSumExp GlobalMaxPool"
	keepsInput   = "LeakyRelu PRelu Clip Gelu FastGelu QuickGelu BiasGelu Silu Mish HardSwish HardSigmoid Softplus Softsign Erf Log Sin Cos Tan Abs Pow ThresholdedRelu Swish Shrink AveragePool LpPool LRN ReduceL1 ReduceSumSquare ReduceLogSum LpNormalization"
	keepsIndices = "Gather GatherElements GatherND ScatterElements ScatterND Scatter"
)

// keepTable maps operators to "in", "out" or "index".
func keepTable() map[string]string {
	table := map[string]string{}
	for what, names := range map[string]string{"out": keepsOutput, "in": keepsInput, "index": keepsIndices} {
		for _, name := range strings.Fields(names) {
			table[name] = what
		}
	}
	return table
}

// keeps returns what a unit holds for its gradient: nothing, if no gradient flows
// through it.
func (g *graph) keeps(u *unit, table map[string]string) kept {
	flows := false
	for _, id := range u.out {
		flows = flows || g.grad[id]
	}
	if !flows || len(u.in) == 0 {
		return kept{}
	}
	n := g.elements(u.out[:1])
	switch u.kind {
	case Conv, MatMul:
		return g.casts(u, kept{values: g.partners(u.in)})
	case Attention:
		// Operands, result and one number per row of scores; without fusion the
		// softmax is its own unit and keeps the scores.
		return g.casts(u, kept{values: append(append([]int{}, u.in...), u.out[0]), extra: 4 * n / max(g.lastDim(u.out[0]), 1)})
	case Recurrent:
		return kept{values: []int{u.in[0], u.out[0]}, extra: g.reserve(u)}
	case Norm:
		return g.normKeeps(u, n)
	case Pool:
		if u.name == "MaxPool" {
			return kept{values: u.in[:1], extra: 8 * n} // 64-bit indices
		}
	case Loss:
		return kept{values: u.in, extra: g.bytes(u.in[:1])}
	case Elements:
		switch u.name {
		case "Mul":
			return kept{values: g.partners(u.in)}
		case "Div":
			if g.grad[u.in[len(u.in)-1]] {
				return kept{values: u.in}
			}
			return kept{}
		case "Max", "Min":
			return kept{values: u.in}
		case "Where":
			return kept{values: u.in[:1]}
		case "Dropout":
			return kept{extra: n} // a mask of bytes
		}
	}
	switch table[u.name] {
	case "out":
		return kept{values: u.out[:1]}
	case "in":
		return kept{values: u.in[:1]}
	case "index":
		if len(u.in) > 1 {
			return kept{values: u.in[1:2]}
		}
	}
	return kept{}
}

func (g *graph) lastDim(id int) int64 {
	if dims := g.s.Values[id].Dims; len(dims) > 0 {
		return dims[len(dims)-1]
	}
	return 1
}

// partners returns the operands of a product that the gradients of the others read:
// each needs its partner.
func (g *graph) partners(in []int) []int {
	in = in[:min(2, len(in))]
	if len(in) == 1 {
		return in
	}
	var out []int
	if g.grad[in[1]] {
		out = append(out, in[0])
	}
	if g.grad[in[0]] {
		out = append(out, in[1])
	}
	return out
}

// normKeeps returns the input and two statistics per channel or row.
func (g *graph) normKeeps(u *unit, n int64) kept {
	k := kept{values: u.in[:1]}
	switch u.name {
	case "BatchNormalization":
		if len(u.in) > 1 {
			k.extra = 8 * g.s.Values[u.in[1]].Elements()
		}
	case "LayerNormalization":
		k.extra = 8 * n / max(g.lastDim(u.out[0]), 1)
	}
	return k
}

// SmallCell is the width up to which cells run several steps in one kernel, which
// needs more memory.
const SmallCell = 128

// cellWidths returns the input and hidden width of a recurrent cell; 0, 0 if unknown.
func (g *graph) cellWidths(u *unit) (input, hidden int64) {
	x, r := g.dims(u, 0), g.dims(u, 2)
	if len(x) != 3 || len(r) != 3 {
		return 0, 0
	}
	return x[2], r[2]
}

// reserve is what a recurrent unit holds per step: the gates, the cell, and copies
// in the library's layout.
func (g *graph) reserve(u *unit) int64 {
	x, r := g.dims(u, 0), g.dims(u, 2)
	if len(x) != 3 || len(r) != 3 {
		return 0
	}
	numbers := gates(u.name) + 3
	if r[2] <= SmallCell {
		numbers *= 2
	}
	return 4 * x[0] * x[1] * r[0] * r[2] * numbers
}

// keptBytes is the size of what a unit holds.
func (g *graph) keptBytes(u *unit) int64 {
	k := g.keeps(u, g.keep)
	return g.bytes(k.values) + k.extra
}

// memory computes what is kept from forward to backward, and the peak, without the
// tensors of the model and its inputs.
func (g *graph) memory(f *Features) {
	n := len(g.s.Values)
	l := &lifetimes{g: g, firstKeeper: make([]int, n), lastUse: make([]int, n), made: make([]int, n), extra: make([]int64, len(g.units))}
	for id := range n {
		l.firstKeeper[id], l.lastUse[id] = -1, -1
	}
	var list []Activation
	for i := range g.units {
		u := &g.units[i]
		for _, id := range u.in {
			l.lastUse[g.root[id]] = i
		}
		for _, id := range u.out {
			l.made[id] = i
			if g.root[id] == id {
				f.AllOutputBytes += g.s.Values[id].Bytes()
			}
		}
		k := g.keeps(u, g.keep)
		l.extra[i] = k.extra
		f.ActivationBytes += k.extra * u.repeat
		for _, id := range k.values {
			root := g.root[id]
			v := g.s.Values[root]
			if g.static[root] || v.Producer < 0 || l.firstKeeper[root] >= 0 {
				continue
			}
			l.firstKeeper[root] = i
			f.ActivationBytes += v.Bytes() * u.repeat
			f.Activations += v.Elements() * u.repeat
			list = append(list, Activation{v.Name, v.Bytes()})
			if u.kind == Softmax && len(v.Dims) == 4 {
				f.AttentionScoreBytes += v.Bytes()
			}
		}
	}
	if g.recipe.Checkpoint {
		l.recomputed(f)
		l.checkpoints()
	}
	f.Largest = largest(list)
	f.PeakBytes = max(l.peak(), f.ActivationBytes) // the replay runs loops once
	f.Footprint = l.footprint(f)
}

// lifetimes replays a step to find the peak of live memory.
type lifetimes struct {
	g           *graph
	firstKeeper []int // root -> first unit that keeps it, -1
	lastUse     []int // root -> last unit that reads it in the forward pass
	made        []int // value -> unit that computes it
	extra       []int64
	layers      []segment // recomputed in the backward pass
	live, most  int64
}

// recomputed adds up what layers keep for themselves alone.
func (l *lifetimes) recomputed(f *Features) {
	for _, s := range l.g.segments() {
		for i := s.from; i < s.to; i++ {
			u := &l.g.units[i]
			f.RecomputedBytes += l.extra[i] * u.repeat
			for _, id := range u.out {
				root := l.g.root[id]
				if root == id && l.size(root) > 0 && l.firstKeeper[root] >= 0 && l.lastUse[root] < s.to {
					v := l.g.s.Values[root]
					f.RecomputedBytes += v.Bytes() * u.repeat
					f.Recomputed += v.Elements() * u.repeat
				}
			}
		}
	}
}

// checkpoints makes each layer keep what it reads of others until its backward pass.
func (l *lifetimes) checkpoints() {
	l.layers = l.g.segments()
	for _, s := range l.layers {
		for i := s.from; i < s.to; i++ {
			for _, id := range l.g.units[i].in {
				root := l.g.root[id]
				producer := l.made[root]
				if l.size(root) > 0 && producer < s.from && (l.firstKeeper[root] < 0 || l.firstKeeper[root] > i) {
					l.firstKeeper[root] = i
				}
			}
		}
	}
}

func (l *lifetimes) grow(bytes int64) {
	l.live += bytes
	l.most = max(l.most, l.live)
}

// size is the memory that the step allocates for a root: none for parameters,
// constants and inputs.
func (l *lifetimes) size(root int) int64 {
	if l.g.static[root] || l.g.s.Values[root].Producer < 0 {
		return 0
	}
	return l.g.s.Values[root].Bytes()
}

func (l *lifetimes) peak() int64 {
	dies := make([][]int, len(l.g.units)) // unit -> roots released after its forward run
	for i := range l.g.units {
		u := &l.g.units[i]
		for _, id := range u.out {
			root := l.g.root[id]
			if root == id && l.firstKeeper[root] < 0 {
				at := max(l.lastUse[root], i)
				dies[at] = append(dies[at], root)
			}
		}
	}
	for i := range l.g.units {
		u := &l.g.units[i]
		l.grow(l.extra[i])
		for _, id := range u.out {
			if l.g.root[id] == id && !l.inPlace(u) {
				l.grow(l.size(id))
			}
		}
		for _, root := range dies[i] {
			if !l.inPlaceSource(root) {
				l.live -= l.size(root)
			}
		}
	}
	l.replayBackward()
	return l.most
}

// inPlace reports whether a unit overwrites its operand: a ReLU or a clip whose
// operand is neither kept nor read elsewhere.
func (l *lifetimes) inPlace(u *unit) bool {
	return (u.name == "Relu" || u.name == "Clip") && len(u.in) > 0 && l.inPlaceSource(l.g.root[u.in[0]])
}

// inPlaceSource reports whether a root is the operand of an in-place unit.
func (l *lifetimes) inPlaceSource(root int) bool {
	if l.firstKeeper[root] >= 0 || l.g.static[root] || len(l.g.uses[root]) != 1 || l.lastUse[root] < 0 {
		return false
	}
	u := &l.g.units[l.lastUse[root]]
	return (u.name == "Relu" || u.name == "Clip") && len(u.in) > 0 && u.in[0] == root
}

// replayBackward goes through the units from last to first: it allocates the
// gradients of operands, then frees those of the results and what was kept.
func (l *lifetimes) replayBackward() {
	hasGrad := make([]bool, len(l.firstKeeper))
	released := make([][]int, len(l.g.units))
	for root, keeper := range l.firstKeeper {
		if keeper >= 0 {
			released[keeper] = append(released[keeper], root)
		}
	}
	for i := len(l.g.units) - 1; i >= 0; i-- {
		u := &l.g.units[i]
		passes := u.name == "Add" || u.name == "Sum" || u.kind == View && !u.copies
		free := func() {
			for _, id := range u.out {
				if root := l.g.root[id]; root == id && hasGrad[root] {
					hasGrad[root] = false
					l.live -= l.size(root)
				}
			}
		}
		if passes {
			free()
		}
		for _, id := range u.in {
			if root := l.g.root[id]; l.g.grad[id] && !l.g.param[root] && !hasGrad[root] && l.size(root) > 0 {
				hasGrad[root] = true
				l.grow(l.size(root))
			}
		}
		free()
		l.live -= l.extra[i]
		for _, root := range released[i] {
			l.live -= l.size(root)
		}
	}
}
