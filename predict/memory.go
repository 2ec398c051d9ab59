// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/sched/num"
)

// Memory is the memory of the process on the device in MiB, by purpose. The parts sum
// to Total.
type Memory struct {
	Total       float64
	Parameters  float64
	Gradients   float64
	Optimizer   float64 // momentum; of Adam also the variance
	Activations float64 // kept for the backward pass, gradients of activations, inputs
	Workspace   float64 // of matrix products
	Allocator   float64 // taken from the device but not in use at the peak
	Context     float64 // of CUDA and its libraries
	// High is the total that 98 of 100 models do not exceed.
	High float64
}

// memoryModel corrects the replay of package features.
type memoryModel struct {
	// Context is the MiB of any process that uses the GPU; Products and Convolutions
	// are what the libraries for these add.
	Context      float64 `json:"context"`
	Products     float64 `json:"products"`
	Convolutions float64 `json:"convolutions"`
	// Slack is the logarithm of the allocator's memory over that of the replay, by
	// memoryInputs; Trees correct it if there were enough steps to learn from; Lift
	// is added so that few models are under-predicted.
	Slack *ridge  `json:"slack"`
	Trees *forest `json:"trees,omitempty"`
	Lift  float64 `json:"lift"`
	// High is the logarithm of the measured total over the predicted one that 98 of
	// 100 models stay below.
	High float64 `json:"high"`
}

// highMemory is the share of models that Memory.High is enough for.
const highMemory = 0.98

// highOf returns memoryModel.High from held-out predictions, models by their worst
// row.
func highOf(tests []Test) float64 {
	worst := map[string]float64{}
	for _, t := range tests {
		e := math.Log(t.Sample.MemMiB / t.MemMiB)
		if old, seen := worst[t.Model]; !seen || e > old {
			worst[t.Model] = e
		}
	}
	return max(0, rounded(num.Quantile(slices.Collect(maps.Values(worst)), highMemory)))
}

func (m memoryModel) check() error {
	if m.Slack == nil {
		return fmt.Errorf("memory: slack is missing")
	}
	inputs := len(memoryInputs(blank()))
	if err := m.Slack.check("memory: slack", inputs); err != nil || m.Trees == nil {
		return err
	}
	if err := m.Trees.check(inputs); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}

func memoryInputs(v *vector) []float64 {
	reserved := max(v.at("reserved_mib"), 1)
	recurrent := 0.0
	if v.at("recurrent_steps") > 0 {
		recurrent = 1
	}
	return []float64{
		v.at("convs") / max(v.at("units"), 1), v.at("workspace_mib") / reserved, recurrent,
		v.at("activation_mib") / reserved, v.at("allocated_mib") / reserved, math.Log(reserved), wideShare(v),
	}
}

// wideShare is the part of the traffic of convolutions from those wider than a point,
// which need more workspace.
func wideShare(v *vector) float64 {
	wide, all := 0.0, 1e-9
	for i, c := range busyColumns() {
		switch c.name {
		case "conv_tb", "thin_tb":
			wide += v.Busy[i]
			all += v.Busy[i]
		case "conv1_tb", "group_tb", "depth_tb":
			all += v.Busy[i]
		}
	}
	return wide / all
}

// usesProducts and usesConvolutions say which libraries a model loads.
func usesProducts(v *vector) float64 {
	if v.at("gemms") > 0 {
		return 1
	}
	return 0
}

func usesConvolutions(v *vector) float64 {
	if v.at("convs") > 0 || v.at("recurrent_steps") > 0 {
		return 1
	}
	return 0
}

func (m memoryModel) context(v *vector) float64 {
	return m.Context + m.Products*usesProducts(v) + m.Convolutions*usesConvolutions(v)
}

// total is the memory of the process, MiB.
func (m memoryModel) total(v *vector) float64 {
	x := memoryInputs(v)
	slack := m.Slack.of(x)
	if m.Trees != nil {
		slack += m.Trees.of(x)
	}
	slack = min(max(slack, -0.3), 0.6)
	return m.context(v) + v.at("reserved_mib")*math.Exp(slack+m.Lift)
}

// memory splits the total into parts.
func (m *Model) memory(f *features.Features, v *vector) Memory {
	out := Memory{Context: m.Memory.context(v)}
	out.Total, out.High = m.memoryOf(v)
	rest := out.Total - out.Context
	part := func(want float64) float64 {
		got := min(max(want, 0), rest)
		rest -= got
		return got
	}
	out.Parameters = part(float64(f.ParamBytes+f.BufferBytes) / mib)
	out.Gradients = part(float64(f.ParamBytes) / mib)
	out.Optimizer = part(float64(f.ParamBytes*f.Recipe.Slots()) / mib)
	if usesProducts(v) > 0 {
		out.Workspace = part(64)
	}
	out.Activations = part(v.at("allocated_mib") - out.Parameters - out.Gradients - out.Optimizer - out.Workspace)
	out.Allocator = rest
	return out
}

// memoryRow is a sample for the fit of the memory.
type memoryRow struct {
	x   *vector
	mem float64 // on the device
	own float64 // of the allocator
}

// fitMemory fits context and slack.
func fitMemory(rows []memoryRow, lift float64) (memoryModel, error) {
	gram := [][]float64{{1e-6, 0, 0}, {0, 1e-6, 0}, {0, 0, 1e-6}}
	right := make([]float64, 3)
	var inputs [][]float64
	var slack []float64
	for _, r := range rows {
		z := []float64{1, usesProducts(r.x), usesConvolutions(r.x)}
		for j := range z {
			right[j] += z[j] * (r.mem - r.own)
			for k := range z {
				gram[j][k] += z[j] * z[k]
			}
		}
		inputs = append(inputs, memoryInputs(r.x))
		slack = append(slack, math.Log(max(r.own, 1)/max(r.x.at("reserved_mib"), 1)))
	}
	c, err := solve(gram, right)
	if err != nil {
		return memoryModel{}, fmt.Errorf("fit context memory: %w", err)
	}
	m := memoryModel{Context: rounded(c[0]), Products: rounded(c[1]), Convolutions: rounded(c[2]), Lift: lift}
	if m.Slack, err = fitRidge(inputs, slack, memoryRidge); err != nil || len(rows) < fewSamples {
		return m, err
	}
	for i := range slack {
		slack[i] -= m.Slack.of(inputs[i])
	}
	m.Trees = growForest(inputs, slack, memoryTrees())
	m.Trees.Base = rounded(m.Trees.Base)
	return m, nil
}
