// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"fmt"
	"slices"
)

// maxDigits is the most nodes a measured placement may have.
const maxDigits = 32

// placement is the GPUs on each node, in rank order, 0 behind the last. Ranks
// form a ring, so a placement and its rotations are the same; canonical gives
// the smallest of them.
type placement [maxDigits]uint8

// exactKey determines the result for a measured placement.
type exactKey struct {
	placement placement
	local     int32
}

// times are those of one optimiser step, in seconds.
type times struct {
	step, sync float64 // sync is the part of step that is not hidden behind computing
}

// sample is a measurement of one placement.
type sample struct {
	local int
	times
}

// parsePlacement reads one digit for each node.
func parsePlacement(digits string) (p placement, ok bool) {
	if len(digits) == 0 || len(digits) > maxDigits {
		return p, false
	}
	for i := range len(digits) {
		if digits[i] < '1' || digits[i] > '9' {
			return p, false
		}
		p[i] = digits[i] - '0'
	}
	return p, true
}

// nodes returns the number of nodes.
func (p placement) nodes() int {
	if i := slices.Index(p[:], 0); i >= 0 {
		return i
	}
	return maxDigits
}

// gpus returns the number of GPUs.
func (p placement) gpus() int {
	n := 0
	for _, k := range p {
		n += int(k)
	}
	return n
}

// canonical returns the lexicographically smallest rotation.
func (p placement) canonical() placement {
	n := p.nodes()
	best, rotated := p, p
	for range n - 1 {
		first := rotated[0]
		copy(rotated[:n-1], rotated[1:n])
		rotated[n-1] = first
		if slices.Compare(rotated[:n], best[:n]) < 0 {
			best = rotated
		}
	}
	return best
}

// addPlacement adds a measurement. It returns false for a duplicate.
func (m *Model) addPlacement(p placement, local int, v times) bool {
	n, gpus := p.nodes(), p.gpus()
	c := p.canonical()
	samples := m.measured[c]
	i, taken := slices.BinarySearchFunc(samples, local, func(s sample, local int) int { return cmp.Compare(s.local, local) })
	if taken {
		return false
	}
	m.measured[c] = slices.Insert(samples, i, sample{local, v})
	m.longest = max(m.longest, n)
	m.surface.add(point{int64(n), int64(gpus), int64(local)}, v)
	return true
}

// Step returns the time of one optimiser step without accumulation, and the part of
// it that exchanges gradients and is not hidden behind computing: a gradient that is
// only accumulated takes step - sync. counts are the GPUs on each node in rank order;
// zeros are ignored. local is the batch of one GPU.
//
// A measured placement is interpolated linearly over the local batch, any other as
// the package documentation says. Anything outside the measurements is an error.
// Placements on more nodes than were measured count as being on the largest measured
// number.
func (m *Model) Step(counts []int, local int) (step, sync float64, err error) {
	if local < 1 || local > maxLocal {
		return 0, 0, fmt.Errorf("profile %s: local batch %d; want 1 to %d", m.name, local, maxLocal)
	}
	var p placement
	nodes, gpus, digits := 0, 0, true
	for _, k := range counts {
		if k == 0 {
			continue
		}
		if k < 0 || gpus+k > maxGPUs {
			return 0, 0, fmt.Errorf("profile %s: GPUs by node = %v; want 0 or more each, and at most %d in all", m.name, counts, maxGPUs)
		}
		if nodes < m.longest && k <= 9 {
			p[nodes] = uint8(k)
		} else {
			digits = false
		}
		nodes++
		gpus += k
	}
	if nodes == 0 {
		return 0, 0, fmt.Errorf("profile %s: GPUs by node = %v; want at least one", m.name, counts)
	}
	var v times
	if digits {
		v, err = m.stepOf(p, gpus, local)
	} else {
		v, err = m.stepNear(nodes, gpus, local)
	}
	return v.step, v.sync, err
}

// stepOf returns the times of a placement that may have been measured.
func (m *Model) stepOf(p placement, gpus, local int) (times, error) {
	key := exactKey{p, int32(local)}
	if v, ok := m.byPlacement[key]; ok {
		return v, nil
	}
	samples, ok := m.measured[p.canonical()]
	if !ok {
		return m.stepNear(p.nodes(), gpus, local)
	}
	v, ok := along(samples, local)
	if !ok {
		return times{}, fmt.Errorf("profile %s: local batch %d on placement %v; measured from %d to %d",
			m.name, local, p[:p.nodes()], samples[0].local, samples[len(samples)-1].local)
	}
	m.byPlacement[key] = v
	return v, nil
}

// stepNear returns the times of a placement that was not measured.
func (m *Model) stepNear(nodes, gpus, local int) (times, error) {
	q := point{min(int64(nodes), m.surface.most[0]), int64(gpus), int64(local)}
	if v, ok := m.byShape[q]; ok {
		return v, nil
	}
	v, ok := m.surface.at(q)
	if !ok {
		least, most := m.surface.least, m.surface.most
		return times{}, fmt.Errorf("profile %s: %d GPUs on %d nodes with local batch %d are outside the measurements, which span %d to %d nodes, %d to %d GPUs and local batches %d to %d",
			m.name, gpus, nodes, local, least[0], most[0], least[1], most[1], least[2], most[2])
	}
	m.byShape[q] = v
	return v, nil
}

// along interpolates over the local batch. ok is false outside the samples.
func along(samples []sample, local int) (v times, ok bool) {
	i, exact := slices.BinarySearchFunc(samples, local, func(s sample, local int) int { return cmp.Compare(s.local, local) })
	switch {
	case exact:
		return samples[i].times, true
	case i == 0 || i == len(samples):
		return times{}, false
	}
	a, b := samples[i-1], samples[i]
	w := float64(local-a.local) / float64(b.local-a.local)
	return times{a.step + w*(b.step-a.step), a.sync + w*(b.sync-a.sync)}, true
}
