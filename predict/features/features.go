// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/predict/onnx"
)

// Features describe one training step of a model at one batch size.
type Features struct {
	Recipe     Recipe `json:"-"`
	Batch      int64  `json:"batch"`
	Opset      int64  `json:"opset"`
	InputBytes int64  `json:"input_bytes"`

	Params       int64 `json:"params"`        // trainable numbers
	ParamBytes   int64 `json:"param_bytes"`   // their size
	ParamTensors int   `json:"param_tensors"` // their number of tensors
	BufferBytes  int64 `json:"buffer_bytes"`  // running statistics, not trained
	// Layers is the number of repeated layers that the names of operators tell; a
	// recipe with Checkpoint recomputes each.
	Layers int `json:"layers"`

	MACs          float64 `json:"macs"`           // multiply-adds of the forward pass
	FlopsForward  float64 `json:"flops_forward"`  // all arithmetic, a multiply-add as 2
	FlopsBackward float64 `json:"flops_backward"` //
	BytesForward  float64 `json:"bytes_forward"`  // traffic to and from memory
	BytesBackward float64 `json:"bytes_backward"` //
	Intensity     float64 `json:"intensity"`      // flops per byte, forward and backward

	ActivationBytes     int64 `json:"activation_bytes"`      // kept from forward for backward, inputs aside
	Activations         int64 `json:"activations"`           // their elements
	PeakBytes           int64 `json:"peak_bytes"`            // most alive at once: activations and their gradients
	AllOutputBytes      int64 `json:"all_output_bytes"`      // every result once, as if nothing were freed
	AttentionScoreBytes int64 `json:"attention_score_bytes"` // part of ActivationBytes that fused attention would save
	// RecomputedBytes and Recomputed are the part of ActivationBytes and Activations that
	// a recipe with Checkpoint drops and computes again, layer by layer.
	RecomputedBytes int64        `json:"recomputed_bytes"`
	Recomputed      int64        `json:"recomputed"`
	Largest         []Activation `json:"largest"`   // kept activations, at most 5
	Footprint       Footprint    `json:"footprint"` // of the process, by replay

	Ops            map[string]int `json:"ops"`   // operators of the file, shape arithmetic aside
	Kinds          map[Kind]int   `json:"kinds"` // units of work by kind
	Units          int            `json:"units"` // units with kernels
	Depth          int            `json:"depth"` // longest chain of them
	RecurrentSteps int64          `json:"recurrent_steps"`
	Kernels        Kernels        `json:"kernels"`
	FlopsPerUnit   Spread         `json:"flops_per_unit"`
	// Share is the part of the forward flops by kind; the parts sum to 1.
	Share map[Kind]float64 `json:"share"`

	Unknown  map[string]int `json:"unknown"`  // operators without a rule
	Unshaped int            `json:"unshaped"` // values whose shape is not known
	// Certain is the share of units with known shapes: how far to trust the
	// sums.
	Certain float64 `json:"certain"`

	work []Work
}

// Activation is one tensor kept for the backward pass.
type Activation struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Kernels estimates launches in one step.
type Kernels struct {
	Forward   int64 `json:"forward"`
	Backward  int64 `json:"backward"`
	Optimizer int64 `json:"optimizer"` // SGD with momentum, many tensors per launch
	// Tensors is the launches of an optimiser that steps through tensors one
	// by one: three per parameter tensor.
	Tensors int64 `json:"optimizer_single"`
}

// Total is the launches of a step.
func (k Kernels) Total() int64 { return k.Forward + k.Backward + k.Optimizer }

// Spread describes a distribution.
type Spread struct {
	Mean float64 `json:"mean"`
	P10  float64 `json:"p10"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	Max  float64 `json:"max"`
}

// FlopsTraining is the arithmetic of a step, the optimiser aside.
func (f *Features) FlopsTraining() float64 { return f.FlopsForward + f.FlopsBackward }

// Again is the arithmetic and the launches of forward passes that a recipe with
// Checkpoint repeats; the sums above do not include them.
func (f *Features) Again() (flops, kernels float64) {
	for _, w := range f.work {
		if w.Again {
			flops += w.Repeat * w.Flops
			kernels += w.Repeat * w.Kernels
		}
	}
	return flops, kernels
}

// StateBytes is what the model holds between steps: parameters, gradients,
// slots numbers of optimiser state per parameter (1 for momentum, 2 for Adam)
// and buffers.
func (f *Features) StateBytes(slots int64) int64 {
	return f.ParamBytes*(2+slots) + f.BufferBytes
}

// Extract computes the features of a model, trained by a recipe, at the batch of its
// shapes.
func Extract(s *onnx.Shapes, r Recipe) *Features {
	file := s.Ops
	g := newGraph(unmerge(unfold(s)))
	g.applyRecipe(r)
	s = g.s
	f := &Features{
		Recipe: r,
		Batch:  s.Batch, Opset: s.Model.Opset(), Unknown: s.Unknown, Unshaped: s.Unshaped,
		Ops: map[string]int{}, Kinds: map[Kind]int{}, Share: map[Kind]float64{}, Certain: 1,
	}
	for _, id := range s.Inputs {
		f.InputBytes += s.Values[id].Bytes()
	}
	for _, id := range g.params {
		f.Params += s.Values[id].Elements()
		f.ParamBytes += s.Values[id].Bytes()
	}
	f.ParamTensors = len(g.params)
	f.Layers = len(g.segments())
	for _, id := range g.buffers {
		f.BufferBytes += s.Values[id].Bytes()
	}
	for i := range file {
		if !g.idle(&file[i]) {
			f.Ops[file[i].Node.Op]++
		}
	}
	f.sum(g)
	if r.Checkpoint {
		for _, s := range g.segments() {
			for i := s.from; i < s.to; i++ {
				f.work[i].Again = true
			}
		}
	}
	f.work = append(f.work, g.lossWork()...)
	g.memory(f)
	f.Kernels.Optimizer, f.Kernels.Tensors = g.optimizer()
	return f
}

// sum adds up the units.
func (f *Features) sum(g *graph) {
	var perUnit []float64
	depth := make([]int, len(g.s.Values))
	shaped, units := 0, 0
	for i := range g.units {
		u := &g.units[i]
		w := g.cost(u)
		f.work = append(f.work, w)
		f.Kinds[u.kind]++
		f.MACs += u.macs * w.Repeat
		f.FlopsForward += w.Flops * w.Repeat
		f.FlopsBackward += w.BackFlops * w.Repeat
		f.BytesForward += w.Bytes * w.Repeat
		f.BytesBackward += w.BackBytes * w.Repeat
		f.Share[u.kind] += w.Flops * w.Repeat
		f.Kernels.Forward += int64(w.Kernels * w.Repeat)
		f.Kernels.Backward += int64(w.BackKernels * w.Repeat)
		f.RecurrentSteps += u.steps * u.repeat
		units++
		if g.shaped(u) {
			shaped++
		}
		deepest := 0
		for _, id := range u.in {
			deepest = max(deepest, depth[id])
		}
		if w.Kernels > 0 {
			f.Units++
			deepest++
			perUnit = append(perUnit, w.Flops)
		}
		for _, id := range u.out {
			depth[id] = deepest
		}
		f.Depth = max(f.Depth, deepest)
	}
	for kind, flops := range f.Share {
		f.Share[kind] = flops / max(f.FlopsForward, 1)
	}
	if units > 0 {
		f.Certain = float64(shaped) / float64(units)
	}
	f.Intensity = f.FlopsTraining() / max(f.BytesForward+f.BytesBackward, 1)
	f.FlopsPerUnit = spreadOf(perUnit)
}

func spreadOf(list []float64) Spread {
	if len(list) == 0 {
		return Spread{}
	}
	slices.Sort(list)
	at := func(q float64) float64 { return list[int(math.Round(q*float64(len(list)-1)))] }
	total := 0.0
	for _, v := range list {
		total += v
	}
	return Spread{total / float64(len(list)), at(0.1), at(0.5), at(0.9), list[len(list)-1]}
}

// largest orders activations by size, then name, and keeps five.
func largest(list []Activation) []Activation {
	slices.SortFunc(list, func(a, b Activation) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return slices.Clone(list[:min(5, len(list))])
}
