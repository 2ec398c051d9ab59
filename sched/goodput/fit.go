// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"errors"
	"math"
)

// ErrNoSamples is the error of a fit to an empty profile.
var ErrNoSamples = errors.New("fit throughput model: the profile has no samples")

// memorable is the number of samples from which a Fitter starts from its last result.
// Fewer samples have many good fits, and are fitted quickly anyway.
const memorable = 16

// Fitter fits the growing profile of one job. It starts from its last parameters,
// which saves time. Each time it also tries the starting point of a first fit, and
// uses it if the loss there is lower by half a percent, so that the result hardly
// depends on earlier fits. The zero value is ready to use.
type Fitter struct {
	last   vector
	pinned [dims]bool
	warm   bool
}

// Fitters holds a Fitter for each GPU type.
type Fitters map[string]*Fitter

// Fit fits the model of a GPU type; ok is false if nothing was measured.
func (f *Fitters) Fit(gpuType string, p *Profile) (params Params, ok bool, err error) {
	if p.Len() == 0 {
		return Params{}, false, nil
	}
	if *f == nil {
		*f = Fitters{}
	}
	if (*f)[gpuType] == nil {
		(*f)[gpuType] = &Fitter{}
	}
	params, err = (*f)[gpuType].Fit(p)
	return params, err == nil, err
}

// Fit returns the parameters with the smallest loss for a profile. Parameters that the
// profile does not determine get optimistic values, so that a job tries placements
// that it has not run on.
//
//   - One local batch size seen: half of the gradient time is constant.
//   - Nothing seen across nodes: an exchange across nodes costs only a little
//     more than one within a node, by a tenth.
//   - Nothing seen on several GPUs of one node: an exchange there is free.
//   - Nothing seen on more than two GPUs: an exchange does not grow with them.
func (f *Fitter) Fit(p *Profile) (Params, error) {
	if p.Len() == 0 {
		return Params{}, ErrNoSamples
	}
	q := newProblem(p)
	guess := q.guess(1, 0)
	if f.warm && p.Len() >= memorable {
		f.last = q.search(f.resume(q, guess), guess)
	} else {
		f.last = q.search(guess, q.guess(2, 0.02))
	}
	f.pinned, f.warm = q.pinned, true
	return q.finish(f.last), nil
}

// resume returns the last result, with a guess for parameters that were undetermined
// then.
func (f *Fitter) resume(q *problem, guess vector) vector {
	v := f.last
	for i := range dims {
		if q.pinned[i] || f.pinned[i] {
			v[i] = guess[i]
		}
	}
	return v
}

// finish returns the parameters of a vector. It assumes the cost of an exchange across
// nodes if that was not measured.
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
	grads := make(map[int]int, 64)
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

		c := syncClass{first: alone}
		if s.GPUs > 1 {
			c = syncClass{first: alphaLocal, more: float64(s.GPUs - 2)}
			if s.Nodes > 1 {
				c.first = alphaNode
			}
			seen.local = seen.local || s.Nodes == 1
			seen.node = seen.node || s.Nodes > 1
			seen.many = seen.many || s.GPUs > 2
		}
		// Samples of the same placement follow each other.
		if last := len(q.syncs) - 1; last < 0 || q.syncs[last] != c {
			q.syncs = append(q.syncs, c)
		}
		q.steps = append(q.steps, stepObs{g, len(q.syncs) - 1, math.Log(s.Step)})
	}
	q.pin(len(q.grads) == 1, alphaGrad, max(floor, mean/2))
	q.pin(!seen.local, alphaLocal, floor)
	q.pin(!seen.node, alphaNode, floor)
	q.pin(!seen.local || !seen.many, betaLocal, floor)
	q.pin(!seen.node || !seen.many, betaNode, floor)
	return q
}

// add adds the logarithm of a measured time to mean and spread.
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
// exchanges as long as they must be on average if gamma and the ratio of beta to
// alpha are right.
func (q *problem) guess(gamma, ratio float64) vector {
	v := q.pins
	v[gammaAt] = gamma
	v[alphaGrad], v[betaGrad] = q.line()
	for _, first := range [...]int{alphaLocal, alphaNode} {
		if q.pinned[first] {
			continue
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
			sum += g + math.Log(more)/gamma - math.Log1p(ratio*c.more)
			n++
		}
		v[first] = within(first, math.Exp(sum/n))
		if !q.pinned[first+1] {
			v[first+1] = within(first+1, ratio*v[first])
		}
	}
	return v
}

func within(i int, x float64) float64 { return min(max(x, lowest[i]), highest[i]) }

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
		return alpha, within(betaGrad, (sumTwo-alpha*cross)/two)
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
	return within(alphaGrad, alpha), within(betaGrad, beta)
}
