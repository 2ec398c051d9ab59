// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"fmt"
	"math"
)

// Params are the parameters of the throughput model of one job on one type of
// GPU (equation 12). All times are in seconds.
type Params struct {
	AlphaGrad  float64 `json:"alpha_grad"`  // computing a gradient: constant part
	BetaGrad   float64 `json:"beta_grad"`   // and for each example
	AlphaLocal float64 `json:"alpha_local"` // exchange between two GPUs of one node
	BetaLocal  float64 `json:"beta_local"`  // and for each further GPU
	AlphaNode  float64 `json:"alpha_node"`  // exchange between nodes, two GPUs
	BetaNode   float64 `json:"beta_node"`   // and for each further GPU
	// AlphaRack and BetaRack are the same between racks. If both are 0, the
	// pair of the node is used within a rack and across racks.
	AlphaRack float64 `json:"alpha_rack,omitempty"`
	BetaRack  float64 `json:"beta_rack,omitempty"`
	// Gamma is how much computing and exchange overlap: 1 not at all, 10
	// nearly fully.
	Gamma float64 `json:"gamma"`
}

// The bounds of Gamma.
const (
	MinGamma = 1
	MaxGamma = 10
)

// Shape is what the model sees of a placement.
type Shape struct {
	Nodes, GPUs int
	CrossRack   bool // the nodes are not all in one rack
}

// Grad returns the time of one gradient over local examples (equation 8).
func (p Params) Grad(local float64) float64 { return p.AlphaGrad + p.BetaGrad*local }

// Sync returns the time of the exchange of gradients (equation 9, with a third
// pair for the racks).
func (p Params) Sync(s Shape) float64 {
	if s.GPUs < 2 {
		return 0
	}
	more := float64(s.GPUs - 2)
	switch {
	case s.Nodes < 2:
		return p.AlphaLocal + p.BetaLocal*more
	case s.CrossRack && (p.AlphaRack > 0 || p.BetaRack > 0):
		return p.AlphaRack + p.BetaRack*more
	}
	return p.AlphaNode + p.BetaNode*more
}

// Step returns the time of an optimiser step without accumulation (equation
// 10).
func (p Params) Step(s Shape, local float64) float64 {
	return overlap(p.Grad(local), p.Sync(s), p.Gamma)
}

// Iter returns the time of an optimiser step with accum gradients accumulated
// before the one that is exchanged (equation 11).
func (p Params) Iter(s Shape, local float64, accum int) float64 {
	return float64(accum)*p.Grad(local) + p.Step(s, local)
}

// Throughput returns the examples processed in a second (equation 7).
func (p Params) Throughput(s Shape, local float64, accum int) float64 {
	if s.GPUs < 1 || local <= 0 || accum < 0 {
		return 0
	}
	return float64(s.GPUs) * local * float64(accum+1) / p.Iter(s, local, accum)
}

// overlap returns (a^gamma + b^gamma)^(1/gamma), written so that no
// intermediate value is far from 1: small times to a high power would vanish.
func overlap(a, b, gamma float64) float64 {
	if a < b {
		a, b = b, a
	}
	if b == 0 {
		return a
	}
	if gamma == 1 {
		return a + b
	}
	return a * math.Pow(1+math.Pow(b/a, gamma), 1/gamma)
}

// lowOverlap is a lower bound of overlap that takes no power, at most 5 % below
// it.
type lowOverlap struct {
	whole int     // part of gamma
	part  float64 // and the rest, 0 to 1
	slope float64 // of the chord of (1+y)^(1/gamma) from y = 0 to 1
}

func newLowOverlap(gamma float64) lowOverlap {
	if !(gamma >= MinGamma && gamma <= MaxGamma) {
		return lowOverlap{slope: -1} // makes 0, a bound of anything
	}
	whole := math.Floor(gamma)
	return lowOverlap{int(whole), gamma - whole, math.Exp2(1/gamma) - 1}
}

// of returns the bound. For x = b/a of 0 to 1, the harmonic mean of x and 1 is
// below the geometric one, x^part, and the chord is below the curve.
func (l lowOverlap) of(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	x := b / a
	y := x / (l.part + (1-l.part)*x)
	if b == 0 {
		y = 0
	}
	for range l.whole {
		y *= x
	}
	return a * (1 + l.slope*y)
}

// Validate reports the first parameter that is out of range.
func (p Params) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"alpha_grad", p.AlphaGrad}, {"beta_grad", p.BetaGrad},
		{"alpha_local", p.AlphaLocal}, {"beta_local", p.BetaLocal},
		{"alpha_node", p.AlphaNode}, {"beta_node", p.BetaNode},
		{"alpha_rack", p.AlphaRack}, {"beta_rack", p.BetaRack},
	} {
		if !(f.value >= 0) || math.IsInf(f.value, 1) {
			return fmt.Errorf("%s = %g; want a number of seconds, 0 or more", f.name, f.value)
		}
	}
	if p.AlphaGrad == 0 && p.BetaGrad == 0 {
		return fmt.Errorf("alpha_grad = beta_grad = 0; want at least one above 0: a gradient takes time")
	}
	if !(p.Gamma >= MinGamma && p.Gamma <= MaxGamma) {
		return fmt.Errorf("gamma = %g; want %d to %d", p.Gamma, MinGamma, MaxGamma)
	}
	return nil
}

// Efficiency returns how much an example of a batch is worth, against one of a
// batch of the initial size (equation 6). noise is the gradient noise scale in
// examples, 0 or more; +Inf gives 1. For batch >= initial the result lies
// between initial/batch and 1.
func Efficiency(noise float64, initial, batch int) float64 {
	if math.IsInf(noise, 1) {
		return 1
	}
	return (noise + float64(initial)) / (noise + float64(batch))
}

// Gain returns how many iterations at the initial batch size one step at batch
// is worth. For batch >= initial it lies between 1 and batch/initial.
func Gain(noise float64, initial, batch int) float64 {
	return Efficiency(noise, initial, batch) * float64(batch) / float64(initial)
}
