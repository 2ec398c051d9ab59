// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
)

// Options are the plans that a job may run under: those of List, whose memory is the
// user's concern, and those that Generate makes of its kinds of plans (see ParseSpace) and
// that fit in memory.
type Options struct {
	Model    Model    `json:"model,omitzero"`
	Generate []string `json:"generate,omitempty"`
	List     []Plan   `json:"list,omitempty"`
}

// The bounds of options.
const (
	maxGenerate = 16
	maxList     = 256
)

// Validate reports the first thing that is out of range.
func (o *Options) Validate() error {
	if err := o.Model.Validate(); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	switch {
	case len(o.Generate)+len(o.List) == 0:
		return fmt.Errorf("list is empty; want names of plans such as fsdp4, or kinds of plans to generate such as fsdp")
	case len(o.Generate) > maxGenerate:
		return fmt.Errorf("generate has %d entries; want at most %d", len(o.Generate), maxGenerate)
	case len(o.List) > maxList:
		return fmt.Errorf("list has %d entries; want at most %d", len(o.List), maxList)
	}
	if _, err := ParseSpace(o.Generate); err != nil {
		return err
	}
	for i, p := range o.List {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("list[%d]: %w", i, err)
		}
		if slices.Contains(o.List[:i], p) {
			return fmt.Errorf("list[%d] = %s is there twice; want each plan once", i, p)
		}
	}
	return nil
}

// On returns the plans for a number of GPUs. The options must be valid.
func (o *Options) On(gpus int, room Room) []Plan {
	var out []Plan
	for _, p := range o.List {
		if p.GPUs() == gpus {
			out = append(out, p)
		}
	}
	if len(o.Generate) == 0 {
		return out
	}
	space, err := ParseSpace(o.Generate)
	if err != nil {
		return out
	}
	for _, p := range Generate(o.Model, space, gpus, room) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// Sizes returns the numbers of GPUs that the plans of the list are for, ascending.
func (o *Options) Sizes() []int {
	var out []int
	for _, p := range o.List {
		out = append(out, p.GPUs())
	}
	slices.Sort(out)
	return slices.Compact(out)
}
