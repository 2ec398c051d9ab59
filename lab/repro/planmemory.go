// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// PlanMemory is what lab/bench/gpu/plans.py measured of a GPT under plans of one GPU.
type PlanMemory struct {
	About struct {
		GPU        string `json:"gpu"`
		Torch      string `json:"torch"`
		Layers     int    `json:"layers"`
		Hidden     int    `json:"hidden"`
		Heads      int    `json:"heads"`
		Sequence   int    `json:"sequence"`
		Vocabulary int    `json:"vocabulary"`
	} `json:"about"`
	Trials []PlanTrial `json:"trials"`
}

// PlanTrial is one plan with one batch size.
type PlanTrial struct {
	Batch      int       `json:"batch"`
	Plan       plan.Plan `json:"plan"`
	Fused      bool      `json:"fused_attention"`
	Step       float64   `json:"step_s"`
	Tensors    float64   `json:"tensors"` // bytes, at most
	Runtime    float64   `json:"runtime"` // what CUDA holds beside them
	Parameters float64   `json:"parameters"`

	Checkpoint *struct {
		Bytes float64 `json:"bytes"`
		Save  float64 `json:"save_s"`
		Read  float64 `json:"read_s"`
		Same  bool    `json:"same"`
	} `json:"checkpoint"`
}

// ReadPlanMemory reads the results from a GPU.
func ReadPlanMemory(data fs.FS, gpu string) (*PlanMemory, error) {
	m := &PlanMemory{}
	if err := readRuns(data, "plans-"+gpu+".json", m); err != nil {
		return nil, err
	}
	for i, t := range m.Trials {
		if err := t.Plan.Validate(); err != nil {
			return nil, fmt.Errorf("trial %d: %w", i+1, err)
		}
		if err := m.model(t).Validate(); err != nil {
			return nil, fmt.Errorf("trial %d: %w", i+1, err)
		}
	}
	return m, nil
}

func (m *PlanMemory) model(t PlanTrial) plan.Model {
	a := m.About
	return plan.Model{
		Parameters: t.Parameters, Layers: a.Layers, Hidden: a.Hidden, Heads: a.Heads, Sequence: a.Sequence, Vocabulary: a.Vocabulary,
		Batch: t.Batch, Explicit: !t.Fused,
	}
}

// Predicted returns the memory of a trial by the formula, over the measured one.
func (m *PlanMemory) Predicted(t PlanTrial) (gpu, ratio float64) {
	gpu, _ = m.model(t).Memory(t.Plan)
	return gpu, gpu / (t.Tensors + t.Runtime)
}

// Print writes the table as Markdown.
func (m *PlanMemory) Print(w io.Writer) {
	fmt.Fprintf(w, `
## Memory against a GPU

A GPT of %.2f billion parameters with random weights (%d layers, width %d, %d heads, sequences of %d)
under plans of one %s, PyTorch %s: the memory formula against the most that PyTorch's tensors and CUDA
held, in GB. The formula knows nothing of the measurements but what the loss needs for each word
(12 bytes) and that the gradients of one GPU come after its activations; both were read off these
trials, so other models would be the test. Plans of several GPUs were not measured.

    python3 lab/bench/gpu/plans.py OUT

| batch | plan | attention | a step (s) | measured | predicted | |
|---|---|---|---|---|---|---|
`, m.Trials[0].Parameters/1e9, m.About.Layers, m.About.Hidden, m.About.Heads, m.About.Sequence, m.About.GPU, m.About.Torch)
	var off []float64
	for _, t := range m.Trials {
		gpu, ratio := m.Predicted(t)
		off = append(off, math.Abs(ratio-1))
		attention := "explicit"
		if t.Fused {
			attention = "fused"
		}
		fmt.Fprintf(w, "| %d | %s | %s | %.2f | %.1f | %.1f | %+.1f %% |\n", t.Batch, t.Plan, attention, t.Step, (t.Tensors+t.Runtime)/1e9, gpu/1e9, 100*(ratio-1))
	}
	fmt.Fprintf(w, "\nThe mean error is %.1f %%, the largest %.1f %%.\n", 100*num.Mean(off), 100*num.Quantile(off, 1))
	for _, t := range m.Trials {
		if c := t.Checkpoint; c != nil {
			same := "the same bytes"
			if !c.Same {
				same = "other bytes"
			}
			fmt.Fprintf(w, "\nIts weights and moments, %.1f GB, were saved by PyTorch's distributed checkpoint in %.1f s, by one process to a\nlocal disk, and read back in %.1f s: %s.\n", c.Bytes/1e9, c.Save, c.Read, same)
		}
	}
}
