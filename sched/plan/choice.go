// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"slices"
)

// Choice is the plans that a job may run under on one type of GPU, and how fast they are.
// It is immutable.
type Choice struct {
	Model  Model  `json:"model"`
	Params Params `json:"params"`
	Plans  []Plan `json:"plans"`
	Node   int    `json:"node"` // GPUs of a node
	// Known are steps as they were last measured. Where there is one, it counts and not
	// the model.
	Known []Sample `json:"known,omitempty"`
}

// Parts returns what a step under a plan on a placement was measured to spend besides
// computing; zero: nothing is known.
func (c *Choice) Parts(p Plan, at Place) Parts {
	for _, s := range c.Known {
		if s.Plan == p && s.At == at {
			return s.Parts
		}
	}
	return Parts{}
}

// Step returns the seconds of a step under a plan that fits on a placement, and whether
// they were measured there.
func (c *Choice) Step(p Plan, at Place) (step float64, measured bool) {
	for _, s := range c.Known {
		if s.Plan == p && s.At == at {
			return s.Step, true
		}
	}
	return c.Params.Step(c.Model, p, at), false
}

// Measured returns the choice with a measured step more, fitted to all of them.
func (c *Choice) Measured(s Sample) (*Choice, error) {
	next := *c
	for _, old := range c.Known {
		if old.Plan == s.Plan && old.At == s.At && s.Parts == (Parts{}) {
			s.Parts = old.Parts // measured now and then
		}
	}
	next.Known = slices.DeleteFunc(slices.Clone(c.Known), func(old Sample) bool { return old.Plan == s.Plan && old.At == s.At })
	if len(next.Known) < maxKnown {
		next.Known = append(next.Known, s)
	}
	var err error
	next.Params, err = Fit(c.Model, next.Known)
	return &next, err
}

// Best returns the fastest plan on a placement and the seconds of its step; ok is false if
// no plan fits there.
func (c *Choice) Best(at Place) (best Plan, step float64, ok bool) {
	for _, p := range c.Plans {
		if !p.Fits(at) {
			continue
		}
		if s, _ := c.Step(p, at); !ok || s < step {
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

// maxPlans and maxKnown bound a choice that is taken in.
const maxPlans, maxKnown = 4096, 64

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
	if n := len(c.Known); n > maxKnown {
		return fmt.Errorf("known has %d entries; want at most %d", n, maxKnown)
	}
	for i, s := range c.Known {
		if !(s.Step > 0) || math.IsInf(s.Step, 1) || !s.Plan.Fits(s.At) {
			return fmt.Errorf("known[%d] = %+v; want a plan that fits there, and seconds above 0", i, s)
		}
		if err := s.Parts.Validate(); err != nil {
			return fmt.Errorf("known[%d]: %w", i, err)
		}
	}
	return nil
}
