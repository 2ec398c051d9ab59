// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"fmt"

	"github.com/fairway-gpu/fairway/predict/features"
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
	// Compiled is nil if torch.compile was not measured.
	Compiled *compileModel `json:"compiled,omitempty"`
}

// recipeBusyColumns are the terms of kernel time beyond those of busyColumns.
func recipeBusyColumns() []column {
	return []column{
		{"base", 1, hosts},
		// In bfloat16. Convolutions copy their operands into another layout.
		{"half_product_tflop", 2, fp32}, {"half_conv_tflop", 2, tf32}, {"half_conv_tb", 500, traffic},
		{"half_group_tflop", 50, fp32}, {"half_group_tb", 2000, traffic},
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
			b[class+"_tflop"] += w.Repeat * (w.Flops*w.Runs()*forward + w.BackFlops*backward) / 1e12
			b[class+"_tb"] += w.Repeat * (w.Bytes*w.Runs() + w.BackBytes) / 1e12
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

// halfClass classifies the units that compute in bfloat16; "" if autocast changes only
// the size of their operands.
func halfClass(w features.Work) string {
	switch classOf(w) {
	case "matmul", "batched", "attention":
		return "half_product"
	case "conv1", "conv", "thin", "recurrent":
		return "half_conv"
	case "group", "depth":
		return "half_group"
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
	if c := m.Recipe.Compiled; c != nil && tests.Compiled != nil {
		c.Step, c.Util, c.MemoryHigh = tests.Compiled.step, tests.Compiled.util, tests.Compiled.high
	}
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
		if !s.x.recipe || s.x.compiled {
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
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	var err error
	r.Compiled, err = m.fitCompiled(r, samples)
	return r, err
}
