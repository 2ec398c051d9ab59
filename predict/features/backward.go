// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

// forwardKernels estimates the launches of a unit's forward pass.
func (g *graph) forwardKernels(u *unit) float64 {
	switch u.kind {
	case View:
		if u.copies {
			return 1
		}
		return 0
	case Conv:
		if u.bias {
			return 2 // the bias is a kernel of its own
		}
		return 1
	case Recurrent:
		// One product for all steps' inputs, then a product and the gates per
		// step; directions run side by side. Small cells stay on the GPU for
		// several steps.
		if _, hidden := g.cellWidths(u); hidden <= SmallCell {
			return 1 + float64(max(u.steps, 1))/2
		}
		return 1 + 2*float64(max(u.steps, 1))
	case Norm:
		if u.name == "LayerNormalization" || u.name == "LRN" {
			return 1
		}
		return 2 // statistics and scaling; a batch norm counts its batches
	case Loss:
		return 2
	}
	return 1
}

// backward adds the cost of a unit's gradient. A unit without a needed gradient has
// none.
func (g *graph) backward(u *unit, w *Work) {
	needs := 0 // operands that need a gradient
	for _, id := range u.in {
		if g.grad[id] {
			needs++
		}
	}
	flows := false
	for _, id := range u.out {
		flows = flows || g.grad[id]
	}
	if needs == 0 || !flows {
		return
	}
	defer g.accumulate(u, w)
	gradOut := float64(g.bytes(u.out))
	switch u.kind {
	case Conv, MatMul:
		g.productBackward(u, w, gradOut)
		return
	case Attention, Recurrent:
		w.BackFlops, w.BackBytes, w.BackKernels = 2*w.Flops, 2*w.Bytes, 2*w.Kernels
		if u.kind == Attention {
			w.BackFlops += 2 * float64(u.scores) * 1 // the scores are computed again
		}
		return
	}
	w.BackKernels = g.plainBackwardKernels(u, needs)
	if w.BackKernels > 0 {
		w.BackFlops = w.Flops * backwardFactor(u.kind)
		for _, id := range u.in {
			if g.grad[id] {
				w.BackBytes += float64(g.s.Values[id].Bytes())
			}
		}
		w.BackBytes += gradOut + float64(g.keptBytes(u))
		if u.kind == Lookup && g.grad[u.in[0]] {
			w.Fill = float64(g.s.Values[u.in[0]].Bytes())
		}
	}
}

// accumulate sums the gradients of a result that several units read: one kernel for
// each beyond the first, which reads two tensors and writes one.
func (g *graph) accumulate(u *unit, w *Work) {
	for _, id := range u.out {
		if extra := float64(g.readers[id] - 1); extra > 0 && g.grad[id] {
			w.BackKernels += extra
			w.BackBytes += 3 * extra * float64(g.s.Values[id].Bytes())
			w.BackFlops += extra * float64(g.s.Values[id].Elements())
		}
	}
}

// productBackward: one product per operand that needs a gradient, each as
// costly as the forward one; a bias takes a reduction.
func (g *graph) productBackward(u *unit, w *Work, gradOut float64) {
	for i := range min(2, len(u.in)) {
		if !g.grad[u.in[i]] {
			continue
		}
		w.BackFlops += 2 * u.macs
		w.BackBytes += gradOut + float64(g.bytes(u.in[:min(2, len(u.in))]))
		w.BackKernels++
	}
	if u.bias && g.grad[u.in[len(u.in)-1]] {
		w.BackFlops += float64(g.elements(u.out))
		w.BackBytes += gradOut
		w.BackKernels++
	}
}

// backwardFactor is the arithmetic of a gradient over that of its function.
func backwardFactor(k Kind) float64 {
	switch k {
	case Norm:
		return 2
	case Elements, Curve, Softmax, Pool, Reduce, Loss:
		return 1
	}
	return 0
}

// plainBackwardKernels estimates the launches of the gradient of a unit that is not a
// product. Sums pass their gradient on; a broadcast operand takes a reduction.
func (g *graph) plainBackwardKernels(u *unit, needs int) float64 {
	broadcast := 0.0
	n := g.elements(u.out)
	for _, id := range u.in {
		if g.grad[id] && g.s.Values[id].Elements() < n {
			broadcast++
		}
	}
	switch u.kind {
	case View:
		switch {
		case u.copies, u.name == "Expand", u.name == "Split":
			return 1
		case u.name == "Slice":
			return 2 // zero a gradient, copy into it
		}
		return 0
	case Elements:
		switch u.name {
		case "Add", "Sum":
			return broadcast
		case "Sub":
			return 1 + broadcast
		case "Cast", "Dropout":
			return 1
		}
		return float64(needs) + broadcast
	case Move:
		if u.name == "Concat" {
			return 0 // its operands' gradients are views
		}
		return 1
	case Lookup:
		return g.lookupBackwardKernels(u)
	case Norm:
		if u.name == "LayerNormalization" && len(u.in) > 1 {
			return 2
		}
		return 1
	case Reduce:
		return 1
	case Loss:
		return 2
	}
	return 1
}

// Lookups of more rows than fewRows, and those by fixed indices, have their
// indices sorted before the gradients of equal ones are added up.
const (
	fewRows     = 3072
	sortKernels = 12
)

// lookupBackwardKernels: zero a gradient, then add into it.
func (g *graph) lookupBackwardKernels(u *unit) float64 {
	if len(u.in) < 2 || !g.param[u.in[0]] {
		return 2
	}
	if index := u.in[1]; !g.static[index] && g.s.Values[index].Elements() <= fewRows {
		return 2
	}
	return 1 + sortKernels
}

// Most tensors and blocks that one launch of a multi-tensor kernel takes, by
// the number of tensor lists it walks, and the elements of a block.
const (
	tensorsOneList  = 110
	tensorsTwoLists = 64
	blocksPerLaunch = 320
	blockElements   = 65536
)

// optimizer estimates the launches of SGD with momentum: scale the momentum
// (one list), add the gradient to it, add it to the parameters (two lists
// each). single is the count when each tensor is stepped on its own.
func (g *graph) optimizer() (launches, single int64) {
	if len(g.params) == 0 {
		return 0, 0
	}
	blocks := int64(0)
	for _, id := range g.params {
		blocks += (g.s.Values[id].Elements() + blockElements - 1) / blockElements
	}
	tensors := int64(len(g.params))
	pass := func(perLaunch int64) int64 {
		return max((tensors+perLaunch-1)/perLaunch, (blocks+blocksPerLaunch-1)/blocksPerLaunch)
	}
	return pass(tensorsOneList) + 2*pass(tensorsTwoLists), 3 * tensors
}

// Device has the figures of a GPU for a roofline.
type Device struct {
	Flops     float64 // peak per second, in the precision of the model
	Bandwidth float64 // of memory, bytes per second
	Launch    float64 // seconds between the starts of two kernels at least
}

// Roofline is a lower bound on the times of a step's parts, in seconds: every
// unit takes the largest of its arithmetic, its traffic and its launches.
type Roofline struct {
	Forward   float64 `json:"forward"`
	Backward  float64 `json:"backward"`
	Optimizer float64 `json:"optimizer"`
	// Busy is the same sum without launches: how long the GPU computes during the
	// step.
	Busy float64 `json:"busy"`
	// ComputeBound, MemoryBound and LaunchBound are the parts of the forward
	// and backward time in units bound by each; they sum to 1.
	ComputeBound float64 `json:"compute_bound"`
	MemoryBound  float64 `json:"memory_bound"`
	LaunchBound  float64 `json:"launch_bound"`
}

// Step is the sum of the parts.
func (r Roofline) Step() float64 { return r.Forward + r.Backward + r.Optimizer }

// Roofline sums the units on a device. The device's rates must be positive.
func (f *Features) Roofline(d Device) Roofline {
	var r Roofline
	bound := func(flops, bytes, kernels float64) float64 {
		compute, memory, launch := flops/d.Flops, bytes/d.Bandwidth, kernels*d.Launch
		t := max(compute, memory, launch)
		switch t {
		case launch:
			r.LaunchBound += t
		case compute:
			r.ComputeBound += t
		default:
			r.MemoryBound += t
		}
		r.Busy += max(compute, memory)
		return t
	}
	for _, w := range f.work {
		r.Forward += bound(w.Flops*w.Repeat, w.Bytes*w.Repeat, w.Kernels*w.Repeat)
		r.Backward += bound(w.BackFlops*w.Repeat, w.BackBytes*w.Repeat, w.BackKernels*w.Repeat)
	}
	if total := r.Forward + r.Backward; total > 0 {
		r.ComputeBound /= total
		r.MemoryBound /= total
		r.LaunchBound /= total
	}
	// The three passes of SGD with momentum read and write 8 numbers per
	// parameter.
	traffic := 8 * float64(f.ParamBytes) / d.Bandwidth
	r.Optimizer = max(traffic, float64(f.Kernels.Optimizer)*d.Launch)
	r.Busy += traffic
	return r
}
