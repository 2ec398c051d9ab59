// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/fairway-gpu/fairway/sched/plan"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// PipelineRow is how well the model of plans predicts a GPT that is trained in pipelines, on
// one type of GPU, from a single step: the step of the same batch on other GPUs.
type PipelineRow struct {
	Type   string
	Stages int
	Twice  []float64 // relative errors on twice as many GPUs
	Half   []float64 // on half as many
}

// pipelineModel is the GPT of Sia's tables that is trained in pipelines, and pipelineNode the
// GPUs of a node there. Its layers are those of a GPT-3 of that size.
var pipelineModel = plan.Model{Parameters: 2.8e9, Layers: 32}

const (
	pipelineName = "gpt_pmp"
	pipelineNode = 8
	mostNodes    = 16
)

// ValidatePipelines predicts steps of the tables in the folder traces of the Sia artifact.
func ValidatePipelines(data fs.FS) ([]PipelineRow, error) {
	traces, err := fs.Sub(data, "traces")
	if err != nil {
		return nil, err
	}
	tables, err := profile.Read(traces)
	if err != nil {
		return nil, err
	}
	var rows []PipelineRow
	for _, gpuType := range tables.Types() {
		m, ok := tables.On(pipelineName, gpuType)
		if !ok {
			continue
		}
		row := PipelineRow{Type: gpuType, Stages: m.Unit()}
		for replicas := 1; 2*replicas*m.Unit() <= mostNodes*pipelineNode; replicas++ {
			if n := 2 * replicas * m.Unit(); n > pipelineNode && n%(2*pipelineNode) != 0 {
				continue // beyond a node, whole nodes were measured
			}
			few, err := pipelineSample(m, replicas, 2)
			if err != nil {
				return nil, err
			}
			many, err := pipelineSample(m, 2*replicas, 1)
			if err != nil {
				return nil, err
			}
			twice, err := predictStep(few, many)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", pipelineName, gpuType, err)
			}
			half, err := predictStep(many, few)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", pipelineName, gpuType, err)
			}
			row.Twice, row.Half = append(row.Twice, twice), append(row.Half, half)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no table of %s; want traces/%s/placements-TYPE.csv", pipelineName, pipelineName)
	}
	return rows, nil
}

// pipelineSample returns the step of so many pipelines, each of whose parts of the batch has
// so many examples. The parts of a pipeline are always as many.
func pipelineSample(m *profile.Model, replicas, examples int) (plan.Sample, error) {
	var counts []int
	for left := replicas * m.Unit(); left > 0; left -= pipelineNode {
		counts = append(counts, min(left, pipelineNode))
	}
	parts := m.Limits().LocalMin
	step, _, err := m.Step(counts, parts*examples)
	return plan.Sample{
		Plan: plan.Plan{Data: replicas, Tensor: 1, Pipeline: m.Unit(), Micro: parts},
		At:   plan.On(counts...), Step: step,
	}, err
}

// predictStep returns the relative error of a step that is predicted from another.
func predictStep(from, to plan.Sample) (float64, error) {
	q, err := plan.Fit(pipelineModel, []plan.Sample{from})
	if err != nil {
		return 0, err
	}
	return misses(pipelineModel, q, []plan.Sample{to})[0], nil
}

// PrintPipelines writes the table as Markdown.
func PrintPipelines(w io.Writer, rows []PipelineRow) {
	fmt.Fprint(w, `
The Sia artifact has tables of a GPT of 2.8 billion parameters in pipelines, with 48 parts of the batch in
each: the forward time of a stage and the exchange between the pipelines, from which a step follows. Each
step is predicted from one other, of the same batch on twice or half as many GPUs; the rest is what is
typical of its size (mean and median error, in %):

| GPU | stages | pairs | on twice as many | on half as many |
|---|---|---|---|---|
`)
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %d | %d | %s | %s |\n", r.Type, r.Stages, len(r.Twice), errorText(r.Twice), errorText(r.Half))
	}
	fmt.Fprint(w, `
The exchange grows with every node in these tables, as on a straight line; a ring, which the model assumes,
does not. It is a small part of such steps.
`)
}
