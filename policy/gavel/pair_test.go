// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// randomBlock draws a problem with one block of two or three jobs on one or two
// types, and maybe a job of its own.
func randomBlock(random *rand.Rand) *problem {
	types := 1 + random.IntN(2)
	jobs := 2 + random.IntN(2)
	if types == 2 {
		jobs = 2
	}
	p := &problem{gpus: make([]float64, types)}
	for t := range p.gpus {
		p.gpus[t] = float64(1 + random.IntN(3))
	}
	b := block{count: float64(1 + random.IntN(2)), scale: float64(1 + random.IntN(2))}
	for i := range jobs {
		r := row{count: b.count, scale: b.scale, block: 1, speed: make([]float64, types)}
		for t := range r.speed {
			r.speed[t] = 0.5 + 2*random.Float64()
		}
		r.best = largest(r.speed)
		p.rows, b.rows = append(p.rows, r), append(b.rows, i)
	}
	for i := range jobs {
		for k := i + 1; k < jobs && len(b.pairs) < 2; k++ {
			x := pair{a: i, b: k}
			for t := range types {
				if random.IntN(5) > 0 {
					x.slow[0][t], x.slow[1][t] = 1+random.Float64(), 1+random.Float64()
				}
			}
			b.pairs = append(b.pairs, x)
		}
	}
	p.blocks = []block{b}
	return p
}

// wholeBlock writes a problem of one block as one program: times of every part of
// it on every type, and last the multiple of needs that all get; with gains, these
// count instead.
func wholeBlock(p *problem, needs []float64, gains bool) *program {
	b, types := &p.blocks[0], len(p.gpus)
	vars := (len(b.rows) + len(b.pairs)) * types
	lp := &program{gain: make([]float64, vars+1), use: make([][]float64, vars+1)}
	if !gains {
		lp.gain[vars] = 1
	}
	line := func(limit float64, of func(part, on int) float64, last float64) {
		lp.limit = append(lp.limit, limit)
		for v := range vars {
			lp.use[v] = append(lp.use[v], of(v/types, v%types))
		}
		lp.use[vars] = append(lp.use[vars], last)
	}
	for i := range b.rows {
		line(1, func(part, on int) float64 {
			if speedIn(p, part, i, on) == 0 && involves(b, part, i) {
				return 100 // it cannot be there, and has no speed there either
			}
			if involves(b, part, i) {
				return 1
			}
			return 0
		}, 0)
		speed := func(part, on int) float64 { return -speedIn(p, part, i, on) }
		if gains {
			line(-needs[i], speed, 0)
		} else {
			line(0, speed, needs[i])
		}
	}
	for t, n := range p.gpus {
		line(n, func(_, on int) float64 {
			if on == t {
				return b.scale * b.count
			}
			return 0
		}, 0)
	}
	if gains {
		line(1, func(int, int) float64 { return 0 }, 1) // bounds the variable that means nothing
		for v := range vars {
			lp.gain[v] = p.gain(b, v/types, v%types) * b.count
		}
	}
	return lp
}

func involves(b *block, part, i int) bool {
	if part < len(b.rows) {
		return part == i
	}
	k := b.pairs[part-len(b.rows)]
	return k.a == i || k.b == i
}

// speedIn is the speed of a job in a part of the block.
func speedIn(p *problem, part, i, on int) float64 {
	b := &p.blocks[0]
	if part < len(b.rows) {
		if part == i {
			return p.rows[i].speed[on]
		}
		return 0
	}
	k := b.pairs[part-len(b.rows)]
	for side, job := range [2]int{k.a, k.b} {
		if job == i && k.slow[side][on] > 0 {
			return p.rows[i].speed[on] / k.slow[side][on]
		}
	}
	return 0
}

// blockSpeeds adds up what a mixture gives to the jobs of the block, and checks
// that it stays within what there is.
func blockSpeeds(t *testing.T, p *problem, m mixture) []float64 {
	t.Helper()
	b := &p.blocks[0]
	out, time, use := make([]float64, len(b.rows)), make([]float64, len(b.rows)), make([]float64, len(p.gpus))
	for c, w := range m.weights {
		for _, x := range m.columns[c].plays[0] {
			use[x.on] += w * x.time * b.scale * b.count
			for i := range b.rows {
				out[i] += w * x.time * speedIn(p, x.part, i, x.on)
				if involves(b, x.part, i) {
					time[i] += w * x.time
				}
			}
		}
	}
	for i, x := range time {
		if x > 1+1e-6 {
			t.Errorf("job %d has %g of its time", i, x)
		}
	}
	for i, x := range use {
		if x > p.gpus[i]*(1+1e-6) {
			t.Errorf("type %d is used for %g of %g GPUs", i, x, p.gpus[i])
		}
	}
	return out
}

// Max-min with pairs against all corners of the whole program.
func TestBlocksAgainstAllCorners(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	more := 0
	for trial := range 60 {
		p := randomBlock(random)
		needs := make([]float64, len(p.rows))
		for i := range needs {
			needs[i] = 0.2 + random.Float64()
		}
		want := corners(wholeBlock(p, needs, false))
		m, _ := p.raise(func(r int, level float64) float64 { return level * needs[r] }, 1)
		m = p.choices(m)
		got := math.Inf(1)
		for i, x := range blockSpeeds(t, p, m) {
			got = min(got, x/needs[i])
		}
		capped := math.Inf(1) // nobody needs more than its best
		for i := range p.rows {
			capped = min(capped, p.rows[i].best/needs[i])
		}
		if want = min(want, capped); math.Abs(got/want-1) > 0.002 {
			t.Errorf("trial %d: the least is %g, the best corner has %g: %+v", trial, got, want, p.blocks[0])
		}
		pairs := p.blocks[0].pairs
		p.blocks[0].pairs = nil
		if corners(wholeBlock(p, needs, false)) < want*0.99 {
			more++
		}
		p.blocks[0].pairs = pairs
	}
	if more < 20 {
		t.Errorf("sharing raised the least in %d of 60 trials; want at least 20", more)
	}
}

// The largest sum of gains with pairs, with and without needs.
func TestBlockGainsAgainstAllCorners(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	for trial := range 60 {
		p := randomBlock(random)
		needs := make([]float64, len(p.rows))
		for i := range p.rows {
			r := &p.rows[i]
			for _, speed := range r.speed {
				r.gain = append(r.gain, random.Float64()*speed)
			}
			needs[i] = 0.1 * random.Float64() * r.best * float64(trial%2)
			r.need = needs[i]
		}
		if _, ok := p.fit(); !ok {
			continue
		}
		want := corners(wholeBlock(p, needs, true))
		m := p.maximise()
		blockSpeeds(t, p, m)
		got := 0.0
		for c, w := range m.weights {
			got += w * m.columns[c].gain
		}
		if math.Abs(got/want-1) > 1e-4 {
			t.Errorf("trial %d: gain %g; the best corner has %g", trial, got, want)
		}
	}
}
