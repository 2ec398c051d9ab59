// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"
	"io"
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
	list, err := readFile(dir, gpu+"-fractions.csv", readParts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	vectors, err := readFile(dir, gpu+"-features.csv", readVectors)
	if err != nil {
		return nil, err
	}
	for i := range list {
		s := &list[i]
		if s.x = vectors[key{s.Model, s.Batch}]; s.x == nil {
			return nil, fmt.Errorf("%s at batch %d has no features in %s-features.csv", s.Model, s.Batch, gpu)
		}
	}
	return list, nil
}

func readParts(name string, r io.Reader) ([]PartSample, error) {
	t, err := readTable(name, r)
	if err != nil {
		return nil, err
	}
	if err := t.require("threads"); err != nil {
		return nil, err
	}
	samples, rows, err := soloSamples(t)
	if err != nil {
		return nil, err
	}
	var list []PartSample
	for i, s := range samples {
		threads, err := t.number(rows[i], "threads")
		if err != nil {
			return nil, err
		}
		list = append(list, PartSample{s, threads})
	}
	return list, nil
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
