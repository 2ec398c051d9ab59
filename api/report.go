// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// AgentReport is what the agent of a running attempt tells. Everything is
// optional: an agent that only checkpoints sends Checkpoint and Done.
type AgentReport struct {
	// Ask says that there is nothing to tell, only to ask: all else is left out.
	Ask bool `json:"ask,omitempty"`
	// Done is the work done so far and Work the whole of it, in the job's own
	// unit (steps, examples, epochs); Rate is work for each second. With Training the
	// unit is an example at the initial batch size.
	Done float64 `json:"done"`
	Work float64 `json:"work,omitempty"`
	Rate float64 `json:"rate,omitempty"`
	// Restored is the part of Done that this attempt found in a checkpoint; nil:
	// the agent does not say.
	Restored *float64 `json:"restored,omitempty"`
	// SaveFailed is why the last save failed: the work since the checkpoint before
	// it would be lost. Empty: it did not fail.
	SaveFailed string `json:"save_failed,omitempty"`
	// Can is what the job can do when it is asked to make room; nil: its agent is too
	// old to say (see Ability).
	Can *sched.Ability `json:"can,omitempty"`
	// Resized is the last change of the attempt in place; nil: there was none.
	Resized *Resized `json:"resized,omitempty"`
	// Checkpoint says that everything up to Saved is saved; Saved nil: up to Done.
	Checkpoint bool     `json:"checkpoint,omitempty"`
	Saved      *float64 `json:"saved,omitempty"`
	// Complete says that the training is over; the exit code decides whether it
	// went well.
	Complete bool      `json:"complete,omitempty"`
	Training *Training `json:"training,omitempty"` // what was measured since the last report
	Point    *Point    `json:"point,omitempty"`
	// Series are all values of the job's metrics since the last report; Point has the
	// mean of the losses, and the last value of each metric.
	Series []Series `json:"series,omitempty"`
	// Links are the job's runs in other tools, all of them; none: as before.
	Links []Link `json:"links,omitempty"`
	// Pace is how long the ranks of a gang compute; nil: nothing new.
	Pace *Pace `json:"pace,omitempty"`
}

// Pace is how long each rank of a gang computes in a step, without its wait for
// the others. A rank that is slower than its peers is found by it.
type Pace struct {
	// Windows are stretches of 5 s, oldest first. Each has the median of the seconds of
	// a step for each rank; 0: not measured.
	Windows [][]float64 `json:"windows"`
	// Probes are measurements of the links between the ranks, oldest first. They are made
	// when the exchange takes longer than before, by which no rank can be told.
	Probes []diagnose.Probe `json:"probes,omitempty"`
}

// SlowRanks are ranks that compute more slowly than their peers, or whose links are slower.
type SlowRanks struct {
	Ranks []int   `json:"ranks"`           // the slowest first; none: those before have caught up
	Links bool    `json:"links,omitempty"` // it is about their links
	Times float64 `json:"times"`           // its time over the median of its peers'
	Text  string  `json:"text"`
	// Node is where all of them run, on GPUs that no other job shares; empty: it is
	// not held against a node. GPU is -1 if there are several.
	Node string `json:"node,omitempty"`
	GPU  int    `json:"gpu"`
	Sure bool   `json:"sure,omitempty"` // a gauge explains it
}

// Resized is a change of a gang in place: to another size, or to another process for
// one that died.
type Resized struct {
	GPUs int     `json:"gpus"` // after it
	Away float64 `json:"away"` // seconds without a step
}

// Training is what an agent measures of the training itself. The daemon fits
// the throughput model to it, so that an agent needs no optimiser and every
// job learns from what jobs before it left behind.
type Training struct {
	Limits goodput.Limits `json:"limits"`
	// Fixed is the batch size of a job that does not adapt it; 0: it adapts.
	Fixed int `json:"fixed,omitempty"`
	// Noise is the gradient noise scale now, in examples; 0: not known.
	Noise   float64          `json:"noise,omitempty"`
	Samples []goodput.Sample `json:"samples,omitempty"`
	// Parts is what a step under the attempt's plan spends besides computing, as it was
	// measured last; nil: it was not.
	Parts *plan.Parts `json:"parts,omitempty"`
	// Stop is the user's rule for when the training has converged, for policies that
	// predict it. Steps is left out: the daemon knows the whole of the work.
	Stop goodput.Stop `json:"stop,omitzero"`
}

// Point is one measurement of a job's training, for its plots.
type Point struct {
	At         time.Time `json:"at,omitzero"`
	Done       float64   `json:"done"`
	Work       float64   `json:"work,omitempty"` // the whole of it, as the agent sees it
	GPUs       int       `json:"gpus,omitempty"`
	Batch      int       `json:"batch,omitempty"` // of all GPUs together
	Rate       float64   `json:"rate,omitempty"`
	LR         float64   `json:"lr,omitempty"`
	Noise      float64   `json:"noise,omitempty"`      // gradient noise scale
	Efficiency float64   `json:"efficiency,omitempty"` // statistical, 0 to 1
	Throughput float64   `json:"throughput,omitempty"` // examples for each second
	Goodput    float64   `json:"goodput,omitempty"`    // useful examples for each second
	Loss       *float64  `json:"loss,omitempty"`
	// Util and Memory are the use of its GPUs as the daemon measured it last: the mean,
	// 0 to 1, and the bytes on the fullest.
	Util    float64            `json:"util,omitempty"`
	Memory  int64              `json:"memory,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"` // what the job reports by itself
}

// AgentAnswer tells the agent what it should know.
type AgentAnswer struct {
	// Stop says that the attempt has been asked to stop: save and leave.
	Stop bool `json:"stop,omitempty"`
	// Params is the throughput model of this job on the GPU type it runs on; nil
	// while nothing is known. The agent picks its batch size with it.
	Params *goodput.Params `json:"params,omitempty"`
	// Noise is what to assume of the gradient noise scale until it is measured.
	Noise float64 `json:"noise,omitempty"`
	// Gang is a secret of the attempt, by which its ranks know each other. After a
	// change of the leader of a cluster it may be another.
	Gang string `json:"gang,omitempty"`
}

// Ability returns what a report shows that its job can do. Agents of version 0.1 do
// not say, but they report how they train, or a checkpoint, only if they save on
// notice; those that report how they train also resize.
func (r *AgentReport) Ability(elastic bool) sched.Ability {
	switch {
	case r.Can != nil:
		return *r.Can
	case r.Training != nil && elastic:
		return sched.Resizes
	case r.Training != nil || r.Checkpoint:
		return sched.Saves
	}
	return sched.Unproven
}

const (
	maxSamples    = 1000
	maxMetrics    = 32
	maxMetricName = 100
	maxSaveFailed = 500
	maxPaces      = 16384 // numbers in all windows
	maxProbed     = 2048  // links in all probes
	mostWork      = 1e15  // far from where sums of it overflow
)

// Validate says what is wrong with the report, if anything.
func (r *AgentReport) Validate() error {
	or0 := func(p *float64) float64 {
		if p == nil {
			return 0
		}
		return *p
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"done", r.Done}, {"work", r.Work}, {"rate", r.Rate}, {"restored", or0(r.Restored)}, {"saved", or0(r.Saved)}} {
		if !(f.value >= 0 && f.value <= mostWork) {
			return Errorf(Invalid, "is %g", f.value).On(f.name).Try(fmt.Sprintf("send a number from 0 to %g", float64(mostWork)))
		}
	}
	if n := len(r.SaveFailed); n > maxSaveFailed {
		return Errorf(Invalid, "has %d bytes", n).On("save_failed").Try(fmt.Sprintf("send at most %d", maxSaveFailed))
	}
	if z := r.Resized; z != nil && !(z.GPUs >= 1 && z.Away >= 0 && z.Away <= mostWork) {
		return Errorf(Invalid, "is %d GPUs, away for %g s", z.GPUs, z.Away).On("resized").Try("send numbers that are not negative")
	}
	if t := r.Training; t != nil {
		if err := t.validate(); err != nil {
			return err
		}
	}
	if p := r.Point; p != nil {
		if err := p.validate(); err != nil {
			return err
		}
	}
	if err := validateSeries(r.Series); err != nil {
		return err
	}
	if err := validateLinks(r.Links); err != nil {
		return err
	}
	if p := r.Pace; p != nil {
		return p.validate()
	}
	return nil
}

func (p *Pace) validate() error {
	total := 0
	for i, w := range p.Windows {
		total += len(w)
		if len(w) == 0 || len(w) != len(p.Windows[0]) || total > maxPaces {
			return Errorf(Invalid, "has %d entries", len(w)).On(fmt.Sprintf("pace.windows[%d]", i)).
				Try(fmt.Sprintf("send one number for each rank in every window, at most %d in all", maxPaces))
		}
		for _, v := range w {
			if !(v >= 0 && v <= mostWork) {
				return Errorf(Invalid, "has %g", v).On(fmt.Sprintf("pace.windows[%d]", i)).Try("send seconds, or 0 if they are not known")
			}
		}
	}
	total = 0
	for i, p := range p.Probes {
		field := fmt.Sprintf("pace.probes[%d]", i)
		if total += len(p.Links); total > maxProbed {
			return Errorf(Invalid, "has %d links", len(p.Links)).On(field).Try(fmt.Sprintf("send at most %d in all", maxProbed))
		}
		if p.Ranks < 2 || p.Ranks > maxPaces || p.Bytes < 1 {
			return Errorf(Invalid, "has %d ranks and %d bytes", p.Ranks, p.Bytes).On(field).Try(fmt.Sprintf("send 2 to %d ranks, and the bytes that two of them sent each other", maxPaces))
		}
		for _, k := range p.Links {
			if k.A < 0 || k.B >= p.Ranks || k.A >= k.B || !(k.Seconds >= 0 && k.Seconds <= mostWork) {
				return Errorf(Invalid, "has a link from %d to %d that took %g s", k.A, k.B, k.Seconds).On(field).
					Try(fmt.Sprintf("send two ranks from 0 to %d, the lower first, and seconds, or 0 if they are not known", p.Ranks-1))
			}
		}
	}
	return nil
}

func (p *Point) validate() error {
	values := map[string]float64{
		"done": p.Done, "work": p.Work, "rate": p.Rate, "lr": p.LR, "noise": p.Noise,
		"efficiency": p.Efficiency, "throughput": p.Throughput, "goodput": p.Goodput,
	}
	if p.Loss != nil {
		values["loss"] = *p.Loss
	}
	for name, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Errorf(Invalid, "is %g", v).On("point." + name).Try("send a finite number, or leave it out")
		}
	}
	if len(p.Metrics) > maxMetrics {
		return Errorf(Invalid, "has %d entries", len(p.Metrics)).On("point.metrics").Try(fmt.Sprintf("send at most %d", maxMetrics))
	}
	for k, v := range p.Metrics {
		switch {
		case len(k) > maxMetricName:
			return Errorf(Invalid, "name %.20q… has %d bytes", k, len(k)).On("point.metrics").Try(fmt.Sprintf("use at most %d", maxMetricName))
		case math.IsNaN(v) || math.IsInf(v, 0):
			return Errorf(Invalid, "%q is %g", k, v).On("point.metrics").Try("send finite numbers")
		}
	}
	if p.Batch < 0 || p.GPUs < 0 {
		return Errorf(Invalid, "batch is %d, gpus is %d", p.Batch, p.GPUs).On("point").Try("send numbers that are not negative")
	}
	return nil
}

func (t *Training) validate() error {
	if err := t.Limits.Validate(); err != nil {
		return Errorf(Invalid, "%w", err).On("training.limits")
	}
	if !(t.Noise >= 0) || math.IsInf(t.Noise, 0) {
		return Errorf(Invalid, "is %g", t.Noise).On("training.noise").Try("send a finite number that is not negative")
	}
	if t.Fixed < 0 || t.Fixed > t.Limits.Max {
		return Errorf(Invalid, "is %d", t.Fixed).On("training.fixed").Try(fmt.Sprintf("send 0 (the batch size adapts) to limits.max = %d", t.Limits.Max))
	}
	if err := t.Stop.Validate(); err != nil {
		return Errorf(Invalid, "%w", err).On("training.stop")
	}
	if len(t.Samples) > maxSamples {
		return Errorf(Invalid, "has %d entries", len(t.Samples)).On("training.samples").Try(fmt.Sprintf("send at most %d", maxSamples))
	}
	for i, s := range t.Samples {
		if err := s.Validate(); err != nil {
			return Errorf(Invalid, "%w", err).On(fmt.Sprintf("training.samples[%d]", i))
		}
	}
	if t.Parts != nil {
		if err := t.Parts.Validate(); err != nil {
			return Errorf(Invalid, "%w", err).On("training.parts")
		}
	}
	return nil
}
