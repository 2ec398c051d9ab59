// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// corners solves a linear program by trying all of its corners: every choice of
// as many tight constraints as there are variables.
func corners(p *program) (value float64) {
	n := len(p.gain)
	var lines [][]float64 // coefficients and right-hand side of a*x <= b
	for r, limit := range p.limit {
		line := make([]float64, n+1)
		for c := range n {
			line[c] = p.use[c][r]
		}
		line[n] = limit
		lines = append(lines, line)
	}
	for c := range n {
		line := make([]float64, n+1)
		line[c] = -1
		lines = append(lines, line)
	}
	value = math.Inf(-1)
	tight := make([]int, 0, n)
	var choose func(from int)
	choose = func(from int) {
		if len(tight) == n {
			if x, ok := meet(lines, tight); ok && inside(lines, x) {
				value = max(value, dot(p.gain, x))
			}
			return
		}
		for i := from; i < len(lines); i++ {
			tight = append(tight, i)
			choose(i + 1)
			tight = tight[:len(tight)-1]
		}
	}
	choose(0)
	return value
}

// meet solves the equations of tight lines by elimination.
func meet(lines [][]float64, tight []int) ([]float64, bool) {
	n := len(tight)
	m := make([][]float64, n)
	for i, t := range tight {
		m[i] = append([]float64(nil), lines[t]...)
	}
	for c := range n {
		best := c
		for r := c; r < n; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[best][c]) {
				best = r
			}
		}
		if math.Abs(m[best][c]) < 1e-9 {
			return nil, false
		}
		m[c], m[best] = m[best], m[c]
		for r := range n {
			if r != c {
				eliminate(m[r], m[c], m[r][c]/m[c][c])
			}
		}
	}
	x := make([]float64, n)
	for c := range n {
		x[c] = m[c][n] / m[c][c]
	}
	return x, true
}

func inside(lines [][]float64, x []float64) bool {
	for _, line := range lines {
		if dot(x, line) > line[len(x)]+1e-7 {
			return false
		}
	}
	return true
}

func TestSimplexAgainstAllCorners(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for trial := range 300 {
		n, rows := 1+random.IntN(4), 1+random.IntN(3)
		p := &program{limit: make([]float64, rows)}
		for r := range p.limit {
			p.limit[r] = float64(random.IntN(10))
		}
		for range n {
			use := make([]float64, rows)
			for r := range use {
				use[r] = float64(random.IntN(5))
			}
			use[random.IntN(rows)]++ // bounded
			p.use = append(p.use, use)
			p.gain = append(p.gain, float64(random.IntN(9))-2)
		}
		s := p.solve()
		if want := corners(p); math.Abs(s.value-want) > 1e-6 {
			t.Errorf("trial %d: value %g of %+v; the best corner has %g", trial, s.value, *p, want)
		}
		// Strong duality: the prices account for the whole value.
		if worth := dot(s.prices, p.limit); math.Abs(worth-s.value) > 1e-6 {
			t.Errorf("trial %d: prices %v are worth %g; want %g", trial, s.prices, worth, s.value)
		}
	}
}

// randomProblem draws a few rows on two types.
func randomProblem(random *rand.Rand) *problem {
	p := &problem{gpus: []float64{float64(1 + random.IntN(6)), float64(1 + random.IntN(6))}}
	for range 1 + random.IntN(3) {
		r := row{count: float64(1 + random.IntN(3)), scale: float64(1 + random.IntN(4)), speed: make([]float64, 2)}
		for t := range r.speed {
			if random.IntN(6) > 0 {
				r.speed[t] = 0.5 + 4*random.Float64()
			}
		}
		r.best = largest(r.speed)
		if r.best > 0 {
			p.rows = append(p.rows, r)
		}
	}
	return p
}

// whole writes the problem as one program: times of every row, and last the
// multiple of needs that all get; gains count instead if there are any.
func whole(p *problem, needs []float64, gains bool) *program {
	types, n := len(p.gpus), len(p.rows)*len(p.gpus)
	lp := &program{}
	line := func(limit float64, coefficients map[int]float64) {
		lp.limit = append(lp.limit, limit)
		for c := range lp.use {
			lp.use[c] = append(lp.use[c], coefficients[c])
		}
	}
	vars := n
	if !gains {
		vars++
	}
	lp.gain, lp.use = make([]float64, vars), make([][]float64, vars)
	if !gains {
		lp.gain[n] = 1
	}
	for k := range p.rows {
		r := &p.rows[k]
		time, speed := map[int]float64{}, map[int]float64{}
		for t := range types {
			time[k*types+t] = 1
			speed[k*types+t] = -r.speed[t]
			if r.speed[t] == 0 {
				time[k*types+t] = 1e6 // it cannot run there
			}
			if gains {
				lp.gain[k*types+t] = r.gain[t] * r.count
			}
		}
		line(1, time)
		if gains {
			line(-needs[k], speed)
		} else {
			speed[n] = needs[k]
			line(0, speed)
		}
	}
	for t := range types {
		use := map[int]float64{}
		for k := range p.rows {
			use[k*types+t] = p.rows[k].scale * p.rows[k].count
		}
		line(p.gpus[t], use)
	}
	return lp
}

// throughputs adds up what a mixture gives to a job of each row, and checks that
// it stays within what there is.
func throughputs(t *testing.T, p *problem, m mixture) []float64 {
	t.Helper()
	out, use := make([]float64, len(p.rows)), make([]float64, len(p.gpus))
	for k := range p.rows {
		total := 0.0
		for c, w := range m.weights {
			pick := m.columns[c].picks[k]
			for n, i := range pick.on {
				x := w * pick.time[n]
				total += x
				out[k] += x * p.rows[k].speed[i]
				use[i] += x * p.rows[k].scale * p.rows[k].count
			}
		}
		if total > 1+1e-6 {
			t.Errorf("row %d has %g of its time", k, total)
		}
	}
	for i := range use {
		if use[i] > p.gpus[i]*(1+1e-6) {
			t.Errorf("type %d is used for %g of %g GPUs", i, use[i], p.gpus[i])
		}
	}
	return out
}

// Max-min (and makespan, which differs in its terms alone) against all corners of
// the whole program.
func TestRaiseAgainstAllCorners(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for trial := range 50 {
		p := randomProblem(random)
		if len(p.rows) == 0 {
			continue
		}
		terms := make([]float64, len(p.rows))
		for k := range terms {
			terms[k] = 0.2 + random.Float64()
		}
		want := corners(whole(p, terms, false))
		m := p.fill(func(r int, level float64) float64 { return level * terms[r] })
		got := math.Inf(1)
		for k, x := range throughputs(t, p, m) {
			got = min(got, x/terms[k])
		}
		if math.Abs(got/want-1) > 0.002 {
			t.Errorf("trial %d: the least is %g, the best corner has %g: %+v", trial, got, want, p)
		}
	}
}

// No lower level of finish-time fairness would fit.
func TestFinishTimeAgainstAllCorners(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for trial := range 25 {
		p := randomProblem(random)
		if len(p.rows) == 0 {
			continue
		}
		left, fair, age := make([]float64, len(p.rows)), make([]float64, len(p.rows)), make([]float64, len(p.rows))
		for k := range p.rows {
			left[k], fair[k], age[k] = 100*random.Float64(), 50+200*random.Float64(), 50*random.Float64()
		}
		need := func(r int, level float64) float64 {
			if spare := fair[r] - level*age[r]; spare > 0 {
				return level * left[r] / spare
			}
			return p.rows[r].best
		}
		m := p.fill(need)
		worst := 0.0
		for k, x := range throughputs(t, p, m) {
			worst = max(worst, (age[k]+left[k]/x)/fair[k])
		}
		needs := make([]float64, len(p.rows))
		for k := range needs {
			needs[k] = need(k, 1/(worst*0.995))
		}
		if multiple := corners(whole(p, needs, false)); multiple >= 1.001 {
			t.Errorf("trial %d: the largest rho is %g, and 0.5 %% less would fit %g times over", trial, worst, multiple)
		}
	}
}

func TestMaximiseAgainstAllCorners(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for trial := range 50 {
		p := randomProblem(random)
		if len(p.rows) == 0 {
			continue
		}
		needs := make([]float64, len(p.rows))
		for k := range p.rows {
			p.rows[k].gain = []float64{random.Float64() * p.rows[k].speed[0], random.Float64() * p.rows[k].speed[1]}
			needs[k] = 0.1 * random.Float64() * p.rows[k].best * float64(trial%2)
			p.rows[k].need = needs[k]
		}
		if _, ok := p.fit(); !ok {
			continue
		}
		want := corners(whole(p, needs, true))
		m := p.maximise()
		got := 0.0
		for c, w := range m.weights {
			got += w * m.columns[c].gain
		}
		for k, x := range throughputs(t, p, m) {
			if x < needs[k]*(1-1e-6) {
				t.Errorf("trial %d: row %d has %g; it needs %g", trial, k, x, needs[k])
			}
		}
		if math.Abs(got-want) > 1e-5*max(1, want) {
			t.Errorf("trial %d: gain %g; the best corner has %g", trial, got, want)
		}
	}
}

// Water-filling: what the worst-off cannot use goes to others.
func TestFillRaisesWhoCostsNothing(t *testing.T) {
	p := &problem{gpus: []float64{1, 3}, rows: []row{
		{count: 2, scale: 1, speed: []float64{1, 0}, best: 1}, // two jobs on the one GPU of the first type
		{count: 1, scale: 1, speed: []float64{0, 1}, best: 1},
		{count: 1, scale: 4, speed: []float64{0, 1}, best: 1},
	}}
	m := p.fill(func(_ int, level float64) float64 { return level })
	for k, want := range []float64{0.5, 0.6, 0.6} { // 0.6 of 1 and of 4 GPUs are 3
		if got := throughputs(t, p, m)[k]; math.Abs(got-want) > 0.002 {
			t.Errorf("row %d has %g; want %g", k, got, want)
		}
	}
}
