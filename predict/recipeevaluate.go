// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/num"
)

// RecipeErrors is the accuracy of predictions for recipes.
type RecipeErrors struct {
	Kind   string      `json:"kind,omitempty"`
	Rows   int         `json:"rows"`
	Models int         `json:"models"`
	RMSLE  float64     `json:"rmsle"` // of the utilisation
	After  float64     `json:"after"` // the same after the first steps
	Step   StepError   `json:"step"`
	Memory MemoryError `json:"memory"`
	// Kinds are the same for models without and with convolutions.
	Kinds []RecipeErrors `json:"kinds,omitempty"`
	// Compiled are those of steps with torch.compile, which the others leave out.
	Compiled *RecipeErrors `json:"compiled,omitempty"`

	step, util span
	high       float64 // see highOf
}

// recipeTest is a held-out prediction.
type recipeTest struct {
	Test
	util, after, step float64 // errors, as logarithms
}

// EvaluateRecipes predicts the rows of each model by a fit without them. The sums for
// single precision are those of m.
func EvaluateRecipes(m *Model, samples []RecipeSample) (RecipeErrors, error) {
	var tests []recipeTest
	for _, model := range recipeModels(samples) {
		isModel := func(s RecipeSample) bool { return s.Model == model }
		twin := *m
		var err error
		if twin.Recipe, err = m.fitRecipes(slices.DeleteFunc(slices.Clone(samples), isModel)); err != nil {
			return RecipeErrors{}, fmt.Errorf("evaluate recipes: %w", err)
		}
		for _, s := range samples {
			if !isModel(s) || !s.x.recipe {
				continue
			}
			p := twin.estimate(s.x)
			mem, high := twin.memoryOf(s.x)
			tests = append(tests, recipeTest{
				Test: Test{Sample: s.Sample, StepMS: p.Step, MemMiB: mem, MemHigh: high},
				util: ln1(s.Util) - ln1(p.Util), after: ln1(s.Util) - ln1(p.during(s.StepMS).Util), step: math.Log(s.StepMS / p.Step),
			})
		}
	}
	isCompiled := func(t recipeTest) bool { return t.x.compiled }
	compiled := slices.DeleteFunc(slices.Clone(tests), func(t recipeTest) bool { return !isCompiled(t) })
	tests = slices.DeleteFunc(tests, isCompiled)
	out := recipeErrors("", tests)
	if len(compiled) > 0 {
		of := recipeErrors("with torch.compile", compiled)
		out.Compiled = &of
	}
	for _, kind := range []string{"without convolutions", "with convolutions"} {
		part := slices.DeleteFunc(slices.Clone(tests), func(t recipeTest) bool { return t.x.at("convs") > 0 != (kind == "with convolutions") })
		if len(part) > 0 {
			out.Kinds = append(out.Kinds, recipeErrors(kind, part))
		}
	}
	return out, nil
}

func recipeErrors(kind string, list []recipeTest) RecipeErrors {
	var tests []Test
	var utils, afters, steps, sizes []float64
	models := map[string]bool{}
	for _, t := range list {
		tests, models[t.Model] = append(tests, t.Test), true
		utils, afters, steps = append(utils, t.util), append(afters, t.after), append(steps, t.step)
		sizes = append(sizes, math.Abs(t.StepMS/t.Sample.StepMS-1))
	}
	return RecipeErrors{
		Kind: kind, Rows: len(list), Models: len(models), RMSLE: rms(utils), After: rms(afters),
		Step: StepError{RMSLE: rms(steps), Median: num.Quantile(sizes, 0.5)}, Memory: memoryErrors(tests),
		step: spanOf(steps), util: spanOf(utils), high: highOf(tests),
	}
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
