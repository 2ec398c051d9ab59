// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"slices"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// Footprint is the memory of a process that trains the model, found by replaying a
// few steps against a model of PyTorch's caching allocator: the peak of the
// tensors, and what the allocator takes from the device for them, in bytes. It does
// not include the CUDA context.
type Footprint struct {
	Allocated int64 `json:"allocated"`
	Reserved  int64 `json:"reserved"`
	// Workspace is the largest workspace that a convolution asks for.
	Workspace int64 `json:"workspace"`
}

// productWorkspace is what the matrix library holds on a recent GPU once it has
// been used: two buffers of 32 MiB.
const productWorkspace = 64 << 20

// replay simulates training steps.
type replay struct {
	*lifetimes
	arena     arena
	values    []handle // root -> its block
	grads     []handle // root or parameter -> the block of its gradient
	extras    []handle // unit -> what it keeps besides results
	dies      [][]int  // unit -> roots released after its forward run
	released  [][]int  // unit -> roots released after its backward run
	state     []handle // of the optimiser
	workspace int64    // the most that a unit needed
	layouts   float64  // workspace of a convolution over the size of its operands
}

func newReplay(l *lifetimes) *replay {
	n, units := len(l.firstKeeper), len(l.g.units)
	r := &replay{lifetimes: l, values: blanks(n), grads: blanks(n), extras: blanks(units),
		dies: make([][]int, units), released: make([][]int, units)}
	for i := range l.g.units {
		for _, id := range l.g.units[i].out {
			if l.g.root[id] == id && l.firstKeeper[id] < 0 {
				at := max(l.lastUse[id], i)
				r.dies[at] = append(r.dies[at], id)
			}
		}
	}
	for root, keeper := range l.firstKeeper {
		if keeper >= 0 {
			r.released[keeper] = append(r.released[keeper], root)
		}
	}
	return r
}

func blanks(n int) []handle {
	list := make([]handle, n)
	for i := range list {
		list[i] = noBlock
	}
	return list
}

// drop frees a block once.
func (r *replay) drop(list []handle, i int) {
	r.arena.give(list[i])
	list[i] = noBlock
}

// replayed is the number of replayed steps: the optimiser's state is created at the
// end of the first.
const replayed = 2

// maxReplayed is the largest number of units that is replayed. Larger graphs, which
// no model that fits on a GPU has, are summed instead.
const maxReplayed = 30_000

// layouts are the workspaces of convolutions to try, relative to the size of their
// operands. Fragmentation of the allocator is a matter of chance; the mean of
// several replays is closer to measurements than any one of them.
var layouts = []float64{1, 1.25, 1.5}

// footprint is the mean of several replays.
func (l *lifetimes) footprint(f *Features) Footprint {
	if len(l.g.units) > maxReplayed {
		all := f.StateBytes(l.g.recipe.Slots()) + f.InputBytes + f.PeakBytes + productWorkspace
		return Footprint{Allocated: all, Reserved: all}
	}
	var sum Footprint
	for _, size := range layouts {
		one := l.replay(size)
		sum.Allocated += one.Allocated
		sum.Reserved += one.Reserved
		sum.Workspace += one.Workspace
	}
	n := int64(len(layouts))
	return Footprint{sum.Allocated / n, sum.Reserved / n, sum.Workspace / n}
}

func (l *lifetimes) replay(layouts float64) Footprint {
	r := newReplay(l)
	r.layouts = layouts
	var params []int
	for id, is := range l.g.param {
		if is {
			params = append(params, id)
		}
	}
	for _, id := range slices.Concat(l.g.params, l.g.buffers, l.g.s.Inputs) {
		r.arena.take(l.g.s.Values[id].Bytes())
	}
	r.arena.take(l.g.targets())
	if slices.ContainsFunc(l.g.units, func(u unit) bool { return u.kind == MatMul || u.kind == Attention }) {
		r.arena.take(productWorkspace)
	}
	for range replayed {
		for _, id := range params {
			r.drop(r.grads, id)
		}
		r.forward()
		r.backward(r.loss())
		r.optimize()
	}
	return Footprint{r.arena.most, r.arena.reserved, r.workspace}
}

// optimize creates the optimiser's state in the first step. Adam computes the
// denominators of all updates at once.
func (r *replay) optimize() {
	sizes := func(act func(bytes int64)) {
		for _, id := range r.g.params {
			act(r.g.s.Values[id].Bytes())
		}
	}
	if r.state == nil {
		for range r.g.recipe.Slots() {
			sizes(func(bytes int64) { r.state = append(r.state, r.arena.take(bytes)) })
		}
	}
	if r.g.recipe.Adam {
		var temporary []handle
		sizes(func(bytes int64) { temporary = append(temporary, r.arena.take(bytes)) })
		for _, h := range temporary {
			r.arena.give(h)
		}
	}
}

// forward runs all units; layers that are recomputed leave only what others read.
func (r *replay) forward() {
	at := 0
	for _, s := range r.layers {
		r.run(at, s.from)
		r.run(s.from, s.to)
		r.forget(s)
		at = s.to
	}
	r.run(at, len(r.g.units))
}

// forget frees what only the units of a layer read.
func (r *replay) forget(s segment) {
	for i := s.from; i < s.to; i++ {
		r.drop(r.extras, i)
		for _, id := range r.g.units[i].out {
			if r.g.root[id] == id && r.lastUse[id] < s.to && r.lastUse[id] >= 0 {
				r.drop(r.values, id)
			}
		}
	}
}

// run runs the units of a range forward. What a recomputed layer left stays.
func (r *replay) run(from, to int) {
	for i := from; i < to; i++ {
		u := &r.g.units[i]
		r.extras[i] = r.arena.take(r.extra[i])
		for _, id := range u.out {
			if r.values[id] != noBlock {
				continue
			}
			if r.g.root[id] == id && !r.inPlace(u) {
				r.values[id] = r.arena.take(r.size(id))
			} else if r.g.root[id] == id {
				// Written over its operand: the block changes owner.
				source := r.g.root[u.in[0]]
				r.values[id], r.values[source] = r.values[source], noBlock
			}
		}
		r.scratch(u, false)
		for _, root := range r.dies[i] {
			r.drop(r.values, root)
		}
	}
}

// gradientScratch is the workspace of the gradients of a convolution wider than a
// point, relative to its forward pass, in single precision. It was chosen by
// cross-validation.
const gradientScratch = 2

// scratch is memory that a unit needs while it runs: convolutions copy their
// operands into another layout, recurrent cells hold the gradients of their gates,
// extremes mark where they are.
func (r *replay) scratch(u *unit, backward bool) {
	if len(u.in) == 0 || len(u.out) == 0 {
		return
	}
	need := int64(0)
	switch u.kind {
	case Conv:
		need = int64(r.layouts * float64(r.g.bytes(u.in[:1])+r.g.bytes(u.out[:1])))
		half := r.g.recipe.Mixed || r.g.recipe.Half
		if weight := r.g.dims(u, 1); backward && !half && len(weight) > 2 && product(weight[2:]) > 1 && u.node.Int("group", 1) == 1 {
			need *= gradientScratch
		}
		r.workspace = max(r.workspace, need)
	case Recurrent:
		need = r.g.reserve(u) + r.g.bytes(u.in[1:min(3, len(u.in))])
	}
	r.arena.give(r.arena.take(need))
}

// extremes takes what the gradient of a maximum or minimum needs before its result: it
// goes to all equal ones, as a mask of them times the gradient, which is then divided by
// their number.
func (r *replay) extremes(u *unit) (free func()) {
	if u.name != "ReduceMax" && u.name != "ReduceMin" {
		return func() {}
	}
	mask, product := r.arena.take(r.g.elements(u.in[:1])), r.arena.take(r.g.bytes(u.in[:1]))
	return func() {
		r.arena.give(product)
		r.arena.give(mask)
	}
}

// targets are the bytes that outputs are compared with: labels are few, but an
// output that looks like the input is compared element by element.
func (g *graph) targets() int64 {
	total := int64(0)
	for _, out := range g.s.Outputs {
		for _, in := range g.s.Inputs {
			v := g.s.Values[out]
			if g.grad[out] && g.s.Values[in].Type == v.Type && g.s.Values[in].Elements() == v.Elements() {
				total += v.Bytes()
				break
			}
		}
	}
	return total
}

// loss compares the outputs with targets: a normalised copy is kept, followed by
// its gradient and that of the output. It returns the blocks that are freed when
// the gradients of the outputs exist.
func (r *replay) loss() []handle {
	var kept []handle
	for _, id := range r.g.s.Outputs {
		if r.g.grad[id] && r.size(r.g.root[id]) > 0 {
			cast := noBlock
			if r.g.recipe.Mixed {
				cast = r.arena.take(r.g.lossBytes(id))
			}
			kept = append(kept, r.arena.take(r.g.lossBytes(id)))
			r.arena.give(cast)
		}
	}
	for _, id := range r.g.s.Outputs {
		// What only the loss reads is freed with it.
		if root := r.g.root[id]; r.firstKeeper[root] < 0 {
			r.drop(r.values, root)
		}
	}
	return kept
}

// lossBytes is the size of an output in the precision of the loss: autocast computes
// it in single precision.
func (g *graph) lossBytes(id int) int64 {
	if v := g.s.Values[id]; g.recipe.Mixed && v.Type == onnx.BFloat16 {
		return v.Elements() * onnx.Float.Bytes()
	}
	return g.s.Values[id].Bytes()
}

func (r *replay) backward(losses []handle) {
	for _, id := range r.g.s.Outputs {
		root := r.g.root[id]
		if !r.g.grad[id] || r.size(root) == 0 {
			continue
		}
		normalised := r.arena.take(r.g.lossBytes(id))
		if r.grads[root] == noBlock {
			r.grads[root] = r.arena.take(r.size(root))
		}
		r.arena.give(normalised)
	}
	for _, h := range losses {
		r.arena.give(h)
	}
	layer := len(r.layers) - 1
	for i := len(r.g.units) - 1; i >= 0; i-- {
		if layer >= 0 && i == r.layers[layer].to-1 {
			r.run(r.layers[layer].from, r.layers[layer].to)
			layer--
		}
		u := &r.g.units[i]
		passes := u.name == "Add" || u.name == "Sum" || u.kind == View && !u.copies
		if passes {
			r.freeGrads(u)
		}
		for at, id := range u.in {
			root := r.g.root[id]
			switch {
			case !r.g.grad[id]:
			case r.g.param[root]:
				if r.grads[root] == noBlock {
					r.grads[root] = r.arena.take(r.g.s.Values[root].Bytes())
				}
			case r.grads[root] == noBlock:
				free := r.extremes(u)
				r.grads[root] = r.arena.take(r.size(root))
				free()
			}
			// A convolution computes one gradient after the other, each with a
			// workspace, whose memory later blocks may reuse.
			if at < 2 && r.g.grad[id] {
				r.scratch(u, true)
			}
		}
		if !passes {
			r.freeGrads(u)
		}
		r.drop(r.extras, i)
		for _, root := range r.released[i] {
			r.drop(r.values, root)
		}
	}
}

func (r *replay) freeGrads(u *unit) {
	for _, id := range u.out {
		if r.g.root[id] == id {
			r.drop(r.grads, id)
		}
	}
}
