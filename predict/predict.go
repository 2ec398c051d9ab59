// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/predict/features"
)

// Prediction is how training a model uses a GPU. Intervals are right nine times out
// of ten for models like the measured ones.
type Prediction struct {
	Util, UtilLow, UtilHigh        float64 // percent of time that kernels run
	Memory                         Memory
	StepSeconds, StepLow, StepHigh float64 // of a step alone on the GPU
	BusySeconds, HostSeconds       float64 // the physical estimate of the step's parts
	Confidence                     float64 // 0 to 1
	Notes                          []string
}

// scaledWidth widens the intervals of a GPU type or part without measurements: by a factor of
// e to that power either way.
const scaledWidth = 0.5

// Predict predicts a training step from the features of a graph, at their batch size.
func (m *Model) Predict(f *features.Features) Prediction { return m.PredictAfter(f, Steps{}) }

// PredictAfter is Predict for a job whose first steps were measured.
func (m *Model) PredictAfter(f *features.Features, first Steps) Prediction {
	v := vectorOf(f)
	guess := m.estimate(v)
	util := m.util(v, guess)
	known := first.Seconds > 0
	if known {
		guess, util = m.after(v, guess, first)
	}
	out := Prediction{
		Util: util, Memory: m.memory(f, v),
		BusySeconds: guess.Busy / 1e3, HostSeconds: guess.Host / 1e3,
		StepSeconds: guess.Step / 1e3,
	}
	bands, steps := m.Bands, m.Step
	if known {
		bands = m.AfterBands
	}
	if v.recipe && m.Recipe != nil {
		bands, steps = []band{{100, m.Recipe.Util}}, m.Recipe.Step
		if c := m.Recipe.Compiled; v.compiled && c != nil {
			bands, steps = []band{{100, c.Util}}, c.Step
		}
	}
	if known && m.Even.limits(first) {
		bands = []band{{100, m.Even.Span}}
	}
	if m.scaled || m.part.Text != "" {
		bands, steps = widened(bands), steps.widened()
	}
	if known {
		steps = span{}
	}
	out.UtilLow, out.UtilHigh = within(bands, util)
	out.StepLow, out.StepHigh = out.StepSeconds*math.Exp(steps.Low), out.StepSeconds*math.Exp(steps.High)
	out.Confidence, out.Notes = m.trust(f, v, guess)
	if out.Memory.Total > m.device.MemoryMiB {
		out.Notes = append(out.Notes, fmt.Sprintf("needs more memory than a %s has (%.0f MiB)", m.device.Name, m.device.MemoryMiB))
	}
	return out
}

// Device is the GPU type that the model predicts for.
func (m *Model) Device() Device { return m.device }

func clampUtil(u float64) float64 { return min(max(u, 0), 100) }

// util is the prediction in percent.
func (m *Model) util(v *vector, p physics) float64 {
	switch {
	case v.recipe: // the trees have seen none
	case m.Method == byTrees:
		return clampUtil(math.Expm1(ln1(p.Util) + m.Residual.of(m.treeInputs(v, p))))
	case m.Method == byLinear:
		return clampUtil(math.Expm1(m.Linear.of(linearInputs(v, p))))
	}
	return clampUtil(p.Util)
}

// after corrects an estimate by measured steps, and returns the utilisation too.
func (m *Model) after(v *vector, guess physics, first Steps) (physics, float64) {
	ms := first.Seconds * 1e3
	if m.Even.limits(first) {
		return physics{ms, min(guess.Host, ms), ms, m.Even.Util}, m.Even.Util
	}
	corrected := guess.during(ms)
	if v.recipe || m.Method != byTrees || m.After == nil {
		return corrected, m.util(v, corrected)
	}
	return corrected, clampUtil(math.Expm1(ln1(corrected.Util) + m.After.of(m.afterInputs(v, guess, corrected))))
}

// within returns the interval around a predicted utilisation.
func within(bands []band, util float64) (low, high float64) {
	b := bands[len(bands)-1]
	if i := slices.IndexFunc(bands, func(b band) bool { return util <= b.Upto }); i >= 0 {
		b = bands[i]
	}
	return clampUtil(math.Expm1(ln1(util) + b.Low)), clampUtil(math.Expm1(ln1(util) + b.High))
}

func widened(bands []band) []band {
	var list []band
	for _, b := range bands {
		list = append(list, band{b.Upto, b.span.widened()})
	}
	return list
}

func (s span) widened() span { return span{s.Low - scaledWidth, s.High + scaledWidth} }

// space is the region of the training set, to measure how far a model is from it.
type space struct {
	Scale   []float64   `json:"scale"`   // of the inputs of the trees
	Points  [][]float64 `json:"points"`  // the training set
	Typical float64     `json:"typical"` // nine of ten have another model closer than this
}

func (s space) check(inputs int) error {
	if len(s.Scale) != inputs || len(s.Points) == 0 || !(s.Typical > 0) {
		return fmt.Errorf("space: %d scales, %d points, typical distance %g; want %d, some, above 0", len(s.Scale), len(s.Points), s.Typical, inputs)
	}
	for i, p := range s.Points {
		if len(p) != inputs {
			return fmt.Errorf("space: point %d has %d coordinates; want %d", i, len(p), inputs)
		}
	}
	for _, v := range s.Scale {
		if !(v > 0) {
			return fmt.Errorf("space: scale %g; want above 0", v)
		}
	}
	return nil
}

func (s space) between(a, b []float64) float64 {
	total := 0.0
	for j := range a {
		d := (a[j] - b[j]) / s.Scale[j]
		total += d * d
	}
	return math.Sqrt(total)
}

// nearest is the distance to the training set, relative to the typical one.
func (s space) nearest(x []float64) float64 {
	least := math.Inf(1)
	for _, p := range s.Points {
		least = min(least, s.between(x, p))
	}
	return least / s.Typical
}

// trust returns the confidence in a prediction, and the reasons if it is low. It
// falls with the distance from the measurements, with operators without a rule, with
// unknown shapes, and without measurements of the GPU type.
func (m *Model) trust(f *features.Features, v *vector, p physics) (confidence float64, notes []string) {
	confidence = 0.95
	if m.Method == byLinear {
		confidence = 0.6
	}
	if m.scaled {
		confidence *= 0.35
		notes = append(notes, fmt.Sprintf("no measurements of %s: scaled from %s by peak rates; intervals are wide", m.device.Name, m.GPU))
	}
	if m.part.Text != "" {
		confidence *= 0.7
		notes = append(notes, fmt.Sprintf("%s of a %s: scaled from the whole; intervals are wide", m.part.Text, m.device.Name))
	}
	language := v.recipe && m.Recipe != nil && v.at("convs") == 0 // like the models that recipes were measured on
	if far := m.Space.nearest(m.treeInputs(v, p)); far > 1 && !language {
		confidence *= max(math.Exp(1-far), 0.2)
		if far > 1.5 {
			notes = append(notes, "unlike the measured models")
		}
	}
	if v.recipe {
		confidence *= 0.8
		switch {
		case m.Recipe == nil:
			confidence *= 0.5
			notes = append(notes, fmt.Sprintf("recipe %s: none was measured on a %s; times are those of single precision", f.Recipe, m.GPU))
		case v.compiled && m.Recipe.Compiled == nil:
			confidence *= 0.5
			notes = append(notes, fmt.Sprintf("recipe %s: torch.compile was not measured on a %s; times are those without it", f.Recipe, m.GPU))
		case v.compiled:
			confidence *= 0.8
			notes = append(notes, "recipe "+f.Recipe.String()+": few models were measured with torch.compile; intervals are wide")
		case f.Recipe.Checkpoint && f.Layers == 0:
			confidence *= 0.5
			notes = append(notes, "recipe "+f.Recipe.String()+": no layers are known by the names of the operators; nothing is recomputed")
		case v.at("convs") > 0:
			notes = append(notes, "recipe "+f.Recipe.String()+": few convolutions were measured with it; their step time may be off by half")
		}
	}
	if n := v.at("unknown"); n > 0 {
		total := 0
		for _, count := range f.Ops {
			total += count
		}
		confidence *= max(0, 1-2*n/max(float64(total), n))
		var list []string
		for op, count := range f.Unknown {
			list = append(list, fmt.Sprintf("%s (%d)", op, count))
		}
		slices.Sort(list)
		notes = append(notes, "operators without a rule: "+strings.Join(list, ", "))
	}
	if f.Certain < 1 {
		confidence *= f.Certain * f.Certain
		notes = append(notes, fmt.Sprintf("shapes of %.0f %% of the operations are unknown: set the open dimensions", 100*(1-f.Certain)))
	}
	if f.Params == 0 {
		confidence *= 0.5
		notes = append(notes, "no parameters found: there is nothing to train")
	}
	return confidence, notes
}
