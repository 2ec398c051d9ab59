// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"math"
	"strings"

	"github.com/fairway-gpu/fairway/sched/num"
)

// compileModel is what torch.compile changes: the factor by which each part of the time
// without it is multiplied. It joins operators that only move data, so that these and
// the launches take less, and lets convolutions keep one layout.
type compileModel struct {
	Rows int `json:"rows"`
	Busy sum `json:"busy"`
	Host sum `json:"host"`
	// Memory is the logarithm of the memory with it over that without, MemoryHigh
	// what 98 of 100 models stay below.
	Memory     float64 `json:"memory"`
	MemoryHigh float64 `json:"memory_high"`
	// Step and Util are intervals as in Model.
	Step span `json:"step"`
	Util span `json:"util"`
}

// compileBusyColumns are the parts of kernel time.
func compileBusyColumns() []column {
	return []column{{"product", 1, hosts}, {"half_product", 1, hosts}, {"half_conv", 0.5, hosts}, {"half_group", 0.5, hosts},
		{"moved", 0.4, hosts}, {"launches", 0.5, hosts}, {"optimizer", 1, hosts}}
}

// compileHostColumns are the parts of host time: that of a step, of each parameter, of
// each operator.
func compileHostColumns() []column {
	return []column{{"step", 1, hosts}, {"parameters", 1, hosts}, {"operators", 0.5, hosts}}
}

// compileParts divides the time without torch.compile, in milliseconds.
func (m *Model) compileParts(r *recipeModel, v *vector) (busy, host []float64) {
	b, h := map[string]float64{}, map[string]float64{}
	add := func(ms float64, name string) {
		part := "moved"
		switch {
		case strings.HasPrefix(name, "half_product"), strings.HasPrefix(name, "half_conv"), strings.HasPrefix(name, "half_group"):
			part = name[:strings.LastIndex(name, "_")]
		case strings.HasSuffix(name, "launches"), name == "sorts":
			part = "launches"
		case name == "optimizer_tb", name == "adam_tb":
			part = "optimizer"
		case strings.HasSuffix(name, "_tflop"), strings.HasPrefix(name, "conv"), strings.HasPrefix(name, "matmul"), strings.HasPrefix(name, "attention"):
			part = "product"
		}
		b[part] += ms
	}
	for i, name := range m.Busy.Columns {
		add(r.Busy.Values[0]*m.Busy.Values[i]*v.Busy[i], name)
	}
	for i, name := range r.Busy.Columns[1:] {
		add(r.Busy.Values[i+1]*v.RecipeBusy[i+1], name)
	}
	for i, name := range m.Host.Columns {
		part := "operators"
		switch name {
		case "step":
			part = "step"
		case "param_tensors":
			part = "parameters"
		}
		h[part] += m.Host.Values[i] * v.Host[i]
	}
	for i, name := range r.Host.Columns[1:] {
		part := "operators"
		if name == "adam_tensors" {
			part = "parameters"
		}
		h[part] += r.Host.Values[i+1] * v.RecipeHost[i+1]
	}
	return pick(names(compileBusyColumns()), b), pick(names(compileHostColumns()), h)
}

// compiled is the estimate with torch.compile.
func (m *Model) compiled(v *vector) physics {
	busy, host := m.compileParts(m.Recipe, v)
	c := m.Recipe.Compiled
	return physicsOf(max(c.Busy.of(busy), 1e-6), max(c.Host.of(host), 1e-6))
}

// fitCompiled fits the factors, given the sums of r; nil for too few steps.
func (m *Model) fitCompiled(r *recipeModel, samples []RecipeSample) (*compileModel, error) {
	busy := sumFit{prior: priors(compileBusyColumns()), weight: busyWeight}
	host := sumFit{prior: priors(compileHostColumns()), weight: hostWeight}
	c := &compileModel{}
	var memory []float64
	for i := range samples {
		s := &samples[i]
		if !s.x.compiled {
			continue
		}
		c.Rows++
		b, h := m.compileParts(r, s.x)
		busy.x, busy.y = append(busy.x, b), append(busy.y, max(s.Util, 0.5)/100*s.StepMS)
		if s.Util < hostBound {
			host.x, host.y = append(host.x, h), append(host.y, s.StepMS)
		}
		memory = append(memory, math.Log(s.MemMiB/m.Memory.total(s.x)))
	}
	if c.Rows < fewRecipes {
		return nil, nil
	}
	var err1, err2 error
	c.Busy, _, err1 = busy.sum(names(compileBusyColumns()))
	c.Host, _, err2 = host.sum(names(compileHostColumns()))
	// As without torch.compile, the prediction is a little more than the median.
	c.Memory = rounded(num.Quantile(memory, 0.5) + m.Memory.Lift)
	return c, errors.Join(err1, err2)
}

func (c *compileModel) check() error {
	if c == nil {
		return nil
	}
	return errors.Join(c.Busy.check("recipe: compiled: busy", compileBusyColumns()), c.Host.check("recipe: compiled: host", compileHostColumns()))
}

// memoryOf is the memory of the process, MiB, and the most that is likely.
func (m *Model) memoryOf(v *vector) (total, high float64) {
	total = m.Memory.total(v)
	if v.compiled && m.Recipe != nil && m.Recipe.Compiled != nil {
		total *= math.Exp(m.Recipe.Compiled.Memory)
		return total, total * math.Exp(max(m.Memory.High, m.Recipe.Compiled.MemoryHigh))
	}
	return total, total * math.Exp(m.Memory.High)
}
