// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import "slices"

// mutate changes a matrix at random: some rows return to what the jobs have,
// some lose entries, and entries of nodes that are not full grow.
func (h *herd) mutate(m matrix) {
	const reset, thin, lose = 0.1, 0.1, 0.1 // probabilities
	for i := range h.jobs {
		cells := h.cells(m, i)
		if h.rng.Float64() < reset {
			copy(cells, h.cells(h.now, i))
		}
		if h.rng.Float64() < thin {
			for n, k := range cells {
				if k > 0 && h.rng.Float64() < lose {
					cells[n] = 0
				}
			}
		}
	}
	for n := range h.nodes {
		h.grow(m, n)
	}
}

// grow lets entries of a node with free GPUs grow at random: each with a
// probability of one in all jobs or, for a job on the node, one in the jobs there.
func (h *herd) grow(m matrix, n int) {
	used, present := 0, 0
	for at := n; at < len(m); at += h.nodes {
		if m[at] > 0 {
			used += int(m[at])
			present++
		}
	}
	most := int(h.blank.free[n])
	if used >= most {
		return
	}
	all := 1 / float64(len(h.jobs))
	there := all
	if present > 0 {
		there = all + (1-all)/float64(present)
	}
	for at := n; at < len(m); at += h.nodes {
		chance := all
		if m[at] > 0 {
			chance = there
		}
		if h.rng.Float64() < chance {
			m[at] += uint8(h.rng.IntN(most - int(m[at]) + 1))
		}
	}
}

// repair makes a matrix feasible. Jobs are served in order.
func (h *herd) repair(m matrix) {
	h.rng.Shuffle(len(h.mixed), func(a, b int) { h.mixed[a], h.mixed[b] = h.mixed[b], h.mixed[a] })
	h.board.copyFrom(h.blank)
	for n := range h.owner {
		h.owner[n] = -1
		if !h.blank.open.has(n) {
			h.owner[n] = int32(len(h.jobs)) // a pinned job
		}
	}
	for _, i := range h.order {
		cells := h.cells(m, int(i))
		if !slices.Equal(cells, h.cells(h.now, int(i))) {
			h.confine(&h.jobs[i], cells)
		}
		if h.Apart {
			h.part(i, cells)
		}
	}
	for _, i := range h.order {
		cells, j := h.cells(m, int(i)), &h.jobs[i]
		if slices.Equal(cells, h.cells(h.now, int(i))) && h.board.fits(j, j.held) {
			h.board.take(j, j.held)
			continue
		}
		h.clip(j, cells)
	}
}

// confine clears the entries of a row on nodes that the job may not use together:
// nodes that take no new work or not this job, nodes of any type but its most
// frequent one, and, if its span is limited, nodes outside the node or rack where
// it has most.
func (h *herd) confine(j *Job, cells []uint8) {
	if h.plain && len(j.Kinds) == 1 && j.widest == Far && j.demand.among == 0 {
		return
	}
	c := h.s.Cluster
	clear(h.kinds)
	clear(h.racks)
	for n, k := range cells {
		if h.blank.ready[n] && h.blank.admits(j.demand.among, n) {
			h.kinds[c.TypeOf(n)] += int32(k)
		}
	}
	best := -1
	for i := range j.Kinds {
		if t := j.Kinds[i].Type; best < 0 || h.kinds[t] > h.kinds[best] {
			best = t
		}
	}
	node, rack := 0, 0
	for n := range cells {
		if !h.blank.ready[n] || c.TypeOf(n) != best || !h.blank.admits(j.demand.among, n) {
			cells[n] = 0
			continue
		}
		if cells[n] > cells[node] {
			node = n
		}
		r := c.RackOf(n)
		if h.racks[r] += int32(cells[n]); h.racks[r] > h.racks[rack] {
			rack = r
		}
	}
	for n := range cells {
		if (j.widest == Near && c.RackOf(n) != rack) || (j.widest == Local && n != node) {
			cells[n] = 0
		}
	}
}

// part clears a job across several nodes from the nodes that an earlier job of this
// kind uses.
func (h *herd) part(i int32, cells []uint8) {
	if several(cells) {
		for n, k := range cells {
			if k > 0 && h.owner[n] >= 0 {
				cells[n] = 0
			}
		}
	}
	if several(cells) {
		for n, k := range cells {
			if k > 0 {
				h.owner[n] = i
			}
		}
	}
}

// several reports whether a row has entries on more than one node.
func several(cells []uint8) bool {
	n := 0
	for _, k := range cells {
		if k > 0 {
			n++
		}
	}
	return n > 1
}

// clip cuts a row down to what is free and to a size the job may have, node by node
// in random order, and takes it.
func (h *herd) clip(j *Job, cells []uint8) {
	most, total := j.most, 0
	if j.tenant >= 0 {
		most = min(most, h.board.quota[j.tenant])
	}
	for _, n := range h.mixed {
		if cells[n] > 0 {
			k := min(int(cells[n]), h.board.room(j.demand, int(n)), most-total) / j.demand.task * j.demand.task
			cells[n] = uint8(k)
			total += k
		}
	}
	size := total
	for size > 0 && !j.legal(size) {
		size--
	}
	h.row = h.row[:0]
	for _, n := range h.mixed {
		if k := min(int(cells[n]), total-size); k > 0 {
			cells[n] -= uint8(k)
			total -= k
		}
		if cells[n] > 0 {
			h.row = append(h.row, slot{n, int32(cells[n])})
		}
	}
	h.board.take(j, h.row)
}
