// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/interfere/learn"
	"github.com/fairway-gpu/fairway/predict"
)

// HorusPrediction is how well utilisation, memory and step time are predicted
// of models that the predictor has not seen.
type HorusPrediction struct {
	Evaluation *predict.Evaluation
}

// RunHorusPrediction holds out the measurements of a folder, such as
// lab/profiling/data.
func RunHorusPrediction(data fs.FS, gpu string) (*HorusPrediction, error) {
	samples, _, err := predict.ReadSamples(data, gpu)
	if err != nil {
		return nil, err
	}
	e, err := predict.Evaluate(samples, gpu)
	if err != nil {
		return nil, err
	}
	e.Later, err = predict.Later(samples, gpu, laterSince)
	return &HorusPrediction{e}, err
}

// laterSince is the first session that was measured when the columns, the
// methods and their settings had been chosen from the sessions before it.
const laterSince = "20261115T215718Z"

// The bars of the memory prediction.
const (
	memoryWithin = 0.9  // of the models within 15 %
	memoryUnder  = 0.05 // of the models more than 10 % under
)

// byModel is the errors of models held out, byFamily those of whole families.
func (h *HorusPrediction) byModel() predict.Split  { return h.Evaluation.Splits[0] }
func (h *HorusPrediction) byFamily() predict.Split { return h.Evaluation.Splits[1] }

// Claims are what was to be shown of predictions.
func (h *HorusPrediction) Claims() []Claim {
	s := h.byModel()
	later, strange := h.Evaluation.Later[0], h.Evaluation.Later[len(h.Evaluation.Later)-1]
	best := fmt.Sprintf("%.3f or less", predict.PaperBest)
	errors := func(s, families predict.Split) string {
		return fmt.Sprintf("%.3f (host unknown %.3f; families never seen %.3f; linear %.3f)", s.RMSLE[predict.PhysicsTrees],
			s.RMSLE[predict.UnknownHost], families.RMSLE[predict.PhysicsTrees], s.RMSLE[predict.Linear])
	}
	share := func(ours, after float64) string {
		return fmt.Sprintf("%.1f %% (measured afterwards %.1f %%)", 100*ours, 100*after)
	}
	return []Claim{
		{"utilisation of models never seen, RMSLE", best, errors(s, h.byFamily()), s.RMSLE[predict.PhysicsTrees] <= predict.PaperBest},
		{"the same of models measured afterwards", best, errors(later, strange), later.RMSLE[predict.PhysicsTrees] <= predict.PaperBest},
		{"memory within 15 %, models", fmt.Sprintf("%.0f %% or more", 100*memoryWithin), share(s.Memory.Within15, later.Memory.Within15), s.Memory.Within15 >= memoryWithin},
		{"memory more than 10 % under, models", fmt.Sprintf("under %.0f %%", 100*memoryUnder), share(s.Memory.Under10, later.Memory.Under10), s.Memory.Under10 < memoryUnder},
	}
}

// Markdown returns this part of the page. images is the folder of the plots,
// relative to the page.
func (h *HorusPrediction) Markdown(images string) string {
	e, model, family := h.Evaluation, h.byModel(), h.byFamily()
	var b strings.Builder
	fmt.Fprintf(&b, `## Prediction from the graph

%d measured steps of %d models in %d families on one %s (lab/profiling/data), ten parts: every
model is predicted by what was trained without it; once more with whole families held out.
No architecture is on both sides. The paper's figures are of its own models and GPUs.

    fairway predict evaluate --data lab/profiling/data

| utilisation, RMSLE | models held out | families held out | the paper |
|---|---|---|---|
`, e.Rows, e.Models, e.Families, strings.ToUpper(e.GPU))
	for _, method := range predict.Methods() {
		paper := "-"
		switch method {
		case predict.Linear:
			paper = fmt.Sprintf("%.3f", predict.PaperLinear)
		case predict.Trees:
			paper = fmt.Sprintf("%.3f", predict.PaperBest)
		}
		bold := ""
		if method == predict.PhysicsTrees {
			bold = "**"
		}
		fmt.Fprintf(&b, "| %s | %s%.3f%s | %s%.3f%s | %s |\n", method, bold, model.RMSLE[method], bold, bold, family.RMSLE[method], bold, paper)
	}
	fmt.Fprint(&b, `
"linear" and "trees" see the figures that the paper names: FLOPs, parameters, batch,
activations, numbers of matrix products, ReLUs and convolutions, input size. "physics" is
busy time over step time, both sums over the graph with fitted coefficients; see
docs/predict.md. The coefficients of the host's part have a factor for every ten models
of a measuring session, for machines with the same GPU differ in their hosts, and one
host from hour to hour; the last line is what remains when nothing is known of the host.

`)
	h.printOthers(&b, model, family)
	fmt.Fprintf(&b, `
![Utilisation, predicted and measured](%s/horus-predict-util.svg)

![Memory, predicted and measured](%s/horus-predict-memory.svg)

![Step time, predicted and measured](%s/horus-predict-step.svg)

The families that are predicted worst:

| family | steps | RMSLE, models held out | families held out |
|---|---|---|---|
`, images, images, images)
	for _, f := range model.Families[:min(8, len(model.Families))] {
		i := slices.IndexFunc(family.Families, func(o predict.FamilyError) bool { return o.Family == f.Family })
		fmt.Fprintf(&b, "| %s | %d | %.3f | %.3f |\n", f.Family, f.Rows, f.RMSLE, family.Families[i].RMSLE)
	}
	h.printLater(&b)
	return b.String()
}

// printLater writes what became of models that were measured afterwards.
func (h *HorusPrediction) printLater(b *strings.Builder) {
	later := h.Evaluation.Later
	fmt.Fprintf(b, `
### Models that were measured afterwards

The settings above were chosen by the cross-validation that they are judged by. So when all
was chosen, %d steps of other models were measured on two further machines, and predicted
by what had been measured before. The speed of the host, where a method wants it, is that of
the other models measured within minutes, as a user finds it by fairway predict host-speed.

    fairway predict evaluate --data lab/profiling/data --since %s

`, len(later[0].Tests), laterSince)
	fmt.Fprint(b, "| |")
	for _, s := range later {
		fmt.Fprintf(b, " %s |", s.By)
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", len(later)))
	row := func(what, format string, figure func(predict.Split) float64) {
		fmt.Fprintf(b, "| %s |", what)
		for _, s := range later {
			fmt.Fprintf(b, " "+format+" |", figure(s))
		}
		fmt.Fprintln(b)
	}
	for _, method := range predict.Methods() {
		row("utilisation, RMSLE: "+method, "%.3f", func(s predict.Split) float64 { return s.RMSLE[method] })
	}
	for _, f := range predict.Figures() {
		row(f.What, f.Format, f.Of)
	}
	fmt.Fprint(b, `
Two things were added after these models had been seen: the factor of the host for every ten
models, where there had been one for a session, and the trees that correct memory. So the
lines of memory flatter a little, and those of the utilisation hardly: with the host unknown
no factor is used. The program's own model is made from all of them.
`)
}

// printOthers writes the table of everything but the utilisation's error.
func (h *HorusPrediction) printOthers(b *strings.Builder, model, family predict.Split) {
	fmt.Fprint(b, "| | wanted | models held out | families held out |\n|---|---|---|---|\n")
	for _, f := range predict.Figures() {
		fmt.Fprintf(b, "| %s | %s | "+f.Format+" | "+f.Format+" |\n", f.What, f.Wanted, f.Of(model), f.Of(family))
	}
}

// Charts returns the plots by file name.
func (h *HorusPrediction) Charts() map[string]Plot {
	const gibi = 1024
	var util, linear, memory, step [][2]float64
	for _, t := range h.byModel().Tests {
		util = append(util, [2]float64{t.Util[predict.PhysicsTrees], t.Sample.Util})
		linear = append(linear, [2]float64{t.Util[predict.Linear], t.Sample.Util})
		memory = append(memory, [2]float64{t.MemMiB / gibi, t.Sample.MemMiB / gibi})
		step = append(step, [2]float64{t.StepMS, t.Sample.StepMS})
	}
	return map[string]Plot{
		"horus-predict-util.svg": pairDots{Title: "GPU utilisation of models never seen, percent", X: "predicted", Y: "measured", Diagonal: true,
			Sets: []Line{{Name: "ours", Points: util}, {Name: "linear", Points: linear}}},
		"horus-predict-memory.svg": pairDots{Title: "GPU memory of models never seen, GiB", X: "predicted", Y: "measured", Diagonal: true,
			Sets: []Line{{Name: "ours", Points: memory}}},
		"horus-predict-step.svg": pairDots{Title: "Time of a step of models never seen, ms", X: "predicted", Y: "measured", Diagonal: true,
			Sets: []Line{{Name: "ours", Points: step}}},
	}
}

// Loads returns what was predicted of every measured job by a predictor that
// had not seen its model, for RunHorusPairs.
func (h *HorusPrediction) Loads() map[learn.Key]interfere.Load {
	out := map[learn.Key]interfere.Load{}
	for _, t := range h.byModel().Tests {
		out[learn.Key{Model: t.Model, Batch: int(t.Batch)}] = interfere.Predicted(t.Util[predict.PhysicsTrees], t.Low, t.High, t.StepMS/1e3)
	}
	return out
}
