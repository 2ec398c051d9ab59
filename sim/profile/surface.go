// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"maps"
	"slices"
)

// surface is step time over nodes, GPUs and local batch.
type surface struct {
	sums        map[point]sum
	least, most point // of each coordinate

	built bool
	mesh  *mesh // nil: the points lie in one plane
	value []times
}

// sum is the mean of measurements with the same coordinates: placements that differ
// only in how the GPUs are spread over the nodes.
type sum struct {
	times
	n float64
}

func (s *surface) add(p point, v times) {
	if s.sums == nil {
		s.sums = map[point]sum{}
		s.least, s.most = p, p
	}
	for i, x := range p {
		s.least[i], s.most[i] = min(s.least[i], x), max(s.most[i], x)
	}
	old := s.sums[p]
	s.sums[p] = sum{times{old.step + v.step, old.sync + v.sync}, old.n + 1}
}

// build triangulates the points. It runs on first use: most jobs never run on a
// placement that was not measured.
func (s *surface) build() {
	s.built = true
	points := slices.SortedFunc(maps.Keys(s.sums), func(a, b point) int { return slices.Compare(a[:], b[:]) })
	mesh, ok := newMesh(points)
	if !ok {
		return
	}
	s.mesh = mesh
	s.value = make([]times, len(points))
	for i, p := range points {
		v := s.sums[p]
		s.value[i] = times{v.step / v.n, v.sync / v.n}
	}
}

// at interpolates. ok is false outside the hull of the points. The search always
// starts at the same place: on the border of two tetrahedra it may find either, and
// the last bits of the result must not depend on earlier calls.
func (s *surface) at(q point) (v times, ok bool) {
	if !s.built {
		s.build()
	}
	if s.mesh == nil {
		return v, false
	}
	t, inside := s.mesh.walk(q)
	if !inside {
		return v, false
	}
	corners := s.mesh.tets[t].corner
	volume := 0.0
	for i, c := range corners {
		w := float64(s.mesh.orientWith(corners, i, q)) // volume of the part opposite to the corner
		v.step += w * s.value[c].step
		v.sync += w * s.value[c].sync
		volume += w
	}
	return times{v.step / volume, v.sync / volume}, true
}
