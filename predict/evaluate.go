// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/num"
)

// The published errors of utilisation (RMSLE), and the targets for memory.
const (
	PaperBest   = 0.133 // Horus, XGBoost
	PaperLinear = 0.188 // Horus, linear regression
)

// Evaluation is the accuracy of predictions for held-out measurements of a GPU type.
type Evaluation struct {
	GPU      string  `json:"gpu"`
	Rows     int     `json:"rows"`
	Models   int     `json:"models"`
	Families int     `json:"families"`
	Splits   []Split `json:"splits"`          // by model, then by family
	Later    []Split `json:"later,omitempty"` // see Later
	// Recipes is nil if none were measured.
	Recipes *RecipeErrors `json:"recipes,omitempty"`
	// Parts is nil if no parts of a GPU were measured.
	Parts *PartErrors `json:"parts,omitempty"`
	// Steps is nil if the spread of steps was not measured.
	Steps *StepsErrors `json:"steps,omitempty"`
}

// Split has the errors for one way to hold out samples.
type Split struct {
	By       string             `json:"by"`
	RMSLE    map[string]float64 `json:"rmsle"`    // by method
	Coverage float64            `json:"coverage"` // share of rows within their interval
	Width    float64            `json:"width"`    // mean of the intervals, percentage points
	// AfterCoverage and AfterWidth are those of the intervals after the first steps.
	AfterCoverage float64       `json:"after_coverage"`
	AfterWidth    float64       `json:"after_width"`
	Step          StepError     `json:"step"`
	Memory        MemoryError   `json:"memory"`
	Families      []FamilyError `json:"families"`
	Tests         []Test        `json:"-"`
}

// Figure is one line of an evaluation: its name, its format, and the target if there
// is one.
type Figure struct {
	What, Format, Wanted string
	Of                   func(Split) float64
}

// Figures lists all figures except the errors of the utilisation.
func Figures() []Figure {
	return []Figure{
		{"measured utilisation within the 90 % interval", "%.1f %%", "90 %", func(s Split) float64 { return 100 * s.Coverage }},
		{"mean width of the interval, percentage points", "%.1f", "-", func(s Split) float64 { return s.Width }},
		{"the same after its first steps", "%.1f %%", "90 %", func(s Split) float64 { return 100 * s.AfterCoverage }},
		{"mean width of that interval, percentage points", "%.1f", "-", func(s Split) float64 { return s.AfterWidth }},
		{"memory within 15 %, models", "%.1f %%", "90 % or more", func(s Split) float64 { return 100 * s.Memory.Within15 }},
		{"memory within 15 %, steps", "%.1f %%", "-", func(s Split) float64 { return 100 * s.Memory.RowsWithin15 }},
		{"memory more than 10 % under, models", "%.1f %%", "under 2 %", func(s Split) float64 { return 100 * s.Memory.Under10 }},
		{"memory more than 10 % under, steps", "%.1f %%", "-", func(s Split) float64 { return 100 * s.Memory.RowsUnder10 }},
		{"memory more than 10 % above the bound that is booked, models", "%.1f %%", "under 2 %", func(s Split) float64 { return 100 * s.Memory.Above10 }},
		{"memory, median error", "%.1f %%", "-", func(s Split) float64 { return 100 * s.Memory.Median }},
		{"memory predicted beyond what was measured, mean", "%.1f %%", "-", func(s Split) float64 { return 100 * s.Memory.Excess }},
		{"memory booked beyond what was measured, mean", "%.1f %%", "-", func(s Split) float64 { return 100 * s.Memory.Booked }},
		{"step time, median error", "%.1f %%", "-", func(s Split) float64 { return 100 * s.Step.Median }},
		{"step time, RMSLE", "%.3f", "-", func(s Split) float64 { return s.Step.RMSLE }},
	}
}

// StepError is the error of the step time.
type StepError struct {
	RMSLE    float64 `json:"rmsle"`
	Median   float64 `json:"median"`   // of the absolute relative error
	Coverage float64 `json:"coverage"` //
}

// MemoryError is the error of the memory. Shares are of models, each by its worst
// row, and of rows.
type MemoryError struct {
	Within15     float64 `json:"within_15"`
	Under10      float64 `json:"under_10"`
	Above10      float64 `json:"above_10"` // measured more than 10 % above Memory.High
	RowsWithin15 float64 `json:"rows_within_15"`
	RowsUnder10  float64 `json:"rows_under_10"`
	Median       float64 `json:"median"` // of the absolute relative error
	Excess       float64 `json:"excess"` // mean of predicted over measured, less 1
	Booked       float64 `json:"booked"` // mean of Memory.High over measured, less 1
}

// FamilyError is the utilisation's error by family.
type FamilyError struct {
	Family string  `json:"family"`
	Rows   int     `json:"rows"`
	RMSLE  float64 `json:"rmsle"`
}

// Evaluate cross-validates by model and by family.
func Evaluate(samples []Sample, gpu string) (*Evaluation, error) {
	if len(samples) < 2*outerFolds {
		return nil, fmt.Errorf("evaluate: %d measured steps; want at least %d", len(samples), 2*outerFolds)
	}
	e := &Evaluation{GPU: gpu, Rows: len(samples), Models: countModels(samples)}
	families := map[string]bool{}
	for _, s := range samples {
		families[s.Family] = true
	}
	e.Families = len(families)
	for _, way := range []struct {
		by   string
		name func(*Sample) string
	}{{"model", byModel}, {"family", byFamily}} {
		tests, err := crossValidate(samples, way.name)
		if err != nil {
			return nil, err
		}
		fillIntervals(tests)
		e.Splits = append(e.Splits, splitOf(way.by, tests))
	}
	return e, nil
}

func splitOf(by string, tests []Test) Split {
	s := Split{By: by, Tests: tests, RMSLE: map[string]float64{}}
	for _, method := range Methods() {
		s.RMSLE[method] = rmsle(tests, method)
	}
	n := float64(len(tests))
	var sizes []float64
	for i := range tests {
		t := &tests[i]
		inside := func(low, high float64) bool { return t.Sample.Util >= low-0.5 && t.Sample.Util <= high+0.5 } // NVML counts whole percents
		if inside(t.Low, t.High) {
			s.Coverage += 1 / n
		}
		if inside(t.AfterLow, t.AfterHigh) {
			s.AfterCoverage += 1 / n
		}
		if t.Sample.StepMS >= t.StepLow && t.Sample.StepMS <= t.StepTop {
			s.Step.Coverage += 1 / n
		}
		s.Width += (t.High - t.Low) / n
		s.AfterWidth += (t.AfterHigh - t.AfterLow) / n
		r := math.Log(t.StepMS / t.Sample.StepMS)
		s.Step.RMSLE += r * r / n
		sizes = append(sizes, math.Abs(t.StepMS/t.Sample.StepMS-1))
	}
	s.Step.RMSLE, s.Step.Median = math.Sqrt(s.Step.RMSLE), num.Quantile(sizes, 0.5)
	s.Memory = memoryErrors(tests)
	s.Families = familyErrors(tests)
	return s
}

func rmsle(tests []Test, method string) float64 {
	total := 0.0
	for i := range tests {
		e := tests[i].logError(method)
		total += e * e
	}
	return math.Sqrt(total / float64(max(len(tests), 1)))
}

func memoryErrors(tests []Test) MemoryError {
	var out MemoryError
	var sizes []float64
	worst := map[string][3]float64{} // model -> largest error either way, largest shortfall, largest excess over the bound
	for _, t := range tests {
		e := t.MemMiB/t.Sample.MemMiB - 1
		sizes = append(sizes, math.Abs(e))
		out.Excess += e / float64(len(tests))
		out.Booked += (t.MemHigh/t.Sample.MemMiB - 1) / float64(len(tests))
		w := worst[t.Model]
		above := 0.0
		if t.MemHigh > 0 {
			above = t.Sample.MemMiB/t.MemHigh - 1
		}
		worst[t.Model] = [3]float64{max(w[0], math.Abs(e)), max(w[1], -e), max(w[2], above)}
		if math.Abs(e) <= 0.15 {
			out.RowsWithin15 += 1 / float64(len(tests))
		}
		if e < -0.1 {
			out.RowsUnder10 += 1 / float64(len(tests))
		}
	}
	within, under := 0, 0
	for _, w := range worst {
		if w[0] <= 0.15 {
			within++
		}
		if w[1] > 0.1 {
			under++
		}
		if w[2] > 0.1 {
			out.Above10 += 1 / float64(len(worst))
		}
	}
	out.Within15, out.Under10 = float64(within)/float64(len(worst)), float64(under)/float64(len(worst))
	out.Median = num.Quantile(sizes, 0.5)
	return out
}

// familyErrors lists families, the worst first.
func familyErrors(tests []Test) []FamilyError {
	parts := map[string][]Test{}
	for _, t := range tests {
		parts[t.Family] = append(parts[t.Family], t)
	}
	var list []FamilyError
	for family, part := range parts {
		list = append(list, FamilyError{family, len(part), rmsle(part, PhysicsTrees)})
	}
	slices.SortFunc(list, func(a, b FamilyError) int {
		return cmp.Or(cmp.Compare(b.RMSLE, a.RMSLE), cmp.Compare(a.Family, b.Family))
	})
	return list
}
