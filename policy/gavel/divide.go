// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import "slices"

// share is a share of the time of two claims, together on a type.
type share struct {
	a, b    int // claims
	gpuType int
	time    float64
	slow    [2]float64 // of a and of b
}

// blockKind is what the linear program sees of a block.
type blockKind struct {
	jobs  int
	of    [maxBlock]kind
	pairs [maxBlock * (maxBlock - 1) / 2]pair
}

// addBlocks adds the blocks, identical ones merged, and a row for each of their
// jobs.
func (t *table) addBlocks(claims []claim, seen func(*claim) kind, add func(kind) int) {
	blocks := map[blockKind]int{}
	for _, g := range t.groups {
		key := blockKind{jobs: len(g.claims)}
		for i, k := range g.claims {
			key.of[i] = seen(&claims[k])
		}
		copy(key.pairs[:], g.pairs)
		n, ok := blocks[key]
		if !ok {
			n = len(t.blocks)
			blocks[key] = n
			b := block{pairs: g.pairs, scale: float64(claims[g.claims[0]].scale)}
			for i := range g.claims {
				r := add(key.of[i])
				t.rows[r].block = n + 1
				b.rows = append(b.rows, r)
			}
			t.blocks = append(t.blocks, b)
		}
		t.blocks[n].count++
		for _, r := range t.blocks[n].rows {
			t.rows[r].count++
		}
		t.blockOf = append(t.blockOf, n)
	}
}

// divide turns a mixture of columns into shares of time. A mixture gives every row
// a bit of every column, so jobs would move between types all the time. Instead,
// among jobs that differ only in their need, each gets one kind of corner, whole,
// in numbers given by its weight; a running job prefers a corner with its current
// type.
func (t *table) divide(m mixture, claims []claim) {
	types := len(t.gpus)
	codes := codePair(types, types-1, types-1) + 1
	owed := map[kind][]float64{} // by code: weight less jobs so far
	for k := range claims {
		n := t.rowOf[k]
		if n < 0 {
			continue
		}
		key := kind{scale: claims[k].scale, speed: claims[k].speed}
		if owed[key] == nil {
			owed[key] = make([]float64, codes)
		}
		sum := owed[key]
		var with [32]corner
		corners := with[:0]
		for col, w := range m.weights {
			if w <= 0 {
				continue
			}
			pick := m.columns[col].picks[n]
			sum[pick.code] += w
			if !slices.ContainsFunc(corners, func(c corner) bool { return c.code == pick.code }) {
				corners = append(corners, pick)
			}
		}
		best, most := corner{}, 0.0
		for _, c := range corners {
			score := sum[c.code]
			if on := claims[k].on; on >= 0 && ((c.on[0] == on && c.time[0] > 0) || (c.on[1] == on && c.time[1] > 0)) {
				score += 0.5
			}
			if score > most {
				best, most = c, score
			}
		}
		sum[best.code]--
		for i, on := range best.on {
			claims[k].time[on] += best.time[i]
		}
		copy(claims[k].gain[:], t.rows[n].gain)
	}
}

// used is the set of parts and types that a block's times use: times with the same
// set differ little more than prices do.
type used [2]uint64

func usedBy(plays []play, types int) used {
	var out used
	for _, x := range plays {
		bit := x.part*types + x.on
		out[bit/64] |= 1 << (bit % 64)
	}
	return out
}

// least is a share of time too small for a bid.
const least = 1e-3

// divideBlocks gives every block the times of one column, and returns all shares of
// time. Where columns differ, the blocks get each in numbers given by its weight; a
// block that runs prefers the column that continues it.
func (t *table) divideBlocks(m mixture, claims []claim) []share {
	var out []share
	owed := map[float64][]float64{} // by size of jobs, by column: weight less blocks so far
	for k, g := range t.groups {
		n := t.blockOf[k]
		b := &t.blocks[n]
		if owed[b.scale] == nil {
			owed[b.scale] = make([]float64, len(m.weights))
		}
		plays := t.pick(m, n, owed[b.scale], func(plays []play) float64 { return 0.5 * runs(g, plays, claims) })
		out = t.give(g, plays, claims, out)
		for i, r := range b.rows {
			copy(claims[g.claims[i]].gain[:], t.rows[r].gain)
		}
	}
	return out
}

// pick returns the times of a block in the column that is owed most, with a bonus.
func (t *table) pick(m mixture, n int, owed []float64, bonus func([]play) float64) []play {
	sum := map[used]float64{}
	for col, w := range m.weights {
		if w > 0 {
			owed[col] += w
			sum[usedBy(m.columns[col].plays[n], len(t.gpus))] += owed[col]
		}
	}
	best, most := -1, 0.0
	for col, w := range m.weights {
		if w <= 0 {
			continue
		}
		plays := m.columns[col].plays[n]
		score := sum[usedBy(plays, len(t.gpus))] + bonus(plays)
		if best < 0 || score > most || (score == most && owed[col] > owed[best]) {
			best, most = col, score
		}
	}
	if best < 0 {
		return nil
	}
	if len(sum) > 1 {
		owed[best]--
		return m.columns[best].plays[n]
	}
	for col, w := range m.weights { // all columns are the same for it
		owed[col] -= max(0, w)
	}
	return m.columns[best].plays[n]
}

// give records the times of a block.
func (t *table) give(g group, plays []play, claims []claim, out []share) []share {
	for _, x := range plays {
		if x.time < least {
			continue
		}
		if x.part < len(g.claims) {
			claims[g.claims[x.part]].time[x.on] += x.time
			continue
		}
		p := &g.pairs[x.part-len(g.claims)]
		out = append(out, share{
			a: g.claims[p.a], b: g.claims[p.b], gpuType: x.on, time: x.time,
			slow: [2]float64{p.slow[0][x.on], p.slow[1][x.on]},
		})
	}
	return out
}

// runs returns the fraction of a block's jobs that continue as they run now under
// some times.
func runs(g group, plays []play, claims []claim) float64 {
	same := 0
	for i, k := range g.claims {
		c := &claims[k]
		if c.on >= 0 && slices.ContainsFunc(plays, func(x play) bool {
			if x.part < len(g.claims) {
				return x.part == i && c.partner < 0 && c.on == x.on
			}
			p := &g.pairs[x.part-len(g.claims)]
			return c.on == x.on && c.partner >= 0 && ((p.a == i && g.claims[p.b] == c.partner) || (p.b == i && g.claims[p.a] == c.partner))
		}) {
			same++
		}
	}
	return float64(same) / float64(len(g.claims))
}
