// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
)

// Params say how fast one model trains on one type of GPU, at one batch size. All but
// Kernel are in seconds.
type Params struct {
	Compute float64 `json:"compute"` // of the gradients of a step, on one GPU
	Fixed   float64 `json:"fixed"`   // of every step, whatever the plan
	Network float64 `json:"network"` // of sending all gradients through one network port
	Update  float64 `json:"update"`  // of the optimiser, for the whole model on one GPU
	Tensor  float64 `json:"tensor"`  // of the exchanges of tensor parallelism, at one replica and many GPUs
	Host    float64 `json:"host"`    // of the optimiser on the host, with the way there and back, for one GPU
	Kernel  float64 `json:"kernel"`  // computing time with the code for model parallelism, over that without
}

// What the seven parameters leave out, the same for every model. The first two are facts
// about arithmetic; the others were chosen once for the nodes of the Rubick measurements
// (docs/reproduction/plans.md).
const (
	again      = 1.0 / 3 // of the computing is the forward pass, which recomputation repeats
	back       = 2.0 / 3 // of the computing is the backward pass, which hides the exchange
	portGPUs   = 2       // GPUs that share a network port
	local      = 0.1     // time of an exchange within a node, over one through a network port
	hidden     = 3       // how well the exchange hides, as goodput.Params.Gamma
	hostAlone  = 1.0 / 3 // of the host's work does not shrink with more replicas
	hostSwap   = 1.0 / 6 // of the host's work is added by every further part of the batch
	stageSends = 2.5     // a stage's sends, over a layer's exchanges of tensor parallelism
)

// Step returns the seconds of an optimiser step.
func (q Params) Step(m Model, p Plan, at Place) float64 {
	d, t, s, micro := float64(p.Data), float64(p.Tensor), float64(p.Pipeline), float64(max(1, p.Micro))
	turns := p.turns()
	compute := q.Compute / (d * t) * turns
	if p.Tensor*p.Pipeline > 1 {
		compute *= q.Kernel
	}
	backward := back * compute
	if p.Recompute {
		backward += again * compute
	}
	step := q.Fixed + (1-back)*compute + q.layers(p, turns) +
		q.Tensor*stageSends/float64(max(1, m.Layers))*(s-1)/d
	exchange, gather := q.replicas(p, at)
	update := q.Update / (t * s)
	if p.Sharding != Replicated {
		update /= d
	}
	if p.Offload {
		update = q.Host * (hostAlone + (1-hostAlone)/d + hostSwap*(micro-1)) / (t * s)
	}
	return step + overlap(backward, exchange) + gather + update
}

// Exchange returns the seconds of a step in which collective exchanges are under way.
func (q Params) Exchange(p Plan, at Place) float64 {
	hidden, gather := q.replicas(p, at)
	return hidden + gather + q.layers(p, p.turns())
}

// turns is the time that a pipeline takes for its parts, over what one GPU would: its stages
// wait for each other at both ends of a step.
func (p Plan) turns() float64 {
	s, micro := float64(p.Pipeline), float64(max(1, p.Micro))
	return (micro + s - 1) / (micro * s)
}

// layers returns the seconds in which the GPUs of a layer exchange what they computed.
func (q Params) layers(p Plan, turns float64) float64 {
	d, t := float64(p.Data), float64(p.Tensor)
	return q.Tensor * (t - 1) / t / d * turns
}

// replicas returns the seconds in which replicas exchange what they share: on the way, where
// the backward pass hides it, and after the update.
func (q Params) replicas(p Plan, at Place) (hidden, gather float64) {
	exchange := q.exchange(p, at)
	switch p.Sharding {
	case Optimizer: // gradients are reduced on the way, weights gathered after the update
		return exchange / 2, exchange / 2
	case Full: // weights are gathered on the way, twice
		return 1.5 * exchange, 0
	default:
		return exchange, 0
	}
}

// exchange returns the seconds in which the replicas add up their gradients. The replicas
// of a stage are next to each other; the ports of a node carry what leaves it.
func (q Params) exchange(p Plan, at Place) float64 {
	if p.Data < 2 {
		return 0
	}
	ring := 2 * float64(p.Data-1) / float64(p.Data)
	if at.Nodes == 1 || p.Data*p.Tensor <= at.Least {
		return q.Network * local * ring / float64(p.Tensor*p.Pipeline)
	}
	ports := (at.Least + portGPUs - 1) / portGPUs
	return q.Network * ring / float64(p.Pipeline*ports)
}

// overlap returns the time of two things of which the longer hides most of the shorter.
func overlap(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if b == 0 {
		return a
	}
	return a * math.Pow(1+math.Pow(b/a, hidden), 1.0/hidden)
}

// Validate reports the first parameter that is out of range.
func (q Params) Validate() error {
	for i, v := range q.vector() {
		if !(v > 0) || math.IsInf(v, 1) {
			return fmt.Errorf("%s = %g; want a number above 0", paramNames[i], v)
		}
	}
	return nil
}

const dims = 7

// vector is Params as a list, in which the fit looks for the best.
type vector [dims]float64

var paramNames = [dims]string{"compute", "fixed", "network", "update", "tensor", "host", "kernel"}

func (q Params) vector() vector {
	return vector{q.Compute, q.Fixed, q.Network, q.Update, q.Tensor, q.Host, q.Kernel}
}

func (v vector) params() Params {
	return Params{Compute: v[0], Fixed: v[1], Network: v[2], Update: v[3], Tensor: v[4], Host: v[5], Kernel: v[6]}
}
