// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"errors"
	"math"
)

// ErrNoSamples is the error of a fit to an empty profile.
var ErrNoSamples = errors.New("fit throughput model: the profile has no samples")

// Fit returns the parameters with the smallest Loss for a profile. What the
// profile cannot tell is fixed beforehand, hopefully: a job should find out
// about placements it has not seen, not be kept from them.
//
//   - One local batch size seen: half of the gradient time is constant.
//   - Nothing seen across nodes: an exchange across nodes costs only a little
//     more than one within a node, by a tenth.
//   - Nothing seen on several GPUs of one node: an exchange there is free.
//   - Nothing seen on more than two GPUs: an exchange does not grow with them.
func Fit(p *Profile) (Params, error) {
	var f Fitter
	return f.Fit(p)
}

// Fitter fits the profile of one job again and again as it grows. It begins
// with the parameters found last, which saves time; it also looks, every time,
// at where a first fit would begin, so that the loss is never more than half a
// percent above that of Fit. The zero value is ready to use.
type Fitter struct {
	last   vector
	pinned [dims]bool
	warm   bool
}

// Fit returns the parameters with the smallest loss, as the function Fit does.
func (f *Fitter) Fit(p *Profile) (Params, error) {
	if p.Len() == 0 {
		return Params{}, ErrNoSamples
	}
	q := newProblem(p)
	starts := []vector{q.guess(1, 0), q.guess(3, 0.02)}
	if f.warm {
		again := f.last
		for i := range dims {
			switch {
			case q.pinned[i]:
				again[i] = q.pins[i]
			case f.pinned[i]:
				again[i] = starts[0][i] // was unknown until now
			}
		}
		starts = append([]vector{again}, starts...)
	}
	f.last, _ = q.search(starts)
	f.pinned, f.warm = q.pinned, true
	return q.finish(f.last), nil
}

// finish returns the parameters of a vector, with those made up that nothing is
// known about.
func (q *problem) finish(v vector) Params {
	found := v.params()
	if q.pinned[alphaNode] {
		const farther = 1.1
		found.AlphaNode = max(found.AlphaNode, farther*found.AlphaLocal)
		found.BetaNode = max(found.BetaNode, farther*found.BetaLocal)
	}
	return found
}

func newProblem(p *Profile) *problem {
	q := &problem{count: float64(p.Len()), steps: make([]stepObs, 0, p.Len())}
	type exchange struct{ first, gpus int }
	grads, syncs := map[int]int{}, map[exchange]int{}
	var seen struct{ local, node, many bool }
	mean := 0.0
	for _, s := range p.samples {
		g, ok := grads[s.Local]
		if !ok {
			g = len(q.grads)
			grads[s.Local] = g
			q.grads = append(q.grads, gradClass{local: float64(s.Local)})
		}
		q.grads[g].add(math.Log(s.Grad()))
		mean += s.Grad() / q.count

		e := exchange{alone, s.GPUs}
		if s.GPUs > 1 && s.Nodes > 1 {
			e.first, seen.node = alphaNode, true
		} else if s.GPUs > 1 {
			e.first, seen.local = alphaLocal, true
		}
		seen.many = seen.many || s.GPUs > 2
		x, ok := syncs[e]
		if !ok {
			x = len(q.syncs)
			syncs[e] = x
			q.syncs = append(q.syncs, syncClass{first: e.first, more: float64(s.GPUs - 2)})
		}
		q.steps = append(q.steps, stepObs{g, x, math.Log(s.Step)})
	}
	q.pin(len(q.grads) == 1, alphaGrad, max(floor, mean/2))
	q.pin(!seen.local, alphaLocal, floor)
	q.pin(!seen.node, alphaNode, floor)
	q.pin(!seen.local || !seen.many, slopeLocal, 0)
	q.pin(!seen.node || !seen.many, slopeNode, 0)
	return q
}

// add takes the logarithm of a measured time into mean and spread.
func (c *gradClass) add(log float64) {
	c.count++
	off := log - c.mean
	c.mean += off / c.count
	c.spread += off * (log - c.mean)
}

func (q *problem) pin(unknown bool, i int, value float64) {
	if unknown {
		q.pinned[i], q.pins[i] = true, value
	}
}

// guess returns where to begin: a straight line through the gradient times, and
// exchanges as long as they must be on average if gamma and slope are right.
func (q *problem) guess(gamma, slope float64) vector {
	v := q.pins
	v[gammaAt] = gamma
	v[alphaGrad], v[betaGrad] = q.line()
	for _, first := range [...]int{alphaLocal, alphaNode} {
		if q.pinned[first] {
			continue
		}
		if !q.pinned[first+1] {
			v[first+1] = slope
		}
		sum, n := 0.0, 0.0
		for _, o := range q.steps {
			c := q.syncs[o.sync]
			if c.first != first {
				continue
			}
			const least = 1e-3 // of the step is spent on the exchange, at least
			g := math.Log(v[alphaGrad] + v[betaGrad]*q.grads[o.grad].local)
			more := math.Expm1(gamma * max(least, o.log-g))
			sum += g + math.Log(more)/gamma - math.Log1p(v[first+1]*c.more)
			n++
		}
		v[first] = min(max(math.Exp(sum/n), lowest[first]), highest[first])
	}
	return v
}

// line returns the straight line with the least relative error through the
// gradient times. If that would fall, or begin below 0, it returns one that
// does so only just.
func (q *problem) line() (alpha, beta float64) {
	var one, cross, two, sumOne, sumTwo, local float64
	for _, c := range q.grads {
		x := math.Exp(-c.mean)
		y := x * c.local
		one += c.count * x * x
		cross += c.count * x * y
		two += c.count * y * y
		sumOne += c.count * x
		sumTwo += c.count * y
		local += c.count * c.local / q.count
	}
	const little = 0.01
	if q.pinned[alphaGrad] {
		alpha = q.pins[alphaGrad]
		return alpha, max(floor, (sumTwo-alpha*cross)/two)
	}
	det := one*two - cross*cross
	alpha, beta = (sumOne*two-sumTwo*cross)/det, (sumTwo*one-sumOne*cross)/det
	switch {
	case !(alpha > 0):
		beta = sumTwo / two
		alpha = little * beta * local
	case !(beta > 0):
		alpha = sumOne / one
		beta = little * alpha / local
	}
	return min(max(alpha, floor), highest[alphaGrad]), min(max(beta, floor), highest[betaGrad])
}
