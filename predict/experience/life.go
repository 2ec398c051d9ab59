// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"sort"
	"time"
)

// Run times are counted in cells of a grid of their logarithms, from one second to nine
// months.
const (
	cell  = 0.05 // width: about 5 % of a run time
	cells = 330
)

func cellOf(log float64) int { return max(0, min(cells-1, int(log/cell))) }

// group counts the jobs that left the watch in each cell: that ended in it, and that had
// run for so long when they were last seen.
type group struct {
	ended, left [cells]float64
	all         float64
}

// add counts a job. Run times differ a little from those seen before, so an end counts in
// the cells around it, the more the nearer.
func (g *group) add(log, weight float64, ended bool) {
	g.all += weight
	if !ended {
		g.left[cellOf(log)] += weight
		return
	}
	x := log/cell - 1 // beginning one cell before it
	c := math.Floor(x)
	beyond := x - c
	for i, part := range [...]float64{(1 - beyond) / 2, 0.5, beyond / 2} {
		at := max(0, min(cells-1, int(c)+i))
		g.ended[at] += part * weight
		g.left[at] += part * weight
	}
}

// hazard is the chance, for each cell, that a job ends in it if it has lasted until then.
type hazard [cells]float64

// Before any job has ended, run times are taken to be lognormal, so widely spread that a
// few jobs outweigh it. What it says of the longest jobs counts on, where no job has been.
const (
	assumedMiddle = time.Hour
	assumedSpread = 2.0
)

// assumedLasts is the logarithm of the chance to outlast each cell, by that.
var assumedLasts = func() (out [cells]float64) {
	lasts := func(c int) float64 {
		return math.Erfc((cell*float64(c) - math.Log(assumedMiddle.Seconds())) / assumedSpread / math.Sqrt2)
	}
	for c := range out {
		out[c] = math.Log(lasts(c+1) / lasts(c))
	}
	return out
}()

// assumed returns that hazard, so many times.
func assumed(times float64) (h hazard) {
	for c, lasts := range assumedLasts {
		h[c] = -math.Expm1(times * lasts)
	}
	return h
}

// mix adds what a group shows to what is known from a wider one, which counts as so many
// jobs (the posterior mean of a beta process; Hjort 1990).
func (h *hazard) mix(g *group, wider float64) {
	risk := g.all
	for c := range h {
		h[c] = (g.ended[c] + wider*h[c]) / (max(risk, g.ended[c]) + wider)
		risk -= g.left[c]
	}
}

// chance returns that of an end at a time if the group is mixed in; it changes nothing.
func (h *hazard) chance(g *group, wider, log float64) float64 {
	risk, lasts, at := g.all, 1.0, cellOf(log)
	for c := range at {
		lasts *= 1 - (g.ended[c]+wider*h[c])/(max(risk, g.ended[c])+wider)
		risk -= g.left[c]
	}
	return lasts * (g.ended[at] + wider*h[at]) / (max(risk, g.ended[at]) + wider)
}

// life is the distribution of a run time: the weight of all cells before each.
type life [cells + 1]float64

// life returns the distribution that a hazard leads to. If likely is not nil, each cell
// weighs as much more as it says.
func (h *hazard) life(likely *[cells]float64) *life {
	var l life
	lasts := 1.0
	for c, p := range h {
		if c == cells-1 {
			p = 1
		}
		weight := lasts * p
		if likely != nil {
			weight *= likely[c]
		}
		l[c+1] = l[c] + weight
		lasts *= 1 - p
	}
	return &l
}

// after returns the logarithm of a run time beyond that of from, such that a part u of
// those is shorter.
func (l *life) after(from, u float64) float64 {
	x := max(0, from/cell)
	b := min(cells-1, int(x))
	before := l[b] + min(1, x-float64(b))*(l[b+1]-l[b])
	if l[cells]-before <= 1e-12*l[cells] {
		return from - math.Log1p(-u)
	}
	want := before + u*(l[cells]-before)
	c := b + sort.Search(cells-1-b, func(i int) bool { return l[b+i+1] >= want })
	within := 0.5
	if weight := l[c+1] - l[c]; weight > 0 {
		within = (want - l[c]) / weight
	}
	return max(from, cell*(float64(c)+within))
}
