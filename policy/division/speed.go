// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"maps"
	"math"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// Span is how far apart the GPUs of a row are: all that the model of goodput
// sees of a placement besides their number.
type Span uint8

const (
	Local Span = iota // one node
	Near              // several nodes of one rack
	Far               // several racks
	spans
)

// Curve is the goodput of one report on one type of GPU, by number of GPUs and
// span. It is computed on demand, and kept as long as the report is the job's last one.
type Curve struct {
	one    float64 // see One; 0: not computed, or nothing
	usable int
	at     [spans][]float64
	report *goodput.Report
	kind   string // of GPU
	racks  bool   // far differs from near
}

// Usable returns the most GPUs that the report says the job can use, or has had; 0: it
// says nothing.
func (c *Curve) Usable() int { return c.usable }

// Curves are the curves of all jobs, by report: reports are immutable, so the address
// will do. Those that the last decision did not use are forgotten once they are half of all.
type Curves struct {
	known    map[*goodput.Report]*byType
	decision int
	used     int // reports that this decision has asked for

	// What the last decision and this one have asked for, in order: two decisions mostly ask
	// for the same, which saves looking it up.
	last, now []asked
	next      int // where in last this decision is
}

// asked is a report and its curves.
type asked struct {
	report *goodput.Report
	of     *byType
}

// byType holds the curves of one report.
type byType struct {
	decision int // that used it last
	types    []sched.GPUType
	curves   []*Curve // by types; nil: it has no model for that
}

// turn begins a new decision.
func (c *Curves) turn() {
	if len(c.known) >= 2*c.used {
		maps.DeleteFunc(c.known, func(_ *goodput.Report, of *byType) bool { return of.decision != c.decision })
	}
	c.decision++
	c.used = 0
	c.last, c.now, c.next = c.now, c.last[:0], 0
}

// find returns the curves of a report; nil: there are none yet.
func (c *Curves) find(r *goodput.Report) *byType {
	// The same report again, the next one, or the one after that if a job has ended.
	for k := max(0, c.next-1); k < min(c.next+2, len(c.last)); k++ {
		if c.last[k].report == r {
			c.next = k + 1
			return c.last[k].of
		}
	}
	return c.known[r]
}

// of returns the curve of a report on a type; nil: it has no model for that.
func (c *Curves) of(r *goodput.Report, kind sched.GPUType) *Curve {
	if r == nil || c == nil {
		return nil
	}
	of := c.find(r)
	if of == nil {
		if c.known == nil {
			c.known = map[*goodput.Report]*byType{}
		}
		of = &byType{decision: c.decision - 1}
		c.known[r] = of
	}
	if of.decision != c.decision {
		of.decision = c.decision
		c.used++
		c.now = append(c.now, asked{r, of})
	}
	for i, t := range of.types {
		if t == kind {
			return of.curves[i]
		}
	}
	var curve *Curve
	if r.Models(string(kind)) {
		params := r.Params[string(kind)]
		curve = &Curve{
			report: r, kind: string(kind), racks: params.AlphaRack > 0 || params.BetaRack > 0,
			usable: cmp.Or(max(0, r.UsableGPUs), max(0, r.MostGPUs)),
		}
	}
	of.types, of.curves = append(of.types, kind), append(of.curves, curve)
	return curve
}

// Goodput returns the best goodput on n GPUs.
func (c *Curve) Goodput(s Span, n int) float64 {
	if s == Far && !c.racks {
		s = Near
	}
	for len(c.at[s]) <= n {
		c.at[s] = append(c.at[s], math.NaN())
	}
	g := c.at[s][n]
	if g != g {
		shape := goodput.Shape{Nodes: 1, GPUs: n, CrossRack: s == Far}
		if s != Local {
			shape.Nodes = 2 // the models ask only whether there are several
		}
		_, g, _ = c.report.Goodput(c.kind, shape)
		if !(g > 0) || math.IsInf(g, 1) {
			g = 0
		}
		c.at[s][n] = g
	}
	return g
}

// One returns the goodput of one GPU; of a job whose plans need more, its part of the
// goodput of the smallest number that will do.
func (c *Curve) One() float64 {
	if c.one == 0 {
		c.one = c.Goodput(Local, 1)
		if plans := c.report.Plans[c.kind]; plans != nil {
			for n := 2; c.one == 0 && n <= plans.Largest(); n++ {
				c.one = c.Goodput(Local, n) / float64(n)
			}
		}
	}
	return c.one
}

// fair returns the goodput on a fair share of n GPUs on one node. A share that
// the job's batch cannot be split over is halved until it can; of a job whose plans need
// more, the share of one that has them now and then.
func (c *Curve) fair(n int) float64 {
	for part := n; part > 0; part /= 2 {
		if g := c.Goodput(Local, part); g > 0 {
			return g
		}
	}
	return c.One() * float64(n)
}
