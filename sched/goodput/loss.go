// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import "math"

// The loss of parameters says how badly they explain a profile: the root mean
// square error of the logarithm of the gradient time, plus that of the step time,
// plus a small charge for overlap and for exchanges that grow steeply with the
// number of GPUs, which decides between explanations that are equally good.
// Every sample of the profile counts the same, however many measurements it is
// the mean of. These are the weights of the charge: for gamma away from 1, and
// for beta/alpha.
const (
	gammaWeight = 1e-3
	ratioWeight = 1e-2
)

// floor is the lower bound of every alpha and beta in seconds, and what stands
// for nothing.
const floor = 1e-8

// The search for the parameters works on vectors. The two parameters of an
// exchange follow each other, alpha first.
const (
	alphaGrad = iota
	betaGrad
	alphaLocal
	betaLocal
	alphaNode
	betaNode
	gammaAt
	dims
)

type vector [dims]float64

func (v *vector) params() Params {
	return Params{
		AlphaGrad: v[alphaGrad], BetaGrad: v[betaGrad],
		AlphaLocal: v[alphaLocal], BetaLocal: v[betaLocal],
		AlphaNode: v[alphaNode], BetaNode: v[betaNode],
		Gamma: v[gammaAt],
	}
}

// problem is a profile prepared for the search. Samples of the same local batch
// share one prediction of the gradient, those of the same placement one of the
// exchange.
type problem struct {
	count  float64 // samples
	grads  []gradClass
	syncs  []syncClass
	steps  []stepObs
	pinned [dims]bool
	pins   vector // the values of those pinned
}

type gradClass struct {
	local, count float64
	mean         float64 // of the logarithms of the measured times
	spread       float64 // sum of their squared deviations from mean
	log, inverse float64 // of the time predicted last
}

type syncClass struct {
	first        int     // alphaLocal or alphaNode; alone: one GPU
	more         float64 // GPUs beyond the second
	log, inverse float64 // of the time predicted last
}

const alone = -1

type stepObs struct {
	grad, sync int     // classes
	log        float64 // of the measured step
}

// surface is the loss at one point, with all that is needed of its first
// derivatives.
type surface struct {
	loss  float64
	norms [2]norm // of the gradient times and of the step times
	pulls [3]pull
}

// norm is the root mean square of residuals; slope is the mean of residual
// times derivative, gram the mean product of derivatives.
type norm struct {
	size  float64
	slope vector
	gram  [dims]vector
}

// pull is a residual whose square is added to the loss, with its derivatives by
// two of the parameters.
type pull struct {
	value float64
	at    [2]int
	slope [2]float64
}

// blunt rounds off the tip of a norm, where a fit without any error would have
// no derivatives. It adds less than itself to the loss.
const blunt = 1e-5

// measure fills s for the point v.
func (p *problem) measure(v *vector, s *surface) {
	*s = surface{}
	p.measureGrads(v, &s.norms[0])
	p.measureSteps(v, &s.norms[1])
	gammaRoot, ratioRoot := math.Sqrt(gammaWeight), math.Sqrt(ratioWeight)
	s.pulls[0] = pull{gammaRoot * (v[gammaAt] - MinGamma), [2]int{gammaAt, alphaLocal}, [2]float64{gammaRoot, 0}}
	for i, first := range [...]int{alphaLocal, alphaNode} {
		ratio := ratioRoot * v[first+1] / v[first]
		s.pulls[i+1] = pull{ratio, [2]int{first + 1, first}, [2]float64{ratioRoot / v[first], -ratio / v[first]}}
	}
	s.loss = s.norms[0].size + s.norms[1].size
	for _, r := range s.pulls {
		s.loss += r.value * r.value
	}
}

func (p *problem) measureGrads(v *vector, n *norm) {
	sum := 0.0
	for i := range p.grads {
		c := &p.grads[i]
		t := v[alphaGrad] + v[betaGrad]*c.local
		c.log, c.inverse = math.Log(t), 1/t
		r := c.log - c.mean
		sum += c.count*r*r + c.spread
		n.addGrad(c.count, r, c.inverse, c.local)
	}
	n.finish(sum, p.count)
}

// addGrad adds samples with residual r that depends on the gradient alone.
func (n *norm) addGrad(count, r, inverse, local float64) {
	da, db := inverse, inverse*local
	n.slope[alphaGrad] += count * r * da
	n.slope[betaGrad] += count * r * db
	n.gram[alphaGrad][alphaGrad] += count * da * da
	n.gram[betaGrad][alphaGrad] += count * db * da
	n.gram[betaGrad][betaGrad] += count * db * db
}

func (p *problem) measureSteps(v *vector, n *norm) {
	for i := range p.syncs {
		if c := &p.syncs[i]; c.first != alone {
			t := v[c.first] + v[c.first+1]*c.more
			c.log, c.inverse = math.Log(t), 1/t
		}
	}
	sum := 0.0
	for _, o := range p.steps {
		g, c := &p.grads[o.grad], &p.syncs[o.sync]
		if c.first == alone {
			r := g.log - o.log
			sum += r * r
			n.addGrad(1, r, g.inverse, g.local)
			continue
		}
		log, share := overlapLog(g.log, c.log, v[gammaAt])
		r := log - o.log
		sum += r * r
		da := (1 - share) * g.inverse
		n.addStep(c.first, r, [5]float64{
			da, da * g.local,
			share * c.inverse, share * c.inverse * c.more,
			(share*c.log + (1-share)*g.log - log) / v[gammaAt],
		})
	}
	n.finish(sum, p.count)
}

// overlapLog returns the logarithm of what overlap makes of two times, given
// their logarithms, and its derivative by the logarithm of the second. The
// derivative by that of the first is what is left to 1.
func overlapLog(a, b, gamma float64) (log, share float64) {
	z := gamma * (b - a)
	if z > 0 {
		e := math.Exp(-z)
		return b + math.Log1p(e)/gamma, 1 / (1 + e)
	}
	e := math.Exp(z)
	return a + math.Log1p(e)/gamma, e / (1 + e)
}

// addStep adds a sample with residual r that depends on the gradient, on the
// pair of the exchange that begins at first, and on gamma: d are its
// derivatives in that order. Written out because most of the time of a fit
// is spent here.
func (n *norm) addStep(first int, r float64, d [5]float64) {
	n.slope[alphaGrad] += r * d[0]
	n.slope[betaGrad] += r * d[1]
	n.slope[first] += r * d[2]
	n.slope[first+1] += r * d[3]
	n.slope[gammaAt] += r * d[4]
	n.gram[alphaGrad][alphaGrad] += d[0] * d[0]
	n.gram[betaGrad][alphaGrad] += d[1] * d[0]
	n.gram[betaGrad][betaGrad] += d[1] * d[1]
	alpha, beta, gamma := &n.gram[first], &n.gram[first+1], &n.gram[gammaAt]
	alpha[alphaGrad] += d[2] * d[0]
	alpha[betaGrad] += d[2] * d[1]
	alpha[first] += d[2] * d[2]
	beta[alphaGrad] += d[3] * d[0]
	beta[betaGrad] += d[3] * d[1]
	beta[first] += d[3] * d[2]
	beta[first+1] += d[3] * d[3]
	gamma[alphaGrad] += d[4] * d[0]
	gamma[betaGrad] += d[4] * d[1]
	gamma[first] += d[4] * d[2]
	gamma[first+1] += d[4] * d[3]
	gamma[gammaAt] += d[4] * d[4]
}

// finish turns sums over samples into means, and completes the gram matrix.
func (n *norm) finish(sum, count float64) {
	n.size = math.Sqrt(sum/count + blunt*blunt)
	for i := range dims {
		n.slope[i] /= count
		for j := range i + 1 {
			n.gram[i][j] /= count
			n.gram[j][i] = n.gram[i][j]
		}
	}
}
