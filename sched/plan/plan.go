// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// Sharding is what the replicas of a model divide among them.
type Sharding uint8

// The kinds of sharding.
const (
	Replicated Sharding = iota // nothing: every replica has everything
	Optimizer                  // the state of the optimiser (ZeRO, stage 1)
	Full                       // weights and gradients too (FSDP; ZeRO, stage 3)
)

// Plan is a way to train a model on a number of GPUs. In files and on the wire it is its
// name (String); an object with these fields is read too.
type Plan struct {
	Data     int `json:"data"`     // replicas
	Tensor   int `json:"tensor"`   // GPUs that share each layer, all in one node
	Pipeline int `json:"pipeline"` // stages, each with a part of the layers
	// Micro is into how many parts, one after the other, a replica's share of the batch is
	// divided: gradients that are accumulated, and what fills a pipeline.
	Micro     int      `json:"micro"`
	Sharding  Sharding `json:"sharding"`
	Offload   bool     `json:"offload"`   // the optimiser's state and its work are on the host
	Recompute bool     `json:"recompute"` // activations are computed again for the backward pass, not kept
}

// GPUs returns the number of GPUs of a plan.
func (p Plan) GPUs() int { return p.Data * p.Tensor * p.Pipeline }

// Validate reports the first field that is out of range.
func (p Plan) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"data", p.Data}, {"tensor", p.Tensor}, {"pipeline", p.Pipeline}, {"micro", p.Micro}} {
		if f.value < 1 || f.value > 1<<20 {
			return fmt.Errorf("%s = %d; want 1 to %d", f.name, f.value, 1<<20)
		}
	}
	if p.Sharding > Full {
		return fmt.Errorf("sharding = %d; want 0 to %d", p.Sharding, Full)
	}
	return nil
}

// Place is what the model of time sees of a placement.
type Place struct {
	GPUs  int `json:"gpus"`
	Nodes int `json:"nodes"`
	Least int `json:"least"` // GPUs on the node that has the fewest
	Even  int `json:"even"`  // the largest number that divides the GPUs of every node
}

// On returns a placement with so many GPUs on each node.
func On(counts ...int) Place {
	at := Place{Nodes: len(counts)}
	for i, n := range counts {
		at.GPUs += n
		at.Even = gcd(at.Even, n)
		if i == 0 || n < at.Least {
			at.Least = n
		}
	}
	return at
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// Fits reports whether a plan can run on a placement: it has as many GPUs, and no layer is
// shared by GPUs of two nodes.
func (p Plan) Fits(at Place) bool {
	return p.GPUs() == at.GPUs && at.Even%p.Tensor == 0
}
