// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// Choice is the plans that a job may run under on one type of GPU, and how fast they are.
// It is immutable.
type Choice struct {
	Model  Model  `json:"model"`
	Params Params `json:"params"`
	Plans  []Plan `json:"plans"`
	Node   int    `json:"node"` // GPUs of a node
}

// Best returns the fastest plan on a placement and the seconds of its step; ok is false if
// no plan fits there.
func (c *Choice) Best(at Place) (best Plan, step float64, ok bool) {
	for _, p := range c.Plans {
		if !p.Fits(at) {
			continue
		}
		if s := c.Params.Step(c.Model, p, at); !ok || s < step {
			best, step, ok = p, s, true
		}
	}
	return best, step, ok
}

// Largest returns the most GPUs that a plan is for.
func (c *Choice) Largest() int {
	most := 0
	for _, p := range c.Plans {
		most = max(most, p.GPUs())
	}
	return most
}

// Packed returns the placement of so many GPUs on as few nodes as possible, or on more:
// then as evenly as possible.
func (c *Choice) Packed(gpus, nodes int) Place {
	node := max(1, c.Node)
	if least := (gpus + node - 1) / node; nodes <= least || nodes < 2 {
		counts := make([]int, 0, least)
		for ; gpus > 0; gpus -= node {
			counts = append(counts, min(gpus, node))
		}
		return On(counts...)
	}
	counts := make([]int, min(nodes, gpus))
	for i := range counts {
		counts[i] = (gpus + i) / len(counts)
	}
	return On(counts...)
}

// maxPlans bounds a choice that is taken in.
const maxPlans = 4096

// Validate reports the first thing that is out of range.
func (c *Choice) Validate() error {
	if err := c.Model.Validate(); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if err := c.Params.Validate(); err != nil {
		return fmt.Errorf("params: %w", err)
	}
	if n := len(c.Plans); n < 1 || n > maxPlans {
		return fmt.Errorf("plans has %d entries; want 1 to %d", n, maxPlans)
	}
	if c.Node < 1 || c.Node > maxCount {
		return fmt.Errorf("node = %d; want the GPUs of a node", c.Node)
	}
	for i, p := range c.Plans {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("plans[%d]: %w", i, err)
		}
	}
	return nil
}
