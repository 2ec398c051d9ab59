// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/predict/onnx"
	"github.com/fairway-gpu/fairway/sched/num"
)

// recipeModel is what other recipes than single precision with SGD change. The first
// column of its sums is the time that the sums of the Model give.
type recipeModel struct {
	Rows int `json:"rows"`
	Busy sum `json:"busy"`
	Host sum `json:"host"`
	// Step and Util are intervals as in Model.
	Step span `json:"step"`
	Util span `json:"util"`
}

// recipeBusyColumns are the terms of kernel time beyond those of busyColumns.
func recipeBusyColumns() []column {
	return []column{
		{"base", 1, hosts},
		{"half_product_tflop", 2, fp32}, {"half_conv_tflop", 2.5, tf32}, // in bfloat16
		{"adam_tb", 290, traffic},
	}
}

// recipeHostColumns are the terms of host time beyond those of hostColumns.
func recipeHostColumns() []column {
	return []column{{"base", 1, hosts}, {"n_cast", 0.02, hosts}, {"adam_tensors", 0.01, hosts}, {"n_again", 0.05, hosts}, {"n_layer", 0.3, hosts}}
}

// recipeOf computes the columns that a recipe adds.
func recipeOf(f *features.Features) (busy, host []float64) {
	b, h := map[string]float64{}, map[string]float64{}
	half := f.Recipe.Half || f.Recipe.Mixed
	for _, w := range f.Work() {
		if class := halfClass(w); half && class != "" {
			forward, backward := padding(w, classOf(w))
			b[class] += w.Repeat * (w.Flops*w.Runs()*forward + w.BackFlops*backward) / 1e12
		}
		if w.Kernels > 0 {
			h["n_again"] += w.Repeat * (w.Runs() - 1)
		}
		h["n_cast"] += w.Repeat * w.Casts
	}
	if f.Recipe.Checkpoint {
		h["n_layer"] = float64(f.Layers)
	}
	if f.Recipe.Adam {
		h["adam_tensors"] = float64(f.ParamTensors)
		b["adam_tb"] = float64(f.ParamBytes) * adamNumbers / 1e12
	}
	return pick(names(recipeBusyColumns()), b), pick(names(recipeHostColumns()), h)
}

// adamNumbers is how many numbers per parameter Adam reads and writes beyond SGD
// with momentum: each of its operations goes over all parameters.
const adamNumbers = 12

// halfClass is the column of a unit's arithmetic in bfloat16; "" if the GPU has no
// faster units for it.
func halfClass(w features.Work) string {
	switch classOf(w) {
	case "matmul", "batched", "attention":
		return "half_product_tflop"
	case "conv1", "conv", "thin", "recurrent":
		return "half_conv_tflop"
	}
	return ""
}

// apply adds the recipe to an estimate.
func (r *recipeModel) apply(v *vector, p physics) physics {
	if r == nil || !v.recipe {
		return p
	}
	v.RecipeBusy[0], v.RecipeHost[0] = p.Busy, p.Host
	return physicsOf(max(r.Busy.of(v.RecipeBusy), 1e-6), max(r.Host.of(v.RecipeHost), 1e-6))
}

// RecipeSample is one measured step of a recipe.
type RecipeSample struct {
	Sample
	Recipe features.Recipe
}

// ReadRecipes reads the measured steps of GPU-recipes.csv whose graphs are made from
// the column "decoder"; nil if there is no such file.
func ReadRecipes(dir fs.FS, gpu string) ([]RecipeSample, error) {
	list, err := readFile(dir, gpu+"-recipes.csv", readRecipes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

func readRecipes(name string, r io.Reader) ([]RecipeSample, error) {
	t, err := readTable(name, r)
	if err != nil {
		return nil, err
	}
	if err := t.require("recipe", "decoder"); err != nil {
		return nil, err
	}
	samples, rows, err := soloSamples(t)
	if err != nil {
		return nil, err
	}
	var list []RecipeSample
	for i, s := range samples {
		text := t.text(rows[i], "decoder")
		if text == "" {
			continue
		}
		out := RecipeSample{Sample: s}
		shape, err := onnx.ParseDecoder(text)
		if err == nil {
			out.Recipe, err = features.ParseRecipe(t.text(rows[i], "recipe"))
		}
		if err == nil {
			out.x, err = decoderVector(shape, s.Batch, out.Recipe)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, rows[i]+2, err)
		}
		list = append(list, out)
	}
	return list, nil
}

func decoderVector(d onnx.Decoder, batch int64, r features.Recipe) (*vector, error) {
	shapes, err := onnx.Infer(d.Model(), onnx.Options{Batch: batch})
	if err != nil {
		return nil, err
	}
	return vectorOf(features.Extract(shapes, r)), nil
}

// AddRecipes fits what recipes change, with intervals from models that a fit was made
// without.
func (m *Model) AddRecipes(samples []RecipeSample) error {
	tests, err := EvaluateRecipes(m, samples)
	if err != nil {
		return err
	}
	if m.Recipe, err = m.fitRecipes(samples); err != nil {
		return fmt.Errorf("train recipes: %w", err)
	}
	m.Recipe.Step, m.Recipe.Util = tests.step, tests.util
	return nil
}

// fewRecipes is the least number of steps that a fit is made from.
const fewRecipes = 8

func (m *Model) fitRecipes(samples []RecipeSample) (*recipeModel, error) {
	busy := sumFit{prior: priors(recipeBusyColumns()), weight: busyWeight}
	host := sumFit{prior: priors(recipeHostColumns()), weight: hostWeight}
	r := &recipeModel{}
	for i := range samples {
		s := &samples[i]
		if !s.x.recipe {
			continue
		}
		r.Rows++
		p := m.estimateOn(s.x, 1)
		s.x.RecipeBusy[0], s.x.RecipeHost[0] = p.Busy, p.Host
		busy.x, busy.y = append(busy.x, s.x.RecipeBusy), append(busy.y, max(s.Util, 0.5)/100*s.StepMS)
		if s.Util < hostBound {
			host.x, host.y = append(host.x, s.x.RecipeHost), append(host.y, s.StepMS)
		}
	}
	if r.Rows < fewRecipes {
		return nil, fmt.Errorf("%d measured steps; want at least %d", r.Rows, fewRecipes)
	}
	var err1, err2 error
	r.Busy, _, err1 = busy.sum(names(recipeBusyColumns()))
	r.Host, _, err2 = host.sum(names(recipeHostColumns()))
	return r, errors.Join(err1, err2)
}

// RecipeErrors is the accuracy of predictions for recipes.
type RecipeErrors struct {
	Rows   int         `json:"rows"`
	Models int         `json:"models"`
	RMSLE  float64     `json:"rmsle"` // of the utilisation
	Step   StepError   `json:"step"`
	Memory MemoryError `json:"memory"`

	step, util span
}

// EvaluateRecipes predicts the rows of each model by a fit without them. The sums for
// single precision are those of m.
func EvaluateRecipes(m *Model, samples []RecipeSample) (RecipeErrors, error) {
	var out RecipeErrors
	var tests []Test
	var steps, utils, sizes []float64
	for _, model := range recipeModels(samples) {
		isModel := func(s RecipeSample) bool { return s.Model == model }
		twin := *m
		var err error
		if twin.Recipe, err = m.fitRecipes(slices.DeleteFunc(slices.Clone(samples), isModel)); err != nil {
			return out, fmt.Errorf("evaluate recipes: %w", err)
		}
		out.Models++
		for _, s := range samples {
			if !isModel(s) || !s.x.recipe {
				continue
			}
			p := twin.estimate(s.x)
			tests = append(tests, Test{Sample: s.Sample, StepMS: p.Step, MemMiB: twin.Memory.total(s.x)})
			utils = append(utils, ln1(s.Util)-ln1(p.Util))
			steps = append(steps, math.Log(s.StepMS/p.Step))
			sizes = append(sizes, math.Abs(p.Step/s.StepMS-1))
		}
	}
	out.Rows, out.Memory = len(tests), memoryErrors(tests)
	out.RMSLE, out.Step.RMSLE, out.Step.Median = rms(utils), rms(steps), num.Quantile(sizes, 0.5)
	out.step, out.util = spanOf(steps), spanOf(utils)
	return out, nil
}

func recipeModels(samples []RecipeSample) []string {
	var list []string
	for _, s := range samples {
		if !slices.Contains(list, s.Model) {
			list = append(list, s.Model)
		}
	}
	return list
}

func rms(errors []float64) float64 {
	total := 0.0
	for _, e := range errors {
		total += e * e
	}
	return math.Sqrt(total / float64(max(len(errors), 1)))
}
