// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// genetic is the search of the paper: matrices of GPUs, jobs by nodes, evolve
// by crossover and mutation, and the fittest survive.
type genetic struct {
	seed        uint64
	population  int
	generations int
}

// These bound the size of a search, in matrix entries, which are bytes. A large
// problem gets a smaller population and fewer generations. A problem that is too
// large is not searched: jobs keep what they have.
const (
	maxMatrix = 32 << 20
	maxMemory = 256 << 20
	maxEffort = 512 << 20
)

// matrix is one individual: for each job a row with one byte for each node.
type matrix []uint8

type individual struct {
	cells matrix
	cost  float64
	hash  uint64
}

// herd is the state of a genetic search.
type herd struct {
	*problem
	rng   *rand.Rand
	size  int
	nodes int
	alive []individual // the fittest first
	dead  []matrix     // memory for reuse
	now   matrix       // what the jobs have
	order []int32      // jobs, in the order in which repair serves them
	plain bool         // all nodes take new work and have one type of GPU

	board *board  // scratch of repair, like all below
	owner []int32 // by node: the job across several nodes that uses it; -1: none
	mixed []int32 // nodes in random order
	kinds []int32 // GPUs by type
	racks []int32 // GPUs by rack
	row   row
}

func (g genetic) search(p *problem) []row {
	cells := len(p.jobs) * len(p.blank.free)
	if cells == 0 || cells > maxMatrix {
		return p.asItIs()
	}
	h := newHerd(p, g)
	h.begin()
	for range min(g.generations, maxEffort/(cells*h.size)) {
		h.breed()
	}
	return h.rows(h.alive[0].cells)
}

// asItIs lets every job keep what it has, as far as the rules permit.
func (p *problem) asItIs() []row {
	rows := make([]row, len(p.jobs))
	b := &board{}
	b.copyFrom(p.blank)
	for i := range p.jobs {
		if j := &p.jobs[i]; b.fits(j, j.held) {
			b.take(j, j.held)
			rows[i] = j.held
		}
	}
	return rows
}

func newHerd(p *problem, g genetic) *herd {
	n := len(p.blank.free)
	h := &herd{
		problem: p, nodes: n, rng: rand.New(rand.NewPCG(g.seed, p.digest())), now: make(matrix, n*len(p.jobs)),
		board: &board{}, owner: make([]int32, n), mixed: make([]int32, n),
		racks: make([]int32, len(p.s.Cluster.Racks)), kinds: make([]int32, len(p.s.Cluster.Types)),
	}
	h.plain = len(p.s.Cluster.Types) == 1 && !slices.Contains(p.blank.ready, false)
	h.size = max(4, min(g.population, maxMemory/(2*len(h.now))))
	for n := range h.mixed {
		h.mixed[n] = int32(n)
	}
	for i := range p.jobs {
		h.order = append(h.order, int32(i))
		h.put(h.now, i, p.jobs[i].held)
	}
	slices.SortFunc(h.order, func(a, b int32) int {
		x, y := &p.jobs[a], &p.jobs[b]
		return cmp.Or(cmp.Compare(x.AttainedBy(p.s.Now), y.AttainedBy(p.s.Now)), cmp.Compare(x.Seq, y.Seq))
	})
	return h
}

// cells returns the row of a job.
func (h *herd) cells(m matrix, i int) []uint8 { return m[i*h.nodes : (i+1)*h.nodes] }

// put writes the row of a job that has none.
func (h *herd) put(m matrix, i int, r row) {
	for _, s := range r {
		h.cells(m, i)[s.node] = uint8(s.gpus)
	}
}

// rows returns the rows of a matrix.
func (h *herd) rows(m matrix) []row {
	out := make([]row, len(h.jobs))
	for i := range out {
		for n, k := range h.cells(m, i) {
			if k > 0 {
				out[i] = append(out[i], slot{int32(n), int32(k)})
			}
		}
	}
	return out
}

// begin makes the first population: what runs now, two simple divisions of the
// cluster, and mutants of these.
func (h *herd) begin() {
	h.add(slices.Clone(h.now))
	h.add(h.equal(1))
	h.add(h.equal(fairShare(h.s)))
	for parents := len(h.alive); len(h.alive) < h.size; {
		m := h.copyOf(h.alive[h.rng.IntN(parents)].cells)
		h.mutate(m)
		h.add(m)
	}
	h.survive()
}

// equal gives every job n GPUs on one node, or the nearest size it can have, in the
// order of repair, while GPUs last.
func (h *herd) equal(n int) matrix {
	m := make(matrix, len(h.now))
	h.board.copyFrom(h.blank)
	for _, i := range h.order {
		j := &h.jobs[i]
		size := max(j.fewest, min(n, j.most))
		for size > j.fewest && !j.legal(size) {
			size--
		}
		for k := range j.Kinds {
			o := option{gpus: int32(size), kind: int16(j.Kinds[k].Type), way: oneNode}
			if r, ok := h.place(h.board, h.row[:0], j, o); ok {
				h.board.take(j, r)
				h.put(m, int(i), r)
				break
			}
		}
	}
	return m
}

// breed makes as many children as the population has room for; the fittest of all
// survive.
func (h *herd) breed() {
	const crossing = 0.9 // probability
	parents := len(h.alive)
	for len(h.alive) < 2*h.size {
		// Two binary tournaments: the fitter of two random individuals is the one
		// with the lower index.
		one := h.alive[min(h.rng.IntN(parents), h.rng.IntN(parents))].cells
		two := h.alive[min(h.rng.IntN(parents), h.rng.IntN(parents))].cells
		x, y := h.copyOf(one), h.copyOf(two)
		if h.rng.Float64() < crossing {
			cut := h.rng.IntN(len(h.jobs)+1) * h.nodes
			copy(x[cut:], two[cut:])
			copy(y[cut:], one[cut:])
		}
		h.mutate(x)
		h.add(x)
		h.mutate(y)
		h.add(y)
	}
	h.survive()
}

// copyOf returns a copy, in the memory of a dead matrix if there is one.
func (h *herd) copyOf(m matrix) matrix {
	if len(h.dead) == 0 {
		return slices.Clone(m)
	}
	last := h.dead[len(h.dead)-1]
	h.dead = h.dead[:len(h.dead)-1]
	copy(last, m)
	return last
}

// add repairs a matrix, computes its cost and adds it to the population.
func (h *herd) add(m matrix) {
	h.repair(m)
	x := individual{cells: m, hash: 14695981039346656037} // FNV-1a
	for i := range h.jobs {
		x.cost += h.costOf(i, h.cells(m, i))
	}
	for _, k := range m {
		x.hash = (x.hash ^ uint64(k)) * 1099511628211
	}
	h.alive = append(h.alive, x)
}

// costOf returns the cost of a job's row.
func (h *herd) costOf(i int, cells []uint8) float64 {
	j, c := &h.jobs[i], h.s.Cluster
	held := h.cells(h.now, i)
	first, n, at, same := -1, 0, Local, true
	for node, k := range cells {
		same = same && k == held[node]
		if k == 0 {
			continue
		}
		n += int(k)
		switch {
		case first < 0:
			first = node
		case c.RackOf(node) != c.RackOf(first):
			at = Far
		default:
			at = max(at, Near)
		}
	}
	switch {
	case n == 0:
		return h.none
	case same:
		return j.heldCost
	}
	return h.objective.Cost(j, j.kind(c.TypeOf(first)), at, n, false)
}

// survive keeps the fittest individuals and drops duplicates.
func (h *herd) survive() {
	slices.SortFunc(h.alive, func(x, y individual) int {
		if x.cost != y.cost {
			return cmp.Compare(x.cost, y.cost)
		}
		return cmp.Compare(x.hash, y.hash)
	})
	kept := h.alive[:0]
	for _, x := range h.alive {
		twin := len(kept) > 0 && kept[len(kept)-1].hash == x.hash
		if twin || len(kept) == h.size {
			h.dead = append(h.dead, x.cells)
			continue
		}
		kept = append(kept, x)
	}
	h.alive = kept
}
