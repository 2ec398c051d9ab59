// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sched/plan"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// Plans is how well the model of execution plans predicts the measurements of the Rubick
// artifact.
type Plans struct {
	Models  []PlansRow
	Even    PlansRow // vit, where each node has an even number of GPUs; no name: no vit
	Skipped []string
}

// PlansRow is the accuracy for one model, or for several together. Errors are the mean
// absolute relative errors of steps.
type PlansRow struct {
	Name    string
	Samples int // measured steps
	Crossed int // rows left out, in which a layer is shared across nodes
	Fits    int // samples whose plan fits in the memory of the GPUs, by the formula
	Trials  int // samples of a short profiling

	All      []float64 // errors of a fit to everything
	NoPlan   []float64 // of each plan, by a fit to the other plans
	NoKind   []float64 // of each kind of plan, by a fit to the other kinds
	NoSize   []float64 // of each number of GPUs, by a fit to the other numbers
	Profiled []float64 // of the other samples, by a fit to the trials
	Params   plan.Params
}

// gpuMemory is that of an A800.
const gpuMemory = 80e9

// strange is the model whose measurements the model of plans does not explain: where a node
// has an odd number of GPUs, most of its steps take several times as long.
const strange = "vit"

// ValidatePlans fits the tables in the folder traces of the Rubick artifact.
func ValidatePlans(data fs.FS) (*Plans, error) {
	traces, err := fs.Sub(data, "traces")
	if err != nil {
		return nil, err
	}
	tables, err := profile.ReadPlans(traces)
	if err != nil {
		return nil, err
	}
	out := &Plans{Skipped: tables.Skipped}
	for _, name := range tables.Names() {
		m, _ := tables.Model(name)
		row, err := validatePlans(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.Models = append(out.Models, row)
		if name != strange {
			continue
		}
		even, err := m.Only(func(s plan.Sample) bool { return s.At.GPUs == 1 || s.At.Even%2 == 0 })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if out.Even, err = validatePlans(even); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.Even.Name = name + ", even nodes"
	}
	return out, nil
}

func validatePlans(m *profile.PlanModel) (PlansRow, error) {
	row := PlansRow{Name: m.Name, Samples: len(m.Samples), Crossed: m.Crossed, Params: m.Params}
	for _, s := range m.Samples {
		part := s.Plan // as many parts as there are examples
		part.Micro = max(1, m.Model.Batch/part.Data)
		if gpu, _ := m.Model.Memory(part); gpu <= gpuMemory {
			row.Fits++
		}
	}
	row.All = misses(m.Model, m.Params, m.Samples)
	var err error
	if row.NoPlan, err = leaveOut(m, planName); err != nil {
		return row, err
	}
	if row.NoKind, err = leaveOut(m, func(s plan.Sample) any { return profile.KindOf(s.Plan) }); err != nil {
		return row, err
	}
	if row.NoSize, err = leaveOut(m, func(s plan.Sample) any { return s.At.GPUs }); err != nil {
		return row, err
	}
	trials := m.Trials()
	row.Trials = len(trials)
	q, err := plan.Fit(m.Model, trials)
	if err != nil {
		return row, err
	}
	tried := map[plan.Sample]bool{}
	for _, s := range trials {
		tried[s] = true
	}
	var rest []plan.Sample
	for _, s := range m.Samples {
		if !tried[s] {
			rest = append(rest, s)
		}
	}
	row.Profiled = misses(m.Model, q, rest)
	return row, nil
}

// planName is what the artifact calls a plan: its kind, and where layers are shared or dealt
// out, the degrees of parallelism.
func planName(s plan.Sample) any {
	if k := profile.KindOf(s.Plan); !k.Parallel {
		return k
	}
	return s.Plan
}

// leaveOut predicts each group of samples from the others. A model with one group has
// nothing to predict it from.
func leaveOut(m *profile.PlanModel, group func(plan.Sample) any) ([]float64, error) {
	var out []float64
	seen := map[any]bool{}
	for _, first := range m.Samples {
		g := group(first)
		if seen[g] {
			continue
		}
		seen[g] = true
		var in, others []plan.Sample
		for _, s := range m.Samples {
			if group(s) == g {
				in = append(in, s)
			} else {
				others = append(others, s)
			}
		}
		if len(others) == 0 {
			continue
		}
		q, err := plan.Fit(m.Model, others)
		if err != nil {
			return nil, err
		}
		out = append(out, misses(m.Model, q, in)...)
	}
	return out, nil
}

func misses(m plan.Model, q plan.Params, samples []plan.Sample) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = math.Abs(q.Step(m, s.Plan, s.At)/s.Step - 1)
	}
	return out
}

// Together returns the row of all models, or of all but one.
func (p *Plans) Together(without ...string) PlansRow {
	sum := PlansRow{Name: "together"}
	if len(without) > 0 {
		sum.Name = "without " + strings.Join(without, ", ")
	}
	for _, r := range p.Models {
		if slices.Contains(without, r.Name) {
			continue
		}
		sum.Samples += r.Samples
		sum.Crossed += r.Crossed
		sum.Fits += r.Fits
		sum.Trials += r.Trials
		sum.All = append(sum.All, r.All...)
		sum.NoPlan = append(sum.NoPlan, r.NoPlan...)
		sum.NoKind = append(sum.NoKind, r.NoKind...)
		sum.NoSize = append(sum.NoSize, r.NoSize...)
		sum.Profiled = append(sum.Profiled, r.Profiled...)
	}
	return sum
}

// Print writes the tables as Markdown.
func (p *Plans) Print(w io.Writer) {
	fmt.Fprint(w, `# Execution plans of large models

A large model can be trained on the same GPUs in many ways: sharded, with tensor or pipeline
parallelism, with offload or recomputation. Fairway predicts a step under each plan from seven numbers
for each model, fitted to a handful of steps, and policies choose GPUs knowing what the best plan makes
of them. This page holds that model against the measurements of the Rubick artifact (539 steps on 8
nodes of 8 A800), and replays its base workload. What the seven numbers leave out (how many GPUs share a
network port, how well an exchange hides, what an offloaded update costs) was chosen once on these same
tables, so "all" is not a test; "other plans", "other kinds" and "other sizes" are tests of the fit, not
of those constants.

    fairway repro plans --rubick RUBICK_ARTIFACT/simulator --sia SIA_ARTIFACT/sia-simulator --out docs/reproduction/plans.md

## The model against measured steps

Mean and median of the relative error of a step, in %. "all": a fit to every measured step. "other
plans": each plan is predicted from the others; "other kinds": all plans with tensor or pipeline
parallelism at once from those without, or the other way round, and each of ga, gc, zero-dp and
zero-offload; "other sizes": each number of GPUs from the others; "profiled": everything from two to
five steps of each kind, as a short profiling would measure them. "fits": steps whose plan fits in
80 GB by the memory formula at one example at a time.

| model | steps | fits | all | other plans | other kinds | other sizes | profiled | with |
|---|---|---|---|---|---|---|---|---|
`)
	rows := append(p.Models[:len(p.Models):len(p.Models)], p.Together())
	if p.Even.Name != "" {
		rows = append(rows, p.Together(strange), p.Even)
	}
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %d | %d | %s | %s | %s | %s | %s | %d |\n", r.Name, r.Samples, r.Fits, errorText(r.All), errorText(r.NoPlan), errorText(r.NoKind), errorText(r.NoSize), errorText(r.Profiled), r.Trials)
	}
	if p.Even.Name != "" {
		fmt.Fprint(w, `
The goal is a mean below 10 %. It is reached together without vit, not with it. Where a node has an odd
number of GPUs, most steps of vit take three to six times as long as elsewhere, except under
zero-offload; nothing in the model says why, and a fit to all of them fits none. The last row has the
placements of vit with even numbers. Tensor and pipeline parallelism cannot be predicted from plans
without them ("other kinds" of llama7 and t5): some such steps have to be measured.
`)
	}
	fmt.Fprintf(w, "\nLeft out: %d steps in which GPUs of two nodes share a layer", p.Together().Crossed)
	if len(p.Skipped) > 0 {
		fmt.Fprintf(w, "; and the tables of %s, whose columns differ", strings.Join(p.Skipped, ", "))
	}
	fmt.Fprint(w, ".\n\nThe fitted parameters, in seconds but for the last:\n\n| model | compute | fixed | network | update | tensor | host | kernel |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range p.Models {
		q := r.Params
		fmt.Fprintf(w, "| %s | %.3g | %.3g | %.3g | %.3g | %.3g | %.3g | %.3g |\n", r.Name, q.Compute, q.Fixed, q.Network, q.Update, q.Tensor, q.Host, q.Kernel)
	}
}

func errorText(errors []float64) string {
	if len(errors) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f, %.1f", 100*num.Mean(errors), 100*num.Quantile(errors, 0.5))
}
