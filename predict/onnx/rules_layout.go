// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "math"

// reshape: a 0 in the target copies the input's dimension (unless allowzero); a
// single -1 takes the rest.
func reshape(c *call) {
	in := c.dims(0)
	target := c.Ints("shape")
	if target == nil {
		d := c.data(1)
		if d == nil || d.ints == nil {
			if rank := c.dims(1); len(rank) == 1 && rank[0] >= 0 && rank[0] <= maxRank {
				c.set(0, c.typ(0), unknownDims(int(rank[0])))
			} else {
				c.set(0, c.typ(0), nil)
			}
			return
		}
		target = d.ints
	}
	if len(target) > maxRank {
		c.misfit("the target has too many dimensions")
		return
	}
	c.set(0, c.typ(0), c.reshaped(in, target))
}

func unknownDims(rank int) []int64 {
	dims := make([]int64, rank)
	for i := range dims {
		dims[i] = -1
	}
	return dims
}

// reshaped resolves a target of Reshape.
func (c *call) reshaped(in, target []int64) []int64 {
	out, open := clone(target), -1
	for i, n := range target {
		switch {
		case n == 0 && c.Int("allowzero", 0) == 0:
			out[i] = -1
			if i < len(in) {
				out[i] = in[i]
			}
		case n == -1 || n == unknownInt:
			out[i] = -1
		case n < -1:
			c.misfit("the target has a negative size")
			return nil
		}
		if out[i] == -1 {
			if open >= 0 {
				open = -2
			} else if open == -1 {
				open = i
			}
		}
	}
	total := product(in)
	if in == nil || total < 0 || open == -2 {
		return nonNil(out)
	}
	if open >= 0 {
		return c.fillOpen(out, open, total)
	}
	if product(out) != total {
		if fixed := c.e.rescale(c.in[0], out); fixed != nil && product(fixed) == total {
			return fixed
		}
		c.misfit("the target has another number of elements")
	}
	return nonNil(out)
}

// fillOpen computes the one open dimension. If the division leaves a remainder, or
// the open dimension would absorb a growth of the batch that the target has fixed
// elsewhere, the target is rescaled first.
func (c *call) fillOpen(out []int64, open int, total int64) []int64 {
	base := c.e.base[c.in[0].Name]
	if base != nil && len(c.out) > 0 {
		if old := c.e.base[c.out[0].Name]; len(old) == len(out) && c.e.growth(c.in[0]) >= 0 {
			if grown := c.e.rescale(c.in[0], old); grown != nil && product(grown) == total && frozen(out, old) {
				return grown
			}
		}
	}
	others := int64(1)
	for i, n := range out {
		if i != open {
			others = times(others, n)
		}
	}
	if others > 0 && total%others == 0 {
		out[open] = total / others
	} else if others > 0 {
		c.misfit("the target does not divide the elements")
	}
	return out
}

// frozen reports whether every size in a target equals the one at the recorded
// batch.
func frozen(target, old []int64) bool {
	for i, n := range target {
		if n >= 0 && n != old[i] {
			return false
		}
	}
	return true
}

func flatten(c *call) {
	in := c.dims(0)
	if in == nil {
		c.set(0, c.typ(0), []int64{-1, -1})
		return
	}
	a := c.Int("axis", 1)
	if a < 0 {
		a += int64(len(in))
	}
	if a < 0 || a > int64(len(in)) {
		return
	}
	c.set(0, c.typ(0), []int64{product(in[:a]), product(in[a:])})
}

func squeeze(c *call) {
	in := c.dims(0)
	axes, given, ok := c.list("axes", 1)
	if in == nil || !ok {
		return
	}
	drop := map[int]bool{}
	for _, a := range axes {
		i, ok := axis(a, len(in))
		if !ok {
			c.misfit("axis out of range")
			return
		}
		drop[i] = true
	}
	out := []int64{}
	for i, n := range in {
		if given && !drop[i] || !given && n != 1 {
			out = append(out, n)
		}
	}
	c.set(0, c.typ(0), out)
}

func unsqueeze(c *call) {
	in := c.dims(0)
	axes, _, ok := c.list("axes", 1)
	if in == nil || !ok || len(in)+len(axes) > maxRank {
		return
	}
	rank := len(in) + len(axes)
	out := make([]int64, rank)
	for _, a := range axes {
		i, ok := axis(a, rank)
		if !ok || out[i] == 1 {
			c.misfit("axis out of range or twice")
			return
		}
		out[i] = 1
	}
	next := 0
	for i := range out {
		if out[i] == 0 {
			out[i] = in[next]
			next++
		}
	}
	c.set(0, c.typ(0), out)
}

// permutation returns the order of axes of a Transpose; nil if it is not a
// permutation.
func permutation(perm []int64, rank int) []int {
	out := make([]int, rank)
	for i := range out {
		out[i] = rank - 1 - i
	}
	if perm == nil {
		return out
	}
	if len(perm) != rank {
		return nil
	}
	seen := make([]bool, rank)
	for i, p := range perm {
		if p < 0 || p >= int64(rank) || seen[p] {
			return nil
		}
		seen[p], out[i] = true, int(p)
	}
	return out
}

func transpose(c *call) {
	in := c.dims(0)
	if in == nil {
		return
	}
	order := permutation(c.Ints("perm"), len(in))
	if order == nil {
		c.misfit("perm does not fit the rank")
		return
	}
	out := make([]int64, len(in))
	for i, p := range order {
		out[i] = in[p]
	}
	c.set(0, c.typ(0), out)
}

// cut is one axis of a Slice: from start, count elements, step apart.
type cut struct{ start, step, count int64 }

// cuts resolves a Slice against the input's dimensions; ok is false if the bounds
// are unknown.
func (c *call) cuts() (cuts []cut, ok bool) {
	in := c.dims(0)
	starts, _, okStarts := c.list("starts", 1)
	ends, _, okEnds := c.list("ends", 2)
	axes, givenAxes, okAxes := c.list("axes", 3)
	steps, givenSteps, okSteps := c.list("steps", 4)
	if in == nil || !okAxes || givenAxes && len(axes) < len(starts) {
		return nil, false
	}
	cuts = make([]cut, len(in))
	for i, n := range in {
		cuts[i] = cut{0, 1, n}
	}
	if !okStarts || !okEnds || !okSteps || len(starts) != len(ends) || givenSteps && len(steps) < len(starts) {
		// The cut axes are unknown, the others unchanged.
		for i := range cuts {
			if !givenAxes {
				cuts[i].count = -1
			}
		}
		for _, a := range axes {
			if i, ok := axis(a, len(in)); ok {
				cuts[i].count = -1
			}
		}
		return cuts, true
	}
	for k := range starts {
		a, step := int64(k), int64(1)
		if givenAxes {
			a = axes[k]
		}
		if givenSteps {
			step = steps[k]
		}
		i, ok := axis(a, len(in))
		if !ok || step == 0 || step == math.MinInt64 {
			return nil, false
		}
		cuts[i] = cutAxis(in[i], starts[k], ends[k], step)
	}
	return cuts, true
}

// cutAxis resolves one axis: negative bounds count from the end, bounds out of
// range are clamped.
func cutAxis(size, start, end, step int64) cut {
	if size < 0 {
		return cut{0, step, -1}
	}
	if start < 0 {
		start += size
	}
	if end < 0 {
		end = max(end, -size-1) + size
	}
	if step > 0 {
		start, end = clamp(start, 0, size), clamp(end, 0, size)
		return cut{start, step, max(0, (end-start-1)/step+1) * boolInt(end > start)}
	}
	start, end = clamp(start, -1, size-1), clamp(end, -1, size-1)
	return cut{start, step, max(0, (start-end-1)/-step+1) * boolInt(start > end)}
}

func clamp(n, low, high int64) int64 { return max(low, min(n, high)) }

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func slice(c *call) {
	cuts, ok := c.cuts()
	if !ok {
		return
	}
	out := make([]int64, len(cuts))
	for i, k := range cuts {
		out[i] = k.count
	}
	c.set(0, c.typ(0), out)
}
