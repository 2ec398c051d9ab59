// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/predict"
	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/predict/onnx"
)

// company is what is predicted of a model beside another on one GPU.
type company struct {
	Model string `json:"model"`
	Batch int64  `json:"batch"`
	Mode  string `json:"mode"`
	// Slowdown is of the model that was asked about, OtherSlowdown of the one beside
	// it: the time of a step together over that alone, and what one in twenty is above.
	Slowdown      float64 `json:"slowdown"`
	SlowdownHigh  float64 `json:"slowdown_high"`
	OtherSlowdown float64 `json:"other_slowdown"`
	OtherHigh     float64 `json:"other_slowdown_high"`
	// Fits says that both have room in the GPU's memory; Safe, that besides neither is
	// slowed by more than the limit, even if things go worse than usual.
	Fits bool `json:"fits"`
	Safe bool `json:"safe"`
}

// loadOf is what a prediction says about the load of a GPU.
func loadOf(p predict.Prediction) interfere.Load {
	return interfere.Predicted(p.Util, p.UtilLow, p.UtilHigh, p.StepSeconds)
}

// beside predicts what the model that was asked about and others, each FILE or
// FILE:BATCH, do to each other.
func (f *predictFlags) beside(model *predict.Model, own predict.Prediction, options onnx.Options) ([]company, error) {
	if len(f.with) == 0 {
		return nil, nil
	}
	mode, err := interfere.ParseMode(f.mode)
	if err != nil {
		return nil, usagef("--mode: %v", err)
	}
	slow, err := interfere.Default(model.Device().Name)
	if err != nil {
		slow = interfere.Published() // measured on another GPU; docs/interference.md
	}
	var out []company
	for _, name := range f.with {
		other, err := f.companion(model, name, options)
		if err != nil {
			return nil, err
		}
		a, b := loadOf(own), loadOf(other.prediction)
		mine, theirs := slow.Slowdown(mode, a, []interfere.Load{b}), slow.Slowdown(mode, b, []interfere.Load{a})
		fits := own.Memory.Total+other.prediction.Memory.Total <= model.Device().MemoryMiB
		out = append(out, company{
			Model: other.name, Batch: other.batch, Mode: mode.String(),
			Slowdown: round(mine.Mean), SlowdownHigh: round(mine.High), OtherSlowdown: round(theirs.Mean), OtherHigh: round(theirs.High),
			Fits: fits, Safe: fits && slow.Safe(mode, interfere.DefaultLimit, []interfere.Load{a, b}),
		})
	}
	return out, nil
}

func round(x float64) float64 { return math.Round(1000*x) / 1000 }

// companion is another model that was named.
type companion struct {
	name       string
	batch      int64
	prediction predict.Prediction
}

func (f *predictFlags) companion(model *predict.Model, name string, options onnx.Options) (companion, error) {
	path, batch := name, options.Batch
	if i := strings.LastIndex(name, ":"); i > 0 {
		n, err := strconv.ParseInt(name[i+1:], 10, 64)
		if err != nil || n < 1 || n > maxBatch {
			return companion{}, usagef("--with %q: the batch is %q; want FILE or FILE:BATCH with 1 to %d", name, name[i+1:], maxBatch)
		}
		path, batch = name[:i], n
	}
	file, err := os.Open(path)
	if err != nil {
		return companion{}, fmt.Errorf("predict: %w", err)
	}
	defer file.Close()
	options.Batch = batch
	x, err := extract(file, options, features.Recipe{})
	if err != nil {
		return companion{}, fmt.Errorf("predict: %s: %w", path, err)
	}
	return companion{path, x.Batch, model.Predict(x)}, nil
}

// text prints what two models do to each other.
func (c company) text() string {
	verdict := "not safe"
	switch {
	case !c.Fits:
		verdict = "GPU memory is too small for both"
	case c.Safe:
		verdict = fmt.Sprintf("safe: neither is likely to slow down by more than %.0f %%", 100*(interfere.DefaultLimit-1))
	}
	return fmt.Sprintf("%s, batch %d (%s): %.2f times slower (up to %.2f), the other %.2f (up to %.2f); %s",
		c.Model, c.Batch, c.Mode, c.Slowdown, c.SlowdownHigh, c.OtherSlowdown, c.OtherHigh, verdict)
}
