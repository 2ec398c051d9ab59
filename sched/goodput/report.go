// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"fmt"
	"math"

	"github.com/fairway-gpu/fairway/sched/plan"
)

// Report is what the agent of a running job tells the scheduler about how the
// job trains: everything a policy may know of its speed. It is measured and
// fitted by the agent; the scheduler never sees the truth.
//
// A Report is immutable: a new one replaces it.
type Report struct {
	// Params is the fitted throughput model, by GPU type. It has no entry for a
	// type the job has not run on.
	Params map[string]Params `json:"params,omitempty"`
	// Plans is the same for a job that may run under several execution plans, which then
	// decide its speed: the best plan for a placement is part of the placement's value.
	Plans  map[string]*plan.Choice `json:"plans,omitempty"`
	Noise  float64                 `json:"noise"` // gradient noise scale now, in examples
	Limits Limits                  `json:"limits"`
	// Fixed is the batch size of a job that does not adapt it; 0: it adapts.
	Fixed int `json:"fixed,omitempty"`
	// MostGPUs is the largest number of GPUs the job should be given now: twice
	// the most it has run on, and no more than its batch can be split over.
	MostGPUs int `json:"most_gpus"`
	// UsableGPUs is the largest number of GPUs that the job could ever use: as many as
	// its batch can be split over. 0: unknown.
	UsableGPUs int `json:"usable_gpus,omitempty"`

	// LocalMax replaces Limits.LocalMax on GPU types whose memory holds more or less.
	LocalMax map[string]int `json:"local_max,omitempty"`
	// Units is the number of GPUs of one replica of the model, by GPU type, where a
	// replica is a pipeline over several. Params, Limits and MostGPUs then count
	// replicas, not GPUs.
	Units map[string]int `json:"units,omitempty"`
	// Restart is how long a restart of the job takes, in seconds. 0: unknown.
	Restart float64 `json:"restart,omitempty"`

	// Work is what the agent has announced to be done in all, and Typical what similar jobs
	// had done when they completed; 0: unknown. Examples is how many at the initial batch
	// size a unit of that is; 0: a unit is a step at that size.
	Work     float64 `json:"work,omitempty"`
	Typical  float64 `json:"typical,omitempty"`
	Examples float64 `json:"examples,omitempty"`

	// Steps[k-1] is the expected time of an optimiser step on k GPUs, packed on
	// as few nodes as possible, at the fixed batch size; and Left the number of
	// these steps to the end of training. For policies that plan by remaining
	// time; empty if nobody can say.
	Steps []float64 `json:"steps,omitempty"`
	Left  float64   `json:"left,omitempty"`

	// Losses are the training losses seen so far, by step: a few dozen at most,
	// early ones as means over stretches of training (LossLog). Stop is when the
	// training ends. StepTimes are the mean times of the optimiser steps it has
	// really run, a few dozen at most (package function StepTimes). All three are for
	// policies that make their own predictions. Simulated agents leave them out under
	// other policies, to which a new report means work.
	//
	// A step is one at the job's batch size or, if it adapts that, the work of one at
	// the initial batch size; without an agent that runs the training it is a unit of
	// the job's work.
	Losses    []LossPoint `json:"losses,omitempty"`
	Stop      Stop        `json:"stop,omitzero"`
	StepTimes []StepTime  `json:"step_times,omitempty"`

	// Kind names jobs that run the same at the same size, and Beside is how many times
	// slower the job was measured to be beside a job of another kind on the same GPUs, by
	// GPU type and kind; 0: the two cannot be together.
	Kind   string                        `json:"kind,omitempty"`
	Beside map[string]map[string]float64 `json:"beside,omitempty"`

	// Regimes are the batch sizes between which the training rule of the job
	// switches, such as Accordion or GNS. None: it keeps its batch size, or a policy
	// chooses it.
	Regimes []Regime `json:"regimes,omitempty"`
}

// Regime is the part of a training at one batch size.
type Regime struct {
	Batch   int     `json:"batch"`             // examples of all GPUs together
	Current bool    `json:"current,omitempty"` // the job trains at it now
	Done    float64 `json:"done"`              // work done at it so far, in the unit of the job
	Time    float64 `json:"time"`              // seconds for a unit of work at the requested size
}

// LossPoint is a measured training loss.
type LossPoint struct {
	Step float64 `json:"step"` // optimiser steps since the start of training
	Loss float64 `json:"loss"`
}

// Stop says when a training ends. By its user's rule, it has converged when its loss
// has fallen by less than Fall, as a part of the highest loss, in each of so many
// epochs.
type Stop struct {
	Fall   float64 `json:"fall"` // 0: there is no such rule
	Epochs int     `json:"epochs"`
	Epoch  float64 `json:"epoch"`           // optimiser steps of one
	Steps  float64 `json:"steps,omitempty"` // after which it ends at the latest; 0: not known
}

// StepTime is the measured time of an optimiser step on one kind of placement,
// accumulation included.
type StepTime struct {
	Type  string  `json:"type,omitempty"` // of the GPUs
	Nodes int     `json:"nodes"`
	GPUs  int     `json:"gpus"`
	Batch int     `json:"batch"` // examples of all GPUs together
	Time  float64 `json:"time"`  // seconds
	// Borrowed says that the job has not run there: other models say how long its
	// steps take there compared with elsewhere. Until it has run at all, only the
	// ratios of such times mean anything.
	Borrowed bool `json:"borrowed,omitempty"`
}

// Validate reports whether a number is out of range.
func (s Stop) Validate() error {
	for _, x := range []float64{s.Fall, s.Epoch, s.Steps, float64(s.Epochs)} {
		if !(x >= 0) || math.IsInf(x, 1) {
			return fmt.Errorf("stop = %+v; want finite numbers that are not negative", s)
		}
	}
	return nil
}

// maxMeasured bounds Losses, StepTimes and each type's Beside of a report that is taken
// in, and maxRegimes its regimes.
const (
	maxMeasured = 1024
	maxRegimes  = 64
)

// ValidateMeasured reports the first of Losses, Stop, StepTimes and Regimes that is
// out of range. A policy may fit curves to them for every report, hence the bound.
func (r *Report) ValidateMeasured() error {
	number := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	switch {
	case len(r.Losses) > maxMeasured:
		return fmt.Errorf("losses has %d entries; want at most %d", len(r.Losses), maxMeasured)
	case len(r.StepTimes) > maxMeasured:
		return fmt.Errorf("step_times has %d entries; want at most %d", len(r.StepTimes), maxMeasured)
	case len(r.Regimes) > maxRegimes:
		return fmt.Errorf("regimes has %d entries; want at most %d", len(r.Regimes), maxRegimes)
	}
	if err := r.Stop.Validate(); err != nil {
		return err
	}
	if len(r.Beside) > maxTypes {
		return fmt.Errorf("beside has %d GPU types; want at most %d", len(r.Beside), maxTypes)
	}
	for t, of := range r.Beside {
		if len(of) > maxMeasured {
			return fmt.Errorf("beside of %.20q has %d kinds; want at most %d", t, len(of), maxMeasured)
		}
		for kind, times := range of {
			if !number(times) {
				return fmt.Errorf("beside %.80q on %.20q = %g; want a finite factor that is not negative", kind, t, times)
			}
		}
	}
	for i, p := range r.Losses {
		if !number(p.Step) || math.IsInf(p.Loss, 0) || math.IsNaN(p.Loss) {
			return fmt.Errorf("losses[%d] = %+v; want finite numbers, and a step that is not negative", i, p)
		}
	}
	for i, s := range r.StepTimes {
		if s.Nodes < 1 || s.GPUs < s.Nodes || s.Batch < 1 || !(s.Time > 0) || math.IsInf(s.Time, 1) || len(s.Type) > 100 {
			return fmt.Errorf("step_times[%d] = %+v; want 1 node or more, no fewer GPUs, a batch, and a finite number of seconds above 0", i, s)
		}
	}
	for i, g := range r.Regimes {
		if g.Batch < 1 || !number(g.Done) || !(g.Time > 0) || math.IsInf(g.Time, 1) {
			return fmt.Errorf("regimes[%d] = %+v; want a batch, work that is not negative, and a finite number of seconds above 0", i, g)
		}
	}
	return nil
}

// Unit returns the number of GPUs of one replica on a GPU type.
func (r *Report) Unit(gpuType string) int { return max(1, r.Units[gpuType]) }

// Models reports whether the job has a model of its speed on a GPU type.
func (r *Report) Models(gpuType string) bool {
	_, ok := r.Params[gpuType]
	return ok || r.Plans[gpuType] != nil
}

// planned returns the examples for each second under the best plan on a placement; 0: no
// plan fits.
func (r *Report) planned(c *plan.Choice, s Shape) float64 {
	_, step, ok := c.Best(c.Packed(s.GPUs, s.Nodes))
	if !ok {
		return 0
	}
	return float64(max(1, r.Fixed)) / step
}

// Goodput returns the best goodput of the job on a placement, and the batch
// configuration that gives it; ok is false while the job has no model for the
// GPU type. A job that does not adapt its batch size gets its throughput.
func (r *Report) Goodput(gpuType string, s Shape) (c Config, goodput float64, ok bool) {
	if c := r.Plans[gpuType]; c != nil {
		return Config{}, r.planned(c, s), true
	}
	p, ok := r.Params[gpuType]
	if !ok {
		return Config{}, 0, false
	}
	unit := r.Unit(gpuType)
	if s.GPUs%unit != 0 {
		return Config{}, 0, true
	}
	s.GPUs /= unit
	limits := r.Limits
	if most := r.LocalMax[gpuType]; most > 0 {
		limits.LocalMax = most
	}
	if r.Fixed == 0 {
		c, goodput = limits.Best(p, r.Noise, s)
		return c, goodput, true
	}
	c, fits := Split(r.Fixed, s.GPUs, limits)
	if !fits {
		return Config{}, 0, true
	}
	return c, p.Throughput(s, float64(c.Local), c.Accum), true
}

// maxTypes bounds how many GPU types a report may speak of, and maxCurve how
// many points its lists may have: a report comes from inside a job, so nobody
// vouches for it.
const (
	maxTypes = 64
	maxCurve = 4096
)

// Validate says what is wrong with the report, if anything. A scheduler that
// takes reports from jobs must call it before it lets a policy see one.
func (r *Report) Validate() error {
	finite := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	switch {
	case len(r.Params) > maxTypes:
		return fmt.Errorf("params has %d GPU types; want at most %d", len(r.Params), maxTypes)
	case len(r.LocalMax) > maxTypes || len(r.Units) > maxTypes:
		return fmt.Errorf("local_max and units have %d and %d GPU types; want at most %d", len(r.LocalMax), len(r.Units), maxTypes)
	case !(r.Restart >= 0) || math.IsInf(r.Restart, 0):
		return fmt.Errorf("restart = %g; want a number of seconds", r.Restart)
	case !finite(r.Work) || !finite(r.Typical) || !finite(r.Examples):
		return fmt.Errorf("work = %g, typical = %g, examples = %g; want finite numbers that are not negative", r.Work, r.Typical, r.Examples)
	case len(r.Steps) > maxCurve:
		return fmt.Errorf("steps has %d entries; want at most %d", len(r.Steps), maxCurve)
	case !(r.Noise >= 0) || math.IsInf(r.Noise, 0):
		return fmt.Errorf("noise = %g; want a finite number that is not negative", r.Noise)
	case r.Fixed < 0:
		return fmt.Errorf("fixed = %d; want 0 (the batch size adapts) or a batch size", r.Fixed)
	case r.MostGPUs < 0 || r.MostGPUs > 1<<20:
		return fmt.Errorf("most_gpus = %d; want 0 or more", r.MostGPUs)
	case r.UsableGPUs < 0 || r.UsableGPUs > 1<<20:
		return fmt.Errorf("usable_gpus = %d; want 0 or more", r.UsableGPUs)
	}
	for t, p := range r.Params {
		if len(t) > 100 {
			return fmt.Errorf("params: the GPU type %.20q… has %d bytes; want at most 100", t, len(t))
		}
		if err := p.Validate(); err != nil {
			return fmt.Errorf("params of %s: %w", t, err)
		}
	}
	if len(r.Plans) > maxTypes {
		return fmt.Errorf("plans has %d GPU types; want at most %d", len(r.Plans), maxTypes)
	}
	for t, c := range r.Plans {
		if c == nil {
			return fmt.Errorf("plans of %.20q = null; want a choice of plans", t)
		}
		if err := c.Validate(); err != nil {
			return fmt.Errorf("plans of %.20q: %w", t, err)
		}
	}
	for t, n := range r.LocalMax {
		if n < r.Limits.LocalMin {
			return fmt.Errorf("local_max of %.20q = %d; want at least local_min = %d", t, n, r.Limits.LocalMin)
		}
	}
	for t, n := range r.Units {
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("units of %.20q = %d; want 1 or more", t, n)
		}
	}
	for i, s := range r.Steps {
		if !(s > 0) || math.IsInf(s, 0) {
			return fmt.Errorf("steps[%d] = %g; want a finite number of seconds", i, s)
		}
	}
	if err := r.Limits.Validate(); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	return r.ValidateMeasured()
}
