// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/num"
)

// Steps is what the first steps of a job took.
type Steps struct {
	Seconds float64 // mean; 0: not measured
	Spread  float64 // ln(90th over 10th percentile); 0: of too few steps
}

// fewSteps is the number of steps below which their spread says nothing.
const fewSteps = 10

// StepsOf summarises the lengths of steps, in seconds.
func StepsOf(seconds []float64) Steps {
	s := Steps{Seconds: num.Mean(seconds)}
	if len(seconds) >= fewSteps {
		s.Spread = math.Log(num.Quantile(seconds, 0.9) / num.Quantile(seconds, 0.1))
	}
	return s
}

// evenness tells by their spread which steps the GPU limits: kernels take the same time
// in each step, what a host does to launch them does not.
type evenness struct {
	Below float64 `json:"below"` // the spread of steps that the GPU limits
	Util  float64 `json:"util"`  // of such steps, percent
	Span  span    `json:"span"`  // of ln(1+measured) - ln(1+Util)
}

// limits reports whether the GPU limits the steps.
func (e *evenness) limits(s Steps) bool { return e != nil && s.Spread > 0 && s.Spread < e.Below }

func (e *evenness) check() error {
	if e != nil && !(e.Below > 0 && e.Util > 0 && e.Util <= 100) {
		return fmt.Errorf("even: below %g, util %g; want above 0, util at most 100", e.Below, e.Util)
	}
	return nil
}

// StepsSample is one measured step, with the spread of its lengths.
type StepsSample struct {
	Sample
	Spread float64
}

func (s StepsSample) steps() Steps { return Steps{s.StepMS / 1e3, s.Spread} }

// ReadSteps reads GPU-steps.csv, and features from GPU-features.csv; nil if there is no
// such file.
func ReadSteps(dir fs.FS, gpu string) ([]StepsSample, error) {
	return readMore(dir, gpu, "steps", []string{"steps", "step_ms_p10", "step_ms_p90"}, func(s Sample, x []float64) (StepsSample, error) {
		out := StepsSample{Sample: s}
		if x[0] >= fewSteps {
			out.Spread = math.Log(x[2] / x[1])
		}
		if !(out.Spread >= 0) || math.IsInf(out.Spread, 0) {
			return out, fmt.Errorf("%s at batch %d: step_ms_p10 %g, step_ms_p90 %g; want above 0, the second no less", s.Model, s.Batch, x[1], x[2])
		}
		return out, nil
	})
}

// AddSteps lets the model use the spread of a job's steps. Steps of which the GPU is
// busy all the time and those that wait for the host are far apart; the limit is in the
// middle, as logarithms.
func (m *Model) AddSteps(samples []StepsSample) error {
	busy, waits := spreads(samples)
	if len(busy) < fewSteps || len(waits) < fewSteps {
		return fmt.Errorf("add steps: %d of busy GPUs, %d that wait for the host; want %d of each", len(busy), len(waits), fewSteps)
	}
	e := &evenness{Below: rounded(math.Sqrt(num.Quantile(busy, 0.5) * num.Quantile(waits, 0.5)))}
	var utils []float64
	for _, s := range samples {
		if e.limits(s.steps()) {
			utils = append(utils, ln1(s.Util))
		}
	}
	if len(utils) == 0 {
		return errors.New("add steps: no step is even")
	}
	e.Util = rounded(math.Expm1(num.Mean(utils)))
	for i := range utils {
		utils[i] -= ln1(e.Util)
	}
	e.Span = spanOf(utils)
	m.Even = e
	return nil
}

// spreads returns those of steps that the GPU limits, and of those that the host does.
func spreads(samples []StepsSample) (busy, waits []float64) {
	for _, s := range samples {
		switch {
		case s.Spread == 0:
		case s.Util >= busyBound:
			busy = append(busy, s.Spread)
		case s.Util < hostBound:
			waits = append(waits, s.Spread)
		}
	}
	return busy, waits
}

// StepsErrors is the accuracy of the utilisation on a host of unknown speed.
type StepsErrors struct {
	Rows   int `json:"rows"`
	Models int `json:"models"`
	// Errors of the utilisation, RMSLE: before the job runs, by the mean of its steps, and
	// by their mean and spread.
	Before  float64 `json:"before"`
	ByMean  float64 `json:"by_mean"`
	BySteps float64 `json:"by_steps"`
	// Even is how many steps are called even, and Least the least utilisation of them.
	Even  int     `json:"even"`
	Least float64 `json:"least"`
	// Below is the mean of the limits; Busy and Waits are the median spreads of steps that
	// the GPU and that the host limits.
	Below float64 `json:"below"`
	Busy  float64 `json:"busy"`
	Waits float64 `json:"waits"`
}

// EvaluateSteps predicts measured steps from samples of other models, and of the spread
// of their steps.
func EvaluateSteps(steps []StepsSample, samples []Sample) (*StepsErrors, error) {
	out := &StepsErrors{Rows: len(steps), Least: 100}
	var before, byMean, bySteps, below []float64
	models := map[string]bool{}
	for _, part := range foldsOf(samples, byModel, outerFolds) {
		m, err := fit(part.rest(samples))
		if err != nil {
			return nil, fmt.Errorf("evaluate steps: %w", err)
		}
		held := func(s StepsSample) bool {
			return slices.ContainsFunc(part, func(i int) bool { return samples[i].Model == s.Model })
		}
		if err := m.AddSteps(slices.DeleteFunc(slices.Clone(steps), held)); err != nil {
			return nil, fmt.Errorf("evaluate steps: %w", err)
		}
		below = append(below, m.Even.Below)
		for _, s := range steps {
			if !held(s) {
				continue
			}
			models[s.Model] = true
			guess, truth := m.estimate(s.x), ln1(s.Util)
			_, mean := m.after(s.x, guess, Steps{Seconds: s.StepMS / 1e3})
			_, util := m.after(s.x, guess, s.steps())
			before, byMean, bySteps = append(before, truth-ln1(m.util(s.x, guess))), append(byMean, truth-ln1(mean)), append(bySteps, truth-ln1(util))
			if m.Even.limits(s.steps()) {
				out.Even++
				out.Least = min(out.Least, s.Util)
			}
		}
	}
	busy, waits := spreads(steps)
	out.Busy, out.Waits = num.Quantile(busy, 0.5), num.Quantile(waits, 0.5)
	out.Models, out.Before, out.ByMean, out.BySteps, out.Below = len(models), rms(before), rms(byMean), rms(bySteps), num.Mean(below)
	return out, nil
}
