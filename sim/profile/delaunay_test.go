// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawPoints draws points on a small grid: many lie on one sphere, in one
// plane or on one line.
func drawPoints(t *rapid.T) []point {
	side := rapid.Int64Range(1, 6).Draw(t, "side")
	stretch := rapid.SampledFrom([]int64{1, 7, 1000, 1 << 19}).Draw(t, "stretch")
	points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) point {
		return point{
			rapid.Int64Range(0, side).Draw(t, "x"),
			rapid.Int64Range(0, side).Draw(t, "y"),
			rapid.Int64Range(0, side).Draw(t, "z") * stretch,
		}
	}), 4, 40).Draw(t, "points")
	slices.SortFunc(points, func(a, b point) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(points)
}

// corners returns the corners of all tetrahedra inside the hull, in an order
// that does not depend on how the mesh was built.
func (m *mesh) corners() [][4]int32 {
	var out [][4]int32
	for _, t := range m.tets {
		if t.state == live && !slices.Contains(t.corner[:], infinity) {
			c := t.corner
			slices.Sort(c[:])
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b [4]int32) int { return slices.Compare(a[:], b[:]) })
	return out
}

// strictlyInside is the sphere test without perturbation, in arithmetic that
// cannot overflow: a second opinion.
func strictlyInside(a, b, c, d, e point) bool {
	sum := new(big.Int)
	term := func(x, y, z, w point, sign int64) {
		det := new(big.Int)
		for _, p := range [][4]int64{{x[0], y[1], z[2], 1}, {x[1], y[2], z[0], 1}, {x[2], y[0], z[1], 1}, {x[2], y[1], z[0], -1}, {x[1], y[0], z[2], -1}, {x[0], y[2], z[1], -1}} {
			f := big.NewInt(p[3])
			for _, q := range p[:3] {
				f.Mul(f, big.NewInt(q))
			}
			det.Add(det, f)
		}
		norm := new(big.Int)
		for _, q := range w {
			norm.Add(norm, new(big.Int).Mul(big.NewInt(q), big.NewInt(q)))
		}
		sum.Add(sum, det.Mul(det, norm).Mul(det, big.NewInt(sign)))
	}
	a, b, c, d = a.sub(e), b.sub(e), c.sub(e), d.sub(e)
	term(a, b, c, d, 1)
	term(d, a, b, c, -1)
	term(c, d, a, b, 1)
	term(b, c, d, a, -1)
	return sum.Sign() > 0
}

func TestMeshIsDelaunay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, ok := newMesh(drawPoints(t))
		if !ok {
			return
		}
		used := map[int32]bool{}
		for i, x := range m.tets {
			if x.state != live {
				continue
			}
			for k, n := range x.across {
				if !slices.Contains(m.tets[n].across[:], int32(i)) || m.tets[n].state != live {
					t.Fatalf("tetrahedron %d has neighbour %d, which does not have it", i, n)
				}
				shared := 0
				for _, c := range m.tets[n].corner {
					if slices.Contains(x.corner[:], c) && c != x.corner[k] {
						shared++
					}
				}
				if shared != 3 {
					t.Fatalf("tetrahedra %d and %d share %d corners", i, n, shared)
				}
			}
			if slices.Contains(x.corner[:], infinity) {
				continue
			}
			var p [4]point
			for k, c := range x.corner {
				p[k] = m.points[c]
				used[c] = true
			}
			if orient(p[0], p[1], p[2], p[3]) <= 0 {
				t.Fatalf("tetrahedron %v is flat or turned inside out", p)
			}
			for _, e := range m.points {
				if strictlyInside(p[0], p[1], p[2], p[3], e) {
					t.Fatalf("point %v lies inside the sphere of %v", e, p)
				}
			}
		}
		if len(used) != len(m.points) {
			t.Errorf("%d of %d points are corners", len(used), len(m.points))
		}
	})
}

// The tetrahedra fill the hull without gap or overlap: their volume is the one
// that the facets of the hull enclose.
func TestMeshFillsTheHull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, ok := newMesh(drawPoints(t))
		if !ok {
			return
		}
		var inner, hull int64
		for _, x := range m.tets {
			at := slices.Index(x.corner[:], infinity)
			switch {
			case x.state != live:
			case at < 0:
				inner += m.orientWith(x.corner, 0, m.points[x.corner[0]])
			default:
				hull -= m.orientWith(x.corner, at, point{})
			}
		}
		if inner != hull {
			t.Errorf("the tetrahedra have volume %d/6, the hull %d/6", inner, hull)
		}
	})
}

// The same points give the same mesh, in whatever order they are added.
func TestMeshDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		want, ok := newMesh(points)
		if !ok {
			return
		}
		got := &mesh{points: points, edges: map[[2]int32]facet{}}
		first, _ := got.span()
		got.begin(first)
		order := make([]int32, 0, len(points))
		for i := range points {
			if !slices.Contains(first[:], int32(i)) {
				order = append(order, int32(i))
			}
		}
		for _, i := range rapid.Permutation(order).Draw(t, "order") {
			got.insert(i)
		}
		if diff := cmp.Diff(want.corners(), got.corners()); diff != "" {
			t.Errorf("mesh (-in order +shuffled):\n%s", diff)
		}
	})
}

// A linear function is interpolated exactly, whatever the mesh.
func TestSurfaceIsLinear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		var a [4]int64
		for i := range a {
			a[i] = rapid.Int64Range(-9, 9).Draw(t, "a")
		}
		value := func(p point) float64 { return float64(a[0]*p[0] + a[1]*p[1] + a[2]*p[2] + a[3]) }
		var s surface
		for _, p := range points {
			s.add(p, times{step: value(p), sync: -value(p)})
		}
		i := rapid.IntRange(0, len(points)-1).Draw(t, "i")
		j := rapid.IntRange(0, len(points)-1).Draw(t, "j")
		q := point{(points[i][0] + points[j][0]) / 2, (points[i][1] + points[j][1]) / 2, (points[i][2] + points[j][2]) / 2}
		v, ok := s.at(q)
		if !ok {
			if s.mesh != nil && i == j {
				t.Errorf("point %v lies outside", q)
			}
			return
		}
		if want := value(q); max(v.step-want, want-v.step, v.sync+want, -want-v.sync) > 1e-6 {
			t.Errorf("at %v: got %v, want %v and %v", q, v, want, -want)
		}
	})
}

func TestMeshOfFlatPoints(t *testing.T) {
	for name, points := range map[string][]point{
		"none":  nil,
		"three": {{0, 0, 0}, {0, 1, 0}, {1, 0, 0}},
		"line":  {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}},
		"plane": {{0, 0, 5}, {0, 1, 5}, {1, 0, 5}, {1, 1, 5}, {2, 7, 5}},
	} {
		if _, ok := newMesh(points); ok {
			t.Errorf("%s: a mesh of points in one plane", name)
		}
	}
}

func TestWide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w wide
		want := new(big.Int)
		for range 4 {
			x := rapid.Int64Range(-1<<62, 1<<62).Draw(t, "x")
			y := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "y")
			w.addProduct(x, y)
			want.Add(want, new(big.Int).Mul(big.NewInt(x), big.NewInt(y)))
		}
		if got := w.sign(); got != want.Sign() {
			t.Errorf("sign %d, want %d of %v", got, want.Sign(), want)
		}
	})
}
