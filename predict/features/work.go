// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

// Work is the cost of one unit, for sums that depend on a device. Figures are for
// one run; the unit runs Repeat times in a step.
type Work struct {
	Kind   Kind
	Name   string // operator, or the name of the pattern
	Repeat float64

	Flops, Bytes, Kernels             float64 // forward
	BackFlops, BackBytes, BackKernels float64 // backward

	// Fill is the part of BackBytes that zeroes the gradient of a table.
	Fill float64
	// Copies is the number of launches, both ways, that only reorder operands in
	// memory, CopyBytes their traffic. The figures above and the sums in Features
	// do not include them.
	Copies, CopyBytes float64
	// Casts is the number of operands, and their gradients, that autocast copies into
	// another precision.
	Casts float64
	// Again is set for units whose forward pass runs once more in the backward pass.
	Again bool
	// Static is set for units that no input reaches: they work only on parameters.
	Static bool

	// Results is the number of elements that a unit writes. Of a product: Inner is
	// the length of the sum for each, Groups its independent parts, In and Out the
	// channels of a part on either side. Of a lookup, Out is the width of a row.
	Results, Inner  float64
	Groups, In, Out float64
}

// Runs is the number of forward passes in a step.
func (w Work) Runs() float64 {
	if w.Again {
		return 2
	}
	return 1
}

// Work lists the units of the graph in order of execution, and one unit for the
// loss of each output, which the graph and the sums in Features lack. The caller
// must not change it.
func (f *Features) Work() []Work { return f.work }

// lossWork is the cost of comparing an output with its target: a cross entropy
// normalises a copy and picks from it, and does the same backward.
func (g *graph) lossWork() []Work {
	var list []Work
	for _, id := range g.s.Outputs {
		if !g.grad[id] {
			continue
		}
		v := g.s.Values[id]
		n, bytes := float64(v.Elements()), float64(v.Bytes())
		list = append(list, Work{Kind: Loss, Name: "CrossEntropy", Repeat: 1, Flops: 5 * n, Bytes: 2 * bytes, Kernels: 2,
			BackFlops: 5 * n, BackBytes: 4 * bytes, BackKernels: 3, Results: n, Groups: 1})
	}
	return list
}
