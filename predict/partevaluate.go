// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"io/fs"
	"math"

	"github.com/fairway-gpu/fairway/sched/num"
)

// PartSample is one measured step of a job with a share of the GPU's threads.
type PartSample struct {
	Sample
	Threads float64 // percent
}

// PartErrors is the accuracy of predictions for parts of a GPU.
type PartErrors struct {
	Rows   int     `json:"rows"`
	Models int     `json:"models"`
	RMSLE  float64 `json:"rmsle"` // of the utilisation
	// Step is the error of the step time, Longer that of how much longer the step takes
	// than with all threads.
	Step   StepError `json:"step"`
	Longer StepError `json:"longer"`
	// Ignored is Longer if every step were predicted to take as long as with all.
	Ignored float64 `json:"ignored"`
}

// ReadParts reads GPU-fractions.csv, and features from GPU-features.csv; nil if there
// is no such file.
func ReadParts(dir fs.FS, gpu string) ([]PartSample, error) {
	return readMore(dir, gpu, "fractions", []string{"threads"}, func(s Sample, x []float64) (PartSample, error) { return PartSample{s, x[0]}, nil })
}

// EvaluateParts predicts the steps of each model with a part of the threads, by sums
// that were fitted to whole GPUs without that model, and compares.
func EvaluateParts(parts []PartSample, samples []Sample, gpu string) (*PartErrors, error) {
	device, err := deviceOf(gpu)
	if err != nil {
		return nil, err
	}
	whole := map[key]float64{} // step with all threads
	for _, s := range parts {
		if s.Threads == 100 {
			whole[key{s.Model, s.Batch}] = s.StepMS
		}
	}
	out := &PartErrors{}
	var utils, steps, longer, ignored, stepSizes, longerSizes []float64
	models := map[string]*Model{}
	for _, s := range parts {
		alone := whole[key{s.Model, s.Batch}]
		if s.Threads == 100 || alone == 0 {
			continue
		}
		m := models[s.Model]
		if m == nil {
			var rest []Sample
			for _, o := range samples {
				if o.Model != s.Model {
					rest = append(rest, o)
				}
			}
			if m, err = fit(rest); err != nil {
				return nil, err
			}
			m.device, models[s.Model] = device, m
		}
		part, err := ParsePart(fmt.Sprintf("%g%%", s.Threads), device)
		if err != nil {
			return nil, err
		}
		twin := m.On(part)
		before, p := m.estimate(s.x), twin.estimate(s.x)
		utils = append(utils, ln1(s.Util)-ln1(twin.util(s.x, p)))
		steps, stepSizes = append(steps, math.Log(s.StepMS/p.Step)), append(stepSizes, math.Abs(p.Step/s.StepMS-1))
		ratio := p.Step / before.Step
		longer, longerSizes = append(longer, math.Log(s.StepMS/alone/ratio)), append(longerSizes, math.Abs(ratio/(s.StepMS/alone)-1))
		ignored = append(ignored, math.Log(s.StepMS/alone))
	}
	out.Rows, out.Models, out.RMSLE, out.Ignored = len(utils), len(models), rms(utils), rms(ignored)
	out.Step = StepError{RMSLE: rms(steps), Median: num.Quantile(stepSizes, 0.5)}
	out.Longer = StepError{RMSLE: rms(longer), Median: num.Quantile(longerSizes, 0.5)}
	return out, nil
}
