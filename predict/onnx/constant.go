// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "math"

// unknownInt marks an element of an integer constant that is not known, such
// as the size of an open dimension that went through Shape.
const unknownInt = math.MinInt64

// constant holds the elements of a small tensor, ints or floats by its type.
type constant struct {
	ints   []int64
	floats []float64
}

// constantOf returns the elements of a tensor, nil when they were skipped.
func constantOf(t *Tensor) *constant {
	if t.Ints == nil && t.Floats == nil {
		return nil
	}
	return &constant{t.Ints, t.Floats}
}

func (k *constant) count() int { return max(len(k.ints), len(k.floats)) }

// float returns an element as a float; NaN when not known.
func (k *constant) float(i int) float64 {
	if k.ints == nil {
		return k.floats[i]
	}
	if k.ints[i] == unknownInt {
		return math.NaN()
	}
	return float64(k.ints[i])
}

// whole reports whether all elements are known integers.
func (k *constant) whole() bool {
	for _, n := range k.ints {
		if n == unknownInt {
			return false
		}
	}
	return k.ints != nil
}

// single reports whether k is one known number.
func (k *constant) single() bool {
	return k != nil && k.count() == 1 && !math.IsNaN(k.float(0))
}

// asDims turns integers into dimensions, unknown ones into -1.
func (k *constant) asDims() []int64 {
	dims := make([]int64, len(k.ints))
	for i, n := range k.ints {
		dims[i] = clamp(n, -1, maxElements+1)
	}
	return dims
}

// pick returns the elements at some indices.
func (k *constant) pick(indices []int) *constant {
	out := &constant{}
	if k.ints != nil {
		out.ints = make([]int64, len(indices))
		for i, at := range indices {
			out.ints[i] = k.ints[at]
		}
		return out
	}
	out.floats = make([]float64, len(indices))
	for i, at := range indices {
		out.floats[i] = k.floats[at]
	}
	return out
}

func ceil(f float64) float64 { return math.Ceil(f - 1e-9) }

// strides returns how far apart neighbours along each axis lie.
func strides(dims []int64) []int {
	out, step := make([]int, len(dims)), 1
	for i := len(dims) - 1; i >= 0; i-- {
		out[i] = step
		step *= int(max(dims[i], 1))
	}
	return out
}

// walk lists, for every element of a tensor of dims in order, base plus the
// sum of its coordinates times steps. The caller has bounded the number of
// elements.
func walk(dims []int64, steps []int, base int) []int {
	at := make([]int64, len(dims))
	out := make([]int, 0, product(dims))
	if product(dims) <= 0 {
		return out
	}
	pos := base
	for {
		out = append(out, pos)
		i := len(dims) - 1
		for ; i >= 0; i-- {
			at[i]++
			pos += steps[i]
			if at[i] < dims[i] {
				break
			}
			pos -= int(dims[i]) * steps[i]
			at[i] = 0
		}
		if i < 0 {
			return out
		}
	}
}

// stretch broadcasts a constant of some dimensions to others; nil when it is
// empty or does not broadcast, as may be where sizes were reconciled.
func (k *constant) stretch(from, to []int64) *constant {
	steps, own := make([]int, len(to)), strides(from)
	for i, n := range from {
		j := len(to) - len(from) + i
		switch {
		case j < 0 || n == 0 || n != 1 && n != to[j]:
			return nil
		case n != 1:
			steps[j] = own[i]
		}
	}
	return k.pick(walk(to, steps, 0))
}
