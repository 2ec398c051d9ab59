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

// HorusPrediction is the error of predicted utilisation, memory and step time for
// unseen models.
type HorusPrediction struct {
	Evaluation *predict.Evaluation
}

// RunHorusPrediction cross-validates predictions on the measurements of a folder,
// such as lab/profiling/data.
func RunHorusPrediction(data fs.FS, gpu string) (*HorusPrediction, error) {
	samples, _, err := predict.ReadSamples(data, gpu)
	if err != nil {
		return nil, err
	}
	e, err := predict.Evaluate(samples, gpu)
	if err != nil {
		return nil, err
	}
	if e.Later, err = predict.Later(samples, gpu, laterSince); err != nil {
		return nil, err
	}
	steps, err := predict.ReadSteps(data, gpu)
	if err != nil {
		return nil, err
	}
	e.Steps, err = predict.EvaluateSteps(steps, samples)
	return &HorusPrediction{e}, err
}

// laterSince is the first session measured after the columns, the methods and
// their settings had been chosen.
const laterSince = "20261115T215718Z"

// Our own targets.
const (
	afterSteps   = 0.1  // RMSLE of the utilisation, host unknown, after the job's first steps
	memoryWithin = 0.9  // of the models within 15 %
	memoryUnder  = 0.02 // of the models more than 10 % under
)

// byModel returns the errors with models held out, byFamily those with whole
// families held out.
func (h *HorusPrediction) byModel() predict.Split  { return h.Evaluation.Splits[0] }
func (h *HorusPrediction) byFamily() predict.Split { return h.Evaluation.Splits[1] }

// Claims returns the claims about predictions.
func (h *HorusPrediction) Claims() []Claim {
	s := h.byModel()
	later, newFamilies := h.Evaluation.Later[0], h.Evaluation.Later[len(h.Evaluation.Later)-1]
	best := fmt.Sprintf("%.3f or less", predict.PaperBest)
	errors := func(s, families predict.Split) string {
		return fmt.Sprintf("%.3f (host unknown %.3f; unseen families %.3f; linear %.3f)", s.RMSLE[predict.PhysicsTrees],
			s.RMSLE[predict.UnknownHost], families.RMSLE[predict.PhysicsTrees], s.RMSLE[predict.Linear])
	}
	share := func(ours, after float64) string {
		return fmt.Sprintf("%.1f %% (measured later %.1f %%)", 100*ours, 100*after)
	}
	return []Claim{
		{"utilisation of unseen models, RMSLE", best, errors(s, h.byFamily()), s.RMSLE[predict.PhysicsTrees] <= predict.PaperBest},
		{"the same for models measured later", best, errors(later, newFamilies), later.RMSLE[predict.PhysicsTrees] <= predict.PaperBest},
		h.claimAfter(),
		h.claimSpread(),
		{"memory within 15 %, models", fmt.Sprintf("%.0f %% or more", 100*memoryWithin), share(s.Memory.Within15, later.Memory.Within15), s.Memory.Within15 >= memoryWithin},
		{"memory more than 10 % under, models", fmt.Sprintf("under %.0f %%", 100*memoryUnder), share(s.Memory.Under10, later.Memory.Under10), s.Memory.Under10 < memoryUnder},
	}
}

// claimAfter is about predictions that a measured step has corrected.
func (h *HorusPrediction) claimAfter() Claim {
	of := func(s predict.Split) float64 { return s.RMSLE[predict.OwnSteps] }
	ours := fmt.Sprintf("%.3f (unseen families %.3f; measured later %.3f)", of(h.byModel()), of(h.byFamily()), of(h.Evaluation.Later[0]))
	return Claim{"the same, host unknown, by the mean of the job's first steps", fmt.Sprintf("%.2f or less", afterSteps), ours, of(h.byModel()) <= afterSteps}
}

// claimSpread is about the same with the spread of these steps, which was measured later,
// on one more host.
func (h *HorusPrediction) claimSpread() Claim {
	s := h.Evaluation.Steps
	ours := fmt.Sprintf("%.3f (%d steps measured again; by their mean %.3f, before the job runs %.3f)", s.BySteps, s.Rows, s.ByMean, s.Before)
	return Claim{"the same by their mean and spread", fmt.Sprintf("%.2f or less", afterSteps), ours, s.BySteps <= afterSteps}
}

// Markdown returns this part of the page. images is the folder of the plots,
// relative to the page.
func (h *HorusPrediction) Markdown(images string) string {
	e, model, family := h.Evaluation, h.byModel(), h.byFamily()
	var b strings.Builder
	fmt.Fprintf(&b, `## Prediction from the graph

%d measured steps of %d models in %d families on one %s (lab/profiling/data), in ten-fold
cross-validation: single models are held out, then whole families. No architecture is on
both sides of a split. The paper's figures are for its own models and GPUs.

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
"linear" and "trees" use the paper's features: FLOPs, parameters, batch, activations,
numbers of matrix products, ReLUs and convolutions, input size. "physics" is busy time over
step time, both sums over the graph with fitted coefficients; see docs/predict.md. Machines
with the same GPU have different hosts, and a host varies from hour to hour, so the host's
coefficients have a factor for every ten models of a measuring session. "host speed
unknown" does without it, and so does the last line, which knows the time of a step.

`)
	h.printOthers(&b, model, family)
	fmt.Fprintf(&b, `
![Utilisation, predicted and measured](%s/horus-predict-util.svg)

![Memory, predicted and measured](%s/horus-predict-memory.svg)

![Step time, predicted and measured](%s/horus-predict-step.svg)

The families with the largest errors:

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

// printLater writes the errors for models measured later.
func (h *HorusPrediction) printLater(b *strings.Builder) {
	later := h.Evaluation.Later
	fmt.Fprintf(b, `
### Models measured later

The cross-validation above chose the settings that it judges. So once they were chosen, %d
steps of other models were measured on two more machines and predicted from the earlier
measurements. Methods that need the speed of the host get it from other models measured
within minutes, as users get it from fairway predict host-speed.

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
Three things were added after these measurements: a host factor for every ten models instead
of one per session, the trees that correct memory, and the mean of four forests instead of
one, which was chosen by cross-validation of the earlier models. The memory figures are
therefore slightly optimistic, the utilisation figures hardly: with the host unknown no
factor is used. The built-in model is trained on all measurements.
`)
}

// printOthers writes the table of all errors but that of utilisation.
func (h *HorusPrediction) printOthers(b *strings.Builder, model, family predict.Split) {
	fmt.Fprint(b, "| | target | models held out | families held out |\n|---|---|---|---|\n")
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
		"horus-predict-util.svg": pairDots{Title: "GPU utilisation of unseen models, percent", X: "predicted", Y: "measured", Diagonal: true,
			Sets: []Line{{Name: "ours", Points: util}, {Name: "linear", Points: linear}}},
		"horus-predict-memory.svg": pairDots{Title: "GPU memory of unseen models, GiB", X: "predicted", Y: "measured", Diagonal: true,
			Sets: []Line{{Name: "ours", Points: memory}}},
		"horus-predict-step.svg": pairDots{Title: "Step time of unseen models, ms", X: "predicted", Y: "measured", Diagonal: true,
			Sets: []Line{{Name: "ours", Points: step}}},
	}
}

// Loads returns the prediction for every measured job by a predictor trained
// without its model, for RunHorusPairs.
func (h *HorusPrediction) Loads() map[learn.Key]interfere.Load {
	out := map[learn.Key]interfere.Load{}
	for _, t := range h.byModel().Tests {
		out[learn.Key{Model: t.Model, Batch: int(t.Batch)}] = interfere.Predicted(t.Util[predict.PhysicsTrees], t.Low, t.High, t.StepMS/1e3)
	}
	return out
}
