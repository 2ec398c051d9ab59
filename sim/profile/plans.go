// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/fairway-gpu/fairway/sched/plan"
)

// Plans are the tables of the Rubick artifact: steps of large models under many execution
// plans on 8 nodes of 8 A800. Each model has a folder with
//
//	placements.csv: exec_plan,placement,iter_time,...
//
//	exec_plan  ga, gc, zero-dp, zero-offload, or three digits: pipeline, tensor and data
//	           parallelism
//	placement  one digit for each node: its GPUs
//	iter_time  seconds of a step, at the same batch size under every plan
type Plans struct {
	models  map[string]*PlanModel
	Skipped []string // folders of models whose shape is not known
}

// PlanModel is what was measured of one model.
type PlanModel struct {
	Name  string
	Model plan.Model
	// Samples are the measured steps, in the order of the file; Crossed counts rows that
	// are left out because a layer is shared across nodes.
	Samples []plan.Sample
	Crossed int
	// Params are fitted to all samples: for placements that were not measured.
	Params plan.Params

	steps map[planKey]float64
}

type planKey struct {
	plan   plan.Plan
	counts string // GPUs of the nodes, most first
}

// rubickModels are the shapes of the artifact's models, from their papers. The tables do
// not say the batch sizes. They matter only as the number of parts of a batch of llama7
// under zero-offload, whose step is long in proportion to 32 parts; the others are taken
// to be trained in one. Nor do they say how attention is computed: the way that needs more
// memory is assumed.
var rubickModels = map[string]plan.Model{
	"vit":     {Parameters: 86e6, Layers: 12, Hidden: 768, Heads: 12, Sequence: 197, Batch: 32, Explicit: true},
	"bert":    {Parameters: 336e6, Layers: 24, Hidden: 1024, Heads: 16, Sequence: 512, Vocabulary: 30522, Batch: 32, Explicit: true},
	"roberta": {Parameters: 355e6, Layers: 24, Hidden: 1024, Heads: 16, Sequence: 512, Vocabulary: 50265, Batch: 32, Explicit: true},
	"t5":      {Parameters: 1.2e9, Layers: 48, Hidden: 1024, Heads: 16, Sequence: 512, Vocabulary: 32128, Batch: 32, Explicit: true},
	"gpt2":    {Parameters: 1.5e9, Layers: 48, Hidden: 1600, Heads: 25, Sequence: 1024, Vocabulary: 50257, Batch: 32, Explicit: true},
	"llama7":  {Parameters: 6.7e9, Layers: 32, Hidden: 4096, Heads: 32, Sequence: 2048, Vocabulary: 32000, Batch: 32, Explicit: true},
	"llama30": {Parameters: 32.5e9, Layers: 60, Hidden: 6656, Heads: 52, Sequence: 2048, Vocabulary: 32000, Batch: 32, Explicit: true},
}

// parted names the models that accumulate an example at a time under zero-offload.
var parted = map[string]bool{"llama7": true}

// RubickPlan returns the plan that the artifact calls by a name, on a number of GPUs.
func RubickPlan(model, name string, gpus int) (plan.Plan, error) {
	p := plan.Plan{Data: gpus, Tensor: 1, Pipeline: 1, Micro: 1}
	switch name {
	case "ga":
		return p, nil
	case "gc":
		p.Recompute = true
		return p, nil
	case "zero-dp":
		p.Sharding = plan.Optimizer
		return p, nil
	case "zero-offload":
		p.Sharding, p.Offload = plan.Optimizer, true
		if parted[model] {
			p.Micro, p.Recompute = max(1, rubickModels[model].Batch/gpus), true
		}
		return p, nil
	}
	digits, ok := digitsOf(name)
	if !ok || len(name) != 3 {
		return plan.Plan{}, fmt.Errorf("plan %.40q; want ga, gc, zero-dp, zero-offload, or three digits for pipeline, tensor and data parallelism", name)
	}
	p.Pipeline, p.Tensor, p.Data = digits[0], digits[1], digits[2]
	if p.GPUs() != gpus {
		return plan.Plan{}, fmt.Errorf("plan %s is for %d GPUs; the placement has %d", name, p.GPUs(), gpus)
	}
	return p, nil
}

// ReadPlans reads the tables of the Rubick artifact, traces/MODEL/placements.csv, from its
// folder traces.
func ReadPlans(fsys fs.FS) (*Plans, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	out := &Plans{models: map[string]*PlanModel{}}
	for _, e := range entries {
		shape, known := rubickModels[e.Name()]
		if !e.IsDir() {
			continue
		}
		if !known {
			out.Skipped = append(out.Skipped, e.Name())
			continue
		}
		m := &PlanModel{Name: e.Name(), Model: shape, steps: map[planKey]float64{}}
		if err := m.read(fsys); err != nil {
			return nil, err
		}
		out.models[m.Name] = m
	}
	if len(out.models) == 0 {
		return nil, errors.New("read plans: no sub-folder is a model of the Rubick artifact, such as gpt2; want its folder traces")
	}
	return out, nil
}

func (m *PlanModel) read(fsys fs.FS) error {
	file := m.Name + "/placements.csv"
	err := readRows(fsys, file, []string{"exec_plan", "placement", "iter_time"}, func(t *table) error {
		counts, ok := digitsOf(t.text(1))
		if !ok {
			return t.fail(1, fmt.Sprintf("one digit, 1 to 9, for each of at most %d nodes", maxDigits))
		}
		step, err := t.seconds(2)
		if err != nil {
			return err
		}
		at := plan.On(counts...)
		p, err := RubickPlan(m.Name, t.text(0), at.GPUs)
		if err != nil {
			return t.fail(0, err.Error())
		}
		if !p.Fits(at) {
			m.Crossed++
			return nil
		}
		m.Samples = append(m.Samples, plan.Sample{Plan: p, At: at, Step: step})
		m.steps[keyOf(p, counts)] = step
		return nil
	})
	if err != nil {
		return err
	}
	if m.Params, err = plan.Fit(m.Model, m.Samples); err != nil {
		return fmt.Errorf("read profile %s: %w", file, err)
	}
	return nil
}

// Only returns the tables with a part of the samples, and the fit to these.
func (m *PlanModel) Only(keep func(plan.Sample) bool) (*PlanModel, error) {
	out := *m
	out.Samples = slices.DeleteFunc(slices.Clone(m.Samples), func(s plan.Sample) bool { return !keep(s) })
	var err error
	out.Params, err = plan.Fit(out.Model, out.Samples)
	return &out, err
}

func keyOf(p plan.Plan, counts []int) planKey {
	sorted := slices.Clone(counts)
	slices.SortFunc(sorted, func(a, b int) int { return cmp.Compare(b, a) })
	return planKey{p, fmt.Sprint(sorted)}
}

// digitsOf returns the digits of a placement or of a plan.
func digitsOf(text string) ([]int, bool) {
	p, ok := parsePlacement(text)
	var out []int
	for _, n := range p[:p.nodes()] {
		out = append(out, int(n))
	}
	return out, ok
}

// Names returns the models, in order.
func (t *Plans) Names() []string { return slices.Sorted(maps.Keys(t.models)) }

// Model returns the tables of a model.
func (t *Plans) Model(name string) (*PlanModel, bool) {
	m, ok := t.models[name]
	return m, ok
}

// Step returns the seconds of a step on a placement with so many GPUs on each node, and
// whether it was measured there; else it follows from the fitted model.
func (m *PlanModel) Step(p plan.Plan, counts []int) (step float64, measured bool) {
	if step, ok := m.steps[keyOf(p, counts)]; ok {
		return step, true
	}
	return m.Params.Step(m.Model, p, plan.On(counts...)), false
}

// Plans returns the plans that were measured, by number of GPUs and then in the order of
// the file.
func (m *PlanModel) Plans() []plan.Plan {
	var out []plan.Plan
	for _, s := range m.Samples {
		if !slices.Contains(out, s.Plan) {
			out = append(out, s.Plan)
		}
	}
	slices.SortStableFunc(out, func(a, b plan.Plan) int { return cmp.Compare(a.GPUs(), b.GPUs()) })
	return out
}

// Kind is what plans of any size have in common.
type Kind struct {
	Sharding           plan.Sharding
	Offload, Recompute bool
	Parallel           bool // layers are shared or dealt out
}

// KindOf returns the kind of a plan.
func KindOf(p plan.Plan) Kind {
	return Kind{p.Sharding, p.Offload, p.Recompute, p.Tensor*p.Pipeline > 1}
}

func (k Kind) String() string {
	switch {
	case k.Parallel:
		return "tensor and pipeline"
	case k.Offload:
		return "zero-offload"
	case k.Sharding == plan.Optimizer:
		return "zero-dp"
	case k.Recompute:
		return "gc"
	}
	return "ga"
}

// Trials returns what a short profiling would measure: of each kind of plan a step on the
// fewest GPUs, and one on the most GPUs and nodes with two GPUs or more on each; where
// layers are shared or dealt out, also one with the most of each kind of parallelism.
func (m *PlanModel) Trials() []plan.Sample {
	even := func(s plan.Sample) bool { return s.At.Even%2 == 0 && s.At.Even == s.At.Least }
	wishes := []func(s plan.Sample) [2]int{ // the largest is taken, by its first number and then by its second
		func(s plan.Sample) [2]int { return [2]int{-s.At.GPUs, -s.At.Nodes} },
		func(s plan.Sample) [2]int {
			if !even(s) {
				return [2]int{}
			}
			return [2]int{s.At.GPUs, s.At.Nodes}
		},
		func(s plan.Sample) [2]int { return [2]int{s.Plan.Tensor, -s.At.GPUs} },
		func(s plan.Sample) [2]int { return [2]int{s.Plan.Pipeline, -s.At.GPUs} },
		func(s plan.Sample) [2]int { return [2]int{s.Plan.Data, -s.At.GPUs} },
	}
	kinds := map[Kind][]plan.Sample{}
	var order []Kind
	for _, s := range m.Samples {
		k := KindOf(s.Plan)
		if kinds[k] == nil {
			order = append(order, k)
		}
		kinds[k] = append(kinds[k], s)
	}
	var out []plan.Sample
	for _, k := range order {
		n := 2
		if k.Parallel {
			n = len(wishes)
		}
		for _, wish := range wishes[:n] {
			best := slices.MaxFunc(kinds[k], func(a, b plan.Sample) int {
				x, y := wish(a), wish(b)
				return slices.Compare(x[:], y[:])
			})
			if !slices.Contains(out, best) {
				out = append(out, best)
			}
		}
	}
	return out
}
