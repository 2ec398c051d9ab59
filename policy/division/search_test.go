// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
)

// checkRows holds rows against the rules, counted as plainly as possible.
func checkRows(t testing.TB, p *problem, rows []row) {
	t.Helper()
	used, wide := map[int32]int32{}, map[int32]int{}
	for i, r := range rows {
		j := &p.jobs[i]
		if len(r) == 0 || r.same(j.held) {
			for _, s := range r {
				used[s.node] += s.gpus
			}
			continue
		}
		if n := r.gpus(); !j.Fits(n) || n > j.most {
			t.Errorf("job %s has %d GPUs; want %d to %d", j.ID, n, j.fewest, j.most)
		}
		for _, s := range r {
			used[s.node] += s.gpus
			if p.s.Cluster.TypeOf(int(s.node)) != p.s.Cluster.TypeOf(int(r[0].node)) {
				t.Errorf("job %s has GPUs of two types: %v", j.ID, r)
			}
		}
	}
	for n, k := range used {
		if int(k) > p.s.Cluster.Nodes[n].GPUs {
			t.Errorf("node %d gives %d GPUs; it has %d", n, k, p.s.Cluster.Nodes[n].GPUs)
		}
	}
	for i, r := range rows {
		for _, s := range r {
			if len(r) > 1 {
				if wide[s.node]++; p.Apart && wide[s.node] > 1 {
					t.Errorf("job %s: node %d hosts another job across several nodes", p.jobs[i].ID, s.node)
				}
			}
		}
	}
}

// exhaust returns the best fitness of all allocations there are.
func exhaust(p *problem) float64 {
	all := make([][]row, len(p.jobs))
	for i := range p.jobs {
		all[i] = everyRow(p, &p.jobs[i])
	}
	best := math.Inf(1)
	b := &board{}
	b.copyFrom(p.blank)
	var walk func(i int, sum float64)
	walk = func(i int, sum float64) {
		if i == len(p.jobs) {
			best = min(best, sum)
			return
		}
		j := &p.jobs[i]
		for _, r := range all[i] {
			if b.fits(j, r) {
				b.take(j, r)
				walk(i+1, sum+p.rowCost(j, r))
				b.drop(j, r)
			}
		}
	}
	walk(0, p.rest)
	return p.objective.(*Speedups).mean(best, len(p.jobs)+p.still)
}

// everyRow returns all rows of a job, the empty one too.
func everyRow(p *problem, j *Job) []row {
	rows := []row{nil}
	for n, free := range p.blank.free {
		for _, r := range rows {
			for k := int32(1); k <= free; k++ {
				rows = append(rows, append(slices.Clone(r), slot{int32(n), k}))
			}
		}
	}
	return slices.DeleteFunc(rows, func(r row) bool {
		n := r.gpus()
		return n > 0 && (!j.legal(n) || n > j.most)
	})
}

// TestFastFindsTheBest compares with all allocations of small clusters.
func TestFastFindsTheBest(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{-1, 1, 0, -10} {
		for _, apart := range []bool{true, false} {
			for seed := range uint64(40) {
				rng := rand.New(rand.NewPCG(seed, 7))
				s := cluster(t, 1+rng.IntN(3), 1+rng.IntN(3))
				for range 1 + rng.IntN(3) {
					x := spec{model: []string{"cifar10", "bert", ""}[rng.IntN(3)], most: 1 + rng.IntN(9), had: rng.IntN(5)}
					x.age = time.Duration(rng.IntN(2000)) * time.Second
					s.run(s.add(x), rng, 1)
				}
				c := usual()
				c.P, c.Apart = p, apart
				problem := s.problem(c)
				rows := fast{1}.search(problem)
				checkRows(t, problem, rows)
				if got, want := problem.total(rows), exhaust(problem); got < want*(1-1e-9) {
					t.Errorf("p = %g, apart = %t, seed %d: fitness %.9g; the best there is has %.9g", p, apart, seed, got, want)
				}
			}
		}
	}
}

// TestFastIsNotBehind: the genetic search, with a hundred times the effort, must
// not find anything better.
func TestFastIsNotBehind(t *testing.T) {
	t.Parallel()
	for _, c := range []chaos{{nodes: 8, jobs: 14}, {nodes: 6, jobs: 9, mixed: true}} {
		for _, p := range []float64{-1, 1, -10} {
			for seed := range uint64(3) {
				s := random(t, rand.New(rand.NewPCG(seed, 3)), c)
				compare(t, s, p, fmt.Sprintf("%+v, p = %g, seed %d", c, p, seed))
			}
		}
	}
}

// compare runs both searches on a scene.
func compare(t testing.TB, s *scene, exponent float64, what string) {
	t.Helper()
	c := usual()
	c.P = exponent
	p := s.problem(c)
	ours, theirs := fast{1}.search(p), genetic{1, 100, 100}.search(p)
	checkRows(t, p, ours)
	checkRows(t, p, theirs)
	if a, b := p.total(ours), p.total(theirs); a < b*(1-1e-9) {
		t.Errorf("%s: the fast search reaches %.9g, the genetic one %.9g", what, a, b)
	}
}

// TestFastIsNotBehindAtRandom is the same with any scenes. In one of ten thousand of
// them the fast search is behind, by 0.03 %.
func TestFastIsNotBehindAtRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		s := random(t, rand.New(rand.NewPCG(seed, 4)), chaos{nodes: 4, jobs: 5, mixed: rapid.Bool().Draw(rt, "mixed")})
		p := s.problem(usual())
		ours, theirs := fast{1}.search(p), genetic{1, 40, 40}.search(p)
		checkRows(t, p, ours)
		checkRows(t, p, theirs)
		if a, b := p.total(ours), p.total(theirs); a < b*(1-1e-3) {
			rt.Errorf("the fast search reaches %.9g, the genetic one %.9g", a, b)
		}
	})
}

// TestMarketBounds: no allocation is fitter than the dual value says.
func TestMarketBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		s := random(t, rand.New(rand.NewPCG(seed, 5)), chaos{nodes: 6, jobs: 10, mixed: seed%2 == 0})
		p := s.problem(usual())
		m := newMenu(p)
		reached := fast{1}.search(p)
		sum := 0.0
		for i, r := range reached {
			sum += p.rowCost(&p.jobs[i], r)
		}
		for range 30 {
			dual := m.market.ask()
			if dual > sum*(1+1e-9) {
				t.Fatalf("seed %d: the market says that nothing costs less than %g; an allocation costs %g", seed, dual, sum)
			}
			m.market.step(dual, sum)
		}
	}
}

// TestPiecePrices: with a little more than 3 GPUs for each job, on nodes of 4,
// pieces of 3 are dear and the pieces of 1 that they leave over are cheap.
func TestPiecePrices(t *testing.T) {
	s := cluster(t, 16, 4)
	for i := range 20 {
		s.add(spec{model: []string{"bert", "cifar10"}[i%2], most: 4, age: time.Duration(1000+i) * time.Second})
	}
	p := s.problem(usual())
	m := newMenu(p)
	if at := m.market.piece[0]; math.Abs(at[3]-3*at[1]) > 1e-9*at[3] {
		t.Errorf("the market opens at %.3f; want prices in proportion", at)
	}
	goal := p.sum(fast{1}.search(p))
	for range rounds {
		m.market.step(m.market.ask(), goal)
	}
	if at := m.market.piece[0]; at[3] <= 1.005*3*at[4]/4 || at[1] >= 0.995*at[4]/4 {
		t.Errorf("the market closes at %.3f; want more than 3/4 of a node for 3 GPUs, and less than 1/4 for 1", at)
	}
}

// TestLarge: in a large problem the searches look at fewer sizes, and the fast
// one stays near the bound.
func TestLarge(t *testing.T) {
	s := crowd(t, crowded{nodes: 64, gpus: 8, jobs: 300})
	p := s.problem(usual())
	rows := fast{1}.search(p)
	checkRows(t, p, rows)
	m := newMenu(p)
	for i := range m.jobs {
		if n := m.jobs[i].most; n > 20 && len(m.options[i]) > 40 {
			t.Errorf("job %d, which may have %d GPUs, has %d options; want fewer", i, n, len(m.options[i]))
		}
	}
	for range rounds {
		m.market.step(m.market.ask(), p.sum(rows))
	}
	reached, bound := p.total(rows), p.objective.(*Speedups).mean(m.market.bound+p.rest, len(p.jobs)+p.still)
	if reached < 0.99*bound || reached > bound*(1+1e-9) {
		t.Errorf("fitness %g; want at most 1 %% below the bound, %g", reached, bound)
	}
}

// sum returns the cost of rows.
func (p *problem) sum(rows []row) float64 {
	sum := 0.0
	for i, r := range rows {
		sum += p.rowCost(&p.jobs[i], r)
	}
	return sum
}

// TestTooLarge: the genetic search leaves alone what its matrices do not hold.
func TestTooLarge(t *testing.T) {
	s := nodes(t, slices.Repeat([]sched.Node{{GPUs: 2, Type: "t4"}}, 6000)...)
	for i := range 6000 {
		x := spec{age: time.Hour}
		if i%2 == 0 {
			x.held = row{{int32(i), 2}}
		}
		s.add(x)
	}
	p := s.problem(usual())
	rows := genetic{1, 100, 100}.search(p)
	for i, r := range rows {
		if !r.same(p.jobs[i].held) {
			t.Fatalf("job %d has %v; want what it had, %v", i, r, p.jobs[i].held)
		}
	}
}

// mean returns the fitness of n jobs from the sum of their costs.
func (o *Speedups) mean(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	x := sum / float64(n)
	switch {
	case o.P < 0:
		return math.Pow(x, 1/o.P)
	case o.P == 0:
		return math.Exp(-x)
	}
	return math.Pow(-x, 1/o.P)
}

// total returns the fitness of rows, one for each job.
func (p *problem) total(rows []row) float64 {
	sum := p.rest
	for i := range p.jobs {
		sum += p.rowCost(&p.jobs[i], rows[i])
	}
	return p.objective.(*Speedups).mean(sum, len(p.jobs)+p.still)
}
