// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import "math"

// problem is the linear program of an allocation: times of rows on GPU types,
// each row at most all of its time and at least its need, together no more than
// the GPUs there are.
//
// It is solved by Dantzig and Wolfe's decomposition. For given prices of GPU
// time every row has its own cheapest corner, found in a few steps; all of these
// together make a column, and a master program with one line for each type mixes
// columns and sets new prices. The work is linear in the number of rows.
//
// Jobs that may share GPUs with some others are not on their own: a block of them
// takes the place of a row.
type problem struct {
	gpus   []float64 // by type
	rows   []row
	blocks []block

	prices  []float64    // of the last program, with which the next one starts; nil: none
	tableau blockTableau // a buffer
}

// column is a choice of every row at some prices.
type column struct {
	prices []float64
	use    []float64 // GPU time by type, of all jobs
	gain   float64
	picks  []corner // by row; of a row in a block: nothing
	plays  [][]play // by block
}

// mixture is a solution: columns with weights that sum to 1 or less. The choices of
// rows are filled in at the end (choices), since most columns do not last.
type mixture struct {
	columns []column
	weights []float64
	prices  []float64
}

// maxColumns bounds the columns of one program; with a handful of types a few
// dozen are enough.
const maxColumns = 400

// column returns what the cheapest choices at some prices use and gain, and keeps the
// choices if wanted.
func (p *problem) column(prices []float64, keep bool) column {
	c := column{prices: prices, use: make([]float64, len(p.gpus))}
	if keep {
		c.picks = make([]corner, len(p.rows))
	}
	pick := new(corner)
	for k := range p.rows {
		r := &p.rows[k]
		if r.block > 0 {
			continue
		}
		if keep {
			pick = &c.picks[k]
		}
		r.cheapest(prices, pick)
		for n, i := range pick.on {
			c.use[i] += pick.time[n] * r.scale * r.count
			if r.gain != nil {
				c.gain += pick.time[n] * r.gain[i] * r.count
			}
		}
	}
	for k := range p.blocks {
		b := &p.blocks[k]
		plays, _ := p.cheapest(b, prices)
		if keep {
			c.plays = append(c.plays, plays)
		}
		for _, x := range plays {
			c.use[x.on] += x.time * b.scale * b.count
			c.gain += x.time * p.gain(b, x.part, x.on) * b.count
		}
	}
	return c
}

// choices returns the columns of a mixture that count, with the choice of every row.
// Needs must be those that the mixture was made for.
func (p *problem) choices(m mixture) mixture {
	out := mixture{prices: m.prices}
	for k, w := range m.weights {
		if w > 0 {
			out.columns = append(out.columns, p.column(m.columns[k].prices, true))
			out.weights = append(out.weights, w)
		}
	}
	return out
}

// fit reports whether the needs of all rows can be met, and how. It maximises how
// many times over they can be met: a total weight of 1 suffices.
func (p *problem) fit() (mixture, bool) {
	if p.prices == nil {
		p.prices = p.parts(ones(len(p.gpus)))
	}
	m := mixture{prices: p.prices}
	// Columns are scaled to fractions of the GPUs, the largest to 1, so that
	// entries are near 1 whatever the needs.
	master, scales := program{limit: ones(len(p.gpus))}, []float64{}
	for range maxColumns {
		c := p.column(m.prices, false)
		cost, worth := dot(m.prices, c.use), dot(m.prices, p.gpus)
		if largest(c.use) == 0 { // no row needs anything
			return mixture{columns: []column{c}, weights: []float64{1}, prices: make([]float64, len(p.gpus))}, true
		}
		// Prices at which all needs cost at least as much as all GPUs are worth prove
		// that they cannot be met.
		if cost > worth*(1+slack) {
			return m, false
		}
		m.columns = append(m.columns, c)
		parts := p.parts(c.use)
		scale := 1 / largest(parts)
		for i := range parts {
			parts[i] *= scale
		}
		scales = append(scales, scale)
		master.gain = append(master.gain, scale)
		master.use = append(master.use, parts)
		s := master.solve()
		m.weights, m.prices = s.x, p.parts(s.prices)
		p.prices = m.prices
		for k := range m.weights {
			m.weights[k] *= scales[k]
		}
		if s.value >= 1-slack {
			for k := range m.weights {
				m.weights[k] /= s.value
			}
			return m, true
		}
	}
	return m, false
}

// parts divides by the numbers of GPUs.
func (p *problem) parts(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, n := range p.gpus {
		if n > 0 {
			out[i] = x[i] / n
		}
	}
	return out
}

// maximise returns the mixture with the largest gain. The needs must fit.
func (p *problem) maximise() mixture {
	start, _ := p.fit()
	m := mixture{columns: start.columns}
	master := program{limit: append(append([]float64(nil), p.gpus...), 1)}
	// A column counts only as far as it meets the needs, so all weights have to sum
	// to 1: a bonus for weight, larger than any gain, ensures it.
	all := 0.0
	for k := range p.rows {
		all += p.rows[k].count * largest(p.rows[k].gain)
	}
	const bonus = 10
	add := func(c column) {
		master.gain = append(master.gain, c.gain/all+bonus)
		master.use = append(master.use, append(append([]float64(nil), c.use...), 1))
	}
	for _, c := range m.columns {
		add(c)
	}
	for range maxColumns {
		s := master.solve()
		m.weights = s.x
		m.prices = make([]float64, len(p.gpus))
		for i := range m.prices {
			m.prices[i] = s.prices[i] * all
		}
		c := p.column(m.prices, false)
		if (c.gain-dot(m.prices, c.use))/all+bonus-s.prices[len(p.gpus)] <= 1e-8 {
			break
		}
		m.columns = append(m.columns, c)
		add(c)
	}
	return p.choices(m)
}

// raise returns the allocation at the highest level whose needs fit, within a
// thousandth; the search starts at the level from. need returns what a row needs at
// a level: more at a higher one, and never more than its best. Frozen rows keep what
// they need. The prices in the result prove that no more fits.
func (p *problem) raise(need func(r int, level float64) float64, from float64) (mixture, float64) {
	at := func(level float64) (mixture, bool) {
		for k := range p.rows {
			if r := &p.rows[k]; !r.frozen {
				r.need = min(r.best, need(k, level))
			}
		}
		return p.fit()
	}
	const limit = 1e12
	good, ok := at(limit)
	if ok {
		return good, limit
	}
	low, high, proof := 0.0, limit, good.prices
	for level := min(from, limit/4); level > 1/limit && level < limit; {
		m, ok := at(level)
		if ok {
			good, low = m, level
			level *= 4
		} else {
			high, proof = level, m.prices
			level /= 4
		}
		if low > 0 && high < limit {
			break
		}
	}
	if low == 0 { // only the level 0 fits
		good, _ = at(0)
		return good, 0
	}
	for high > low*1.001 {
		level := math.Sqrt(low * high)
		if m, ok := at(level); ok {
			good, low = m, level
		} else {
			high, proof = level, m.prices
		}
	}
	good.prices = proof
	for k := range p.rows {
		if r := &p.rows[k]; !r.frozen {
			r.need = min(r.best, need(k, low))
		}
	}
	return good, low
}

// fill raises all rows to the highest level, then those that cost the others
// nothing further, and so on: water-filling.
func (p *problem) fill(need func(r int, level float64) float64) mixture {
	var m mixture
	level := 1.0
	for range len(p.gpus) + 1 {
		var high float64
		if m, high = p.raise(need, level); high > 0 {
			level = high // those that can rise further do so from here
		}
		open := 0
		for k := range p.rows {
			r := &p.rows[k]
			r.frozen = r.frozen || r.need >= r.best*(1-slack) || p.rise(k, m.prices)
			if !r.frozen {
				open++
			}
		}
		if open == 0 {
			break
		}
	}
	return p.choices(m)
}

func ones(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func largest(x []float64) float64 {
	most := 0.0
	for _, v := range x {
		most = max(most, v)
	}
	return most
}
