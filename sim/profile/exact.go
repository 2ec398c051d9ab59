// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import "math/bits"

// point is a point in the space of measurements: nodes, GPUs, local batch. The
// coordinates are bounded whole numbers (see the limits of the tables), so that every
// geometric predicate below is exact.
type point [3]int64

func (p point) sub(q point) point { return point{p[0] - q[0], p[1] - q[1], p[2] - q[2]} }

// norm returns the square of the length.
func (p point) norm() int64 { return p[0]*p[0] + p[1]*p[1] + p[2]*p[2] }

func det(a, b, c point) int64 {
	return a[0]*(b[1]*c[2]-b[2]*c[1]) + a[1]*(b[2]*c[0]-b[0]*c[2]) + a[2]*(b[0]*c[1]-b[1]*c[0])
}

// orient returns six times the volume of the tetrahedron, positive if a, b, c
// turn counter-clockwise as seen from d, and 0 if the four lie in a plane.
func orient(a, b, c, d point) int64 { return det(a.sub(d), b.sub(d), c.sub(d)) }

// wide is a signed number of 128 bits.
type wide struct{ hi, lo uint64 }

// addProduct adds x*y.
func (w *wide) addProduct(x, y int64) {
	negative := (x < 0) != (y < 0)
	hi, lo := bits.Mul64(magnitude(x), magnitude(y))
	var carry uint64
	if negative {
		w.lo, carry = bits.Sub64(w.lo, lo, 0)
		w.hi, _ = bits.Sub64(w.hi, hi, carry)
		return
	}
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi, _ = bits.Add64(w.hi, hi, carry)
}

// sign returns -1, 0 or 1.
func (w wide) sign() int {
	switch {
	case int64(w.hi) < 0:
		return -1
	case w.hi == 0 && w.lo == 0:
		return 0
	}
	return 1
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return uint64(-x)
	}
	return uint64(x)
}
