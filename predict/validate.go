// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/num"
)

// The methods that are compared.
const (
	Linear        = "linear"                                // on the inputs that Horus names
	Trees         = "trees"                                 // on the same
	Physics       = "physics"                               // the physical estimate alone
	PhysicsLinear = "physics, linear"                       // a linear model with the estimate: the fallback
	PhysicsTrees  = "physics, trees"                        // trees on the error of the estimate: what For uses
	UnknownHost   = "physics, trees; host speed unknown"    // the same, for an unknown host
	OwnSteps      = "physics, trees; after its first steps" // the same, with the measured time of a step
)

// Methods lists them.
func Methods() []string {
	return []string{Linear, Trees, Physics, PhysicsLinear, PhysicsTrees, UnknownHost, OwnSteps}
}

// Test is the prediction of one sample by models that were not trained on its group.
type Test struct {
	Sample
	Fold   int
	Util   map[string]float64 // by method, percent
	StepMS float64            // predicted
	MemMiB float64            // predicted
	// MemHigh is the memory that 98 of 100 models do not exceed, by the other folds'
	// errors.
	MemHigh float64
	// Low and High are the interval of the utilisation from the other folds' errors,
	// around the prediction for an unknown host, AfterLow and AfterHigh around that
	// after the first steps; StepLow and StepTop are that of the step.
	Low, High, AfterLow, AfterHigh, StepLow, StepTop float64

	stepAnywhere float64 // StepMS for an unknown host
}

// logError is the error that RMSLE squares.
func (t *Test) logError(method string) float64 { return ln1(t.Sample.Util) - ln1(t.Util[method]) }

// crossValidate predicts every sample from the samples of other groups.
func crossValidate(samples []Sample, name func(*Sample) string) ([]Test, error) {
	var tests []Test
	for k, part := range foldsOf(samples, name, outerFolds) {
		rest := part.rest(samples)
		m, err := fit(rest)
		if err != nil {
			return nil, fmt.Errorf("cross-validate: %w", err)
		}
		others, err := fitBaselines(m, rest)
		if err != nil {
			return nil, fmt.Errorf("cross-validate: %w", err)
		}
		for _, i := range part {
			t := m.test(samples[i], m.estimateFor(&samples[i]), others)
			t.Fold = k
			tests = append(tests, t)
		}
	}
	return tests, nil
}

// test predicts a sample, given the physical estimate for its host, by the
// model and by the baselines.
func (m *Model) test(s Sample, p physics, others map[string]func(*Sample, physics) float64) Test {
	anywhere := m.estimate(s.x)
	_, after := m.after(s.x, anywhere, Steps{Seconds: s.StepMS / 1e3})
	t := Test{Sample: s, StepMS: p.Step, stepAnywhere: anywhere.Step, MemMiB: m.Memory.total(s.x), Util: map[string]float64{
		PhysicsTrees: m.util(s.x, p), Physics: clampUtil(p.Util), UnknownHost: m.util(s.x, anywhere),
		OwnSteps: after,
	}}
	for method, predict := range others {
		t.Util[method] = clampUtil(math.Expm1(predict(&s, p)))
	}
	return t
}

// fitBaselines fits the methods to compare with.
func fitBaselines(m *Model, samples []Sample) (map[string]func(*Sample, physics) float64, error) {
	var x [][]float64
	var y []float64
	for _, s := range samples {
		x = append(x, paperInputs(s.x))
		y = append(y, ln1(s.Util))
	}
	linear, err := fitRidge(x, y, 1e-4)
	if err != nil {
		return nil, err
	}
	both, err := m.fitLinear(samples)
	if err != nil {
		return nil, err
	}
	trees := growForest(x, y, treeConfig{Trees: 100, Depth: 4, MinLeaf: 3, Shrink: 0.1, Subsample: 0.7, Seed: 1})
	return map[string]func(*Sample, physics) float64{
		Linear:        func(s *Sample, _ physics) float64 { return linear.of(paperInputs(s.x)) },
		Trees:         func(s *Sample, _ physics) float64 { return trees.of(paperInputs(s.x)) },
		PhysicsLinear: func(s *Sample, p physics) float64 { return both.of(linearInputs(s.x, p)) },
	}, nil
}

// setIntervals sets the intervals from held-out errors: on unknown hosts, the usual
// case of a prediction, and after the first steps.
func (m *Model) setIntervals(tests []Test) {
	var steps []float64
	for i := range tests {
		steps = append(steps, math.Log(tests[i].Sample.StepMS/tests[i].stepAnywhere))
	}
	m.Bands, m.AfterBands, m.Step = bandsOf(tests, UnknownHost), bandsOf(tests, OwnSteps), spanOf(steps)
	m.Memory.High = highOf(tests)
}

// bandsOf returns the intervals of a method's utilisation.
func bandsOf(tests []Test, method string) (bands []band) {
	var all []float64
	byBand := map[float64][]float64{}
	edges := bandEdges()
	for i := range tests {
		t := &tests[i]
		edge := edges[slices.IndexFunc(edges, func(e float64) bool { return t.Util[method] <= e })]
		byBand[edge], all = append(byBand[edge], t.logError(method)), append(all, t.logError(method))
	}
	for _, edge := range edges {
		errors := byBand[edge]
		if len(errors) < 10 { // too few for a quantile
			errors = all
		}
		bands = append(bands, band{edge, spanOf(errors)})
	}
	return bands
}

// spanOf is the interval that contains most of a list, a little wider for short
// lists.
func spanOf(list []float64) span {
	outside := (1 - coverage) / 2 * float64(len(list)) / float64(len(list)+1)
	outside = max(0, outside-0.5/float64(len(list)+1))
	return span{min(rounded(num.Quantile(list, outside)), 0), max(rounded(num.Quantile(list, 1-outside)), 0)}
}

// fillIntervals gives every test the interval from the other folds' errors.
func fillIntervals(tests []Test) {
	last := 0
	for _, t := range tests {
		last = max(last, t.Fold)
	}
	for k := range last + 1 {
		var others []Test
		for _, t := range tests {
			if t.Fold != k {
				others = append(others, t)
			}
		}
		m := Model{}
		m.setIntervals(others)
		for i := range tests {
			if tests[i].Fold == k {
				m.fillInterval(&tests[i])
			}
		}
	}
}

// fillInterval gives a test the model's intervals.
func (m *Model) fillInterval(t *Test) {
	t.Low, t.High = within(m.Bands, t.Util[UnknownHost])
	t.AfterLow, t.AfterHigh = within(m.AfterBands, t.Util[OwnSteps])
	t.MemHigh = t.MemMiB * math.Exp(m.Memory.High)
	t.StepLow, t.StepTop = t.stepAnywhere*math.Exp(m.Step.Low), t.stepAnywhere*math.Exp(m.Step.High)
}
