// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"slices"
)

// minimise returns a local minimum of f near start, by the method of Nelder and
// Mead; width is the size of the first simplex.
func minimise(f func([]float64) float64, start []float64, width float64) []float64 {
	n := len(start)
	simplex := make([]vertex, n+1)
	for i := range simplex {
		x := slices.Clone(start)
		if i > 0 {
			x[i-1] += width
		}
		simplex[i] = vertex{x, f(x)}
	}
	for range 150 * n {
		slices.SortStableFunc(simplex, func(a, b vertex) int { return cmp.Compare(a.y, b.y) })
		best, worst := simplex[0], simplex[n]
		if worst.y-best.y < 1e-10 {
			break
		}
		centre := centroid(simplex[:n])
		try := func(t float64) vertex {
			x := make([]float64, n)
			for k := range x {
				x[k] = centre[k] + t*(worst.x[k]-centre[k])
			}
			return vertex{x, f(x)}
		}
		next := try(-1)
		switch {
		case next.y < best.y:
			if further := try(-2); further.y < next.y {
				next = further
			}
		case next.y >= simplex[n-1].y:
			if next.y < worst.y {
				next = lower(next, try(-0.5))
			} else {
				next = try(0.5)
			}
		}
		if next.y < worst.y {
			simplex[n] = next
			continue
		}
		for i := 1; i <= n; i++ { // shrink towards the best
			for k := range best.x {
				simplex[i].x[k] = (simplex[i].x[k] + best.x[k]) / 2
			}
			simplex[i].y = f(simplex[i].x)
		}
	}
	return slices.MinFunc(simplex, func(a, b vertex) int { return cmp.Compare(a.y, b.y) }).x
}

// vertex is a point and the value of the function there.
type vertex struct {
	x []float64
	y float64
}

func lower(a, b vertex) vertex {
	if b.y < a.y {
		return b
	}
	return a
}

func centroid(of []vertex) []float64 {
	c := make([]float64, len(of[0].x))
	for _, v := range of {
		for k, x := range v.x {
			c[k] += x / float64(len(of))
		}
	}
	return c
}
