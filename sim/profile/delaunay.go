// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import "slices"

// mesh is the Delaunay triangulation of points in space: tetrahedra that fill
// the hull of the points, such that no point lies inside the sphere through
// the corners of a tetrahedron. Values given at the points are interpolated
// linearly within a tetrahedron.
//
// Measurements lie on a grid, and many points of a grid lie on one sphere: then the
// triangulation is not unique. This one results if the heights of the points on that
// sphere were raised by infinitely small amounts, each much smaller than that of the
// point before it (a symbolic perturbation). It depends only on the points: neither
// on the order in which they are added nor on rounding.
//
// The mesh is built by the method of Bowyer and Watson. Tetrahedra with a corner at
// infinity fill the space outside the hull, so that no point is a special case.
type mesh struct {
	points []point // ascending, without duplicates
	tets   []tet
	free   []int32 // unused tets
	last   int32   // the newest tetrahedron inside the hull: searches start there

	cavity []int32            // scratch space of insert
	edges  map[[2]int32]facet // scratch space of insert
}

// tet is a tetrahedron. Its corners are ordered so that orient is positive; the
// corner at infinity counts as far outside. across[i] is the neighbour opposite to
// corner i.
type tet struct {
	corner [4]int32
	across [4]int32
	state  tetState
}

type tetState uint8

const (
	live tetState = iota
	inCavity
	dead
)

// infinity is the index of the corner at infinity.
const infinity = -1

// facet is the side of a tetrahedron opposite to one of its corners.
type facet struct {
	tet    int32
	corner int
}

// newMesh triangulates the points, which must be ascending without
// repetitions. ok is false if all of them lie in one plane.
func newMesh(points []point) (m *mesh, ok bool) {
	m = &mesh{points: points, edges: map[[2]int32]facet{}}
	first, ok := m.span()
	if !ok {
		return nil, false
	}
	m.begin(first)
	for i := range points {
		if !slices.Contains(first[:], int32(i)) {
			m.insert(int32(i))
		}
	}
	return m, true
}

// span returns four points that do not lie in one plane.
func (m *mesh) span() (first [4]int32, ok bool) {
	p := m.points
	if len(p) < 4 {
		return first, false
	}
	a, b := p[0], p[1]
	for c := 2; c < len(p); c++ {
		if u, v := b.sub(a), p[c].sub(a); u[1]*v[2] == u[2]*v[1] && u[2]*v[0] == u[0]*v[2] && u[0]*v[1] == u[1]*v[0] {
			continue // on one line
		}
		for d := c + 1; d < len(p); d++ {
			switch o := orient(a, b, p[c], p[d]); {
			case o > 0:
				return [4]int32{0, 1, int32(c), int32(d)}, true
			case o < 0:
				return [4]int32{1, 0, int32(c), int32(d)}, true
			}
		}
		return first, false // all in the plane of the first three
	}
	return first, false
}

// begin creates the first tetrahedron and the four outside of it.
func (m *mesh) begin(corner [4]int32) {
	m.tets = []tet{{corner: corner}}
	for i := range 4 {
		out := tet{corner: corner}
		out.corner[i] = infinity
		j, k := (i+1)%4, (i+2)%4
		out.corner[j], out.corner[k] = out.corner[k], out.corner[j]
		m.tets = append(m.tets, out)
		m.tets[0].across[i] = int32(i + 1)
	}
	// Two outer tetrahedra i and j share the facet that lies opposite to the
	// corner that i has and j lacks.
	for i := range 4 {
		out := &m.tets[i+1]
		for k, c := range out.corner {
			if c == infinity {
				out.across[k] = 0
				continue
			}
			out.across[k] = int32(slices.Index(corner[:], c) + 1)
		}
	}
}

// insert adds a point: it removes the tetrahedra whose spheres contain it, and fills
// the cavity with tetrahedra that have the new point as a corner.
func (m *mesh) insert(p int32) {
	m.carve(p)
	clear(m.edges)
	for _, t := range m.cavity {
		for i := range 4 {
			out := m.tets[t].across[i]
			if m.tets[out].state == inCavity {
				continue
			}
			fresh := tet{corner: m.tets[t].corner}
			fresh.corner[i] = p
			fresh.across[i] = out
			f := m.add(fresh)
			back := slices.Index(m.tets[out].across[:], t)
			m.tets[out].across[back] = f
			m.join(f, i)
			if !slices.Contains(fresh.corner[:], infinity) {
				m.last = f
			}
		}
	}
	for _, t := range m.cavity {
		m.tets[t].state = dead
		m.free = append(m.free, t)
	}
}

// carve finds the tetrahedra in conflict with a point.
func (m *mesh) carve(p int32) {
	start, _ := m.walk(m.points[p])
	m.tets[start].state = inCavity
	m.cavity = append(m.cavity[:0], start)
	for next := 0; next < len(m.cavity); next++ {
		for _, n := range m.tets[m.cavity[next]].across {
			if m.tets[n].state == live && m.conflict(n, p) {
				m.tets[n].state = inCavity
				m.cavity = append(m.cavity, n)
			}
		}
	}
}

func (m *mesh) add(t tet) int32 {
	if n := len(m.free); n > 0 {
		at := m.free[n-1]
		m.free = m.free[:n-1]
		m.tets[at] = t
		return at
	}
	m.tets = append(m.tets, t)
	return int32(len(m.tets) - 1)
}

// join links a new tetrahedron with the other new ones. apex is the position
// of the new point among its corners; the facets with the new point are known
// by the edge opposite to it.
func (m *mesh) join(f int32, apex int) {
	for j := range 4 {
		if j == apex {
			continue
		}
		var edge [2]int32
		n := 0
		for k, c := range m.tets[f].corner {
			if k != j && k != apex {
				edge[n] = c
				n++
			}
		}
		if edge[0] > edge[1] {
			edge[0], edge[1] = edge[1], edge[0]
		}
		if other, ok := m.edges[edge]; ok {
			m.tets[f].across[j] = other.tet
			m.tets[other.tet].across[other.corner] = f
		} else {
			m.edges[edge] = facet{f, j}
		}
	}
}

// walk returns the tetrahedron that contains q. inside is false if q lies outside the
// hull; the tetrahedron is then one with a corner at infinity that sees q.
func (m *mesh) walk(q point) (t int32, inside bool) {
	t = m.last
	for {
		next := int32(-1)
		corners := m.tets[t].corner
		for i := range 4 {
			if m.orientWith(corners, i, q) < 0 {
				next = m.tets[t].across[i]
				break
			}
		}
		switch {
		case next < 0:
			return t, true
		case slices.Contains(m.tets[next].corner[:], infinity):
			return next, false
		}
		t = next
	}
}

// orientWith returns the orientation of a tetrahedron with q in the place of
// one of its corners.
func (m *mesh) orientWith(corners [4]int32, at int, q point) int64 {
	var c [4]point
	for i, n := range corners {
		if i == at {
			c[i] = q
		} else {
			c[i] = m.points[n]
		}
	}
	return orient(c[0], c[1], c[2], c[3])
}

// conflict reports whether the sphere of a tetrahedron contains a point. That of an
// outer one is the half space beyond its finite facet; in the plane of the facet its
// inner neighbour decides.
func (m *mesh) conflict(t, p int32) bool {
	corners := m.tets[t].corner
	at := slices.Index(corners[:], infinity)
	if at < 0 {
		return m.inSphere(corners, p)
	}
	o := m.orientWith(corners, at, m.points[p])
	return o > 0 || (o == 0 && m.conflict(m.tets[t].across[at], p))
}

// inSphere reports whether a point lies inside the sphere through four others.
// It never lies on it: the perturbation decides.
func (m *mesh) inSphere(corners [4]int32, p int32) bool {
	e := m.points[p]
	a, b := m.points[corners[0]].sub(e), m.points[corners[1]].sub(e)
	c, d := m.points[corners[2]].sub(e), m.points[corners[3]].sub(e)
	// The determinant of the points lifted onto a paraboloid, expanded along
	// their heights. minor[i] is what a small rise of corner i adds to it.
	minor := [4]int64{-det(b, c, d), det(c, d, a), -det(d, a, b), det(a, b, c)}
	var sum wide
	for i, x := range [4]point{a, b, c, d} {
		sum.addProduct(minor[i], x.norm())
	}
	if s := sum.sign(); s != 0 {
		return s > 0
	}
	return m.tie(corners, p, minor)
}

// tie decides for five points on one sphere: by the first of them whose perturbation
// matters.
func (m *mesh) tie(corners [4]int32, p int32, minor [4]int64) bool {
	first, effect := p, -(minor[0] + minor[1] + minor[2] + minor[3])
	for i, c := range corners {
		if c < first && minor[i] != 0 {
			first, effect = c, minor[i]
		}
	}
	return effect > 0
}
