// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"os"
	"testing"

	"github.com/fairway-gpu/fairway/predict/features"
	"github.com/fairway-gpu/fairway/predict/onnx"
	"github.com/fairway-gpu/fairway/sched/num"
)

// Every measured model, predicted by a fit without it.
func TestRecipes(t *testing.T) {
	m, err := For("h200")
	if err != nil {
		t.Fatal(err)
	}
	recipes, without, err := ReadRecipes(os.DirFS("../lab/profiling/data"), "h200")
	if err != nil || without > 0 {
		t.Fatalf("%d steps without features, %v", without, err)
	}
	e, err := EvaluateRecipes(m, recipes)
	if err != nil {
		t.Fatal(err)
	}
	most := map[string]float64{"without convolutions": 0.12, "with convolutions": 0.3}
	for _, k := range e.Kinds {
		if k.Step.Median > 0.12 || k.Step.RMSLE > most[k.Kind] || k.RMSLE > 0.16 || k.After > 0.16 {
			t.Errorf("%s: step time off by %.3f in the median, RMSLE %.3f, of the utilisation %.3f, after the first steps %.3f; want at most 0.12, %g and 0.16",
				k.Kind, k.Step.Median, k.Step.RMSLE, k.RMSLE, k.After, most[k.Kind])
		}
	}
	// The replay itself, which is fitted to nothing of them.
	var errors []float64
	for _, s := range recipes {
		if s.Recipe.Compile {
			continue
		}
		errors = append(errors, math.Abs(s.x.at("reserved_mib")/s.ReservedMiB-1))
	}
	if half, worst := num.Quantile(errors, 0.5), num.Quantile(errors, 1); half > 0.035 || worst > 0.26 {
		t.Errorf("reserved memory off by %.3f in the median, %.3f at most; want 0.035 and 0.26", half, worst)
	}
	if c := e.Compiled; c.Rows < 36 || c.Step.Median > 0.2 || c.Step.RMSLE > 0.25 || c.Memory.RowsUnder10 > 0.05 || c.Memory.Above10 > 0.05 {
		t.Errorf("with torch.compile: %d steps, step time %+v, memory %+v", c.Rows, c.Step, c.Memory)
	}
	if e.Rows < 45 || len(e.Kinds) != 2 || e.Memory.RowsUnder10 > 0.05 || e.Memory.Above10 > 0 || e.Memory.RowsWithin15 < 0.95 {
		t.Errorf("memory: %+v", e.Memory)
	}
}

func TestRecipeChangesWhatItShould(t *testing.T) {
	m, err := For("h200")
	if err != nil {
		t.Fatal(err)
	}
	d := onnx.Decoder{Layers: 12, Width: 768, Heads: 12, Vocabulary: 32000, Sequence: 1024}
	predict := func(recipe string) Prediction {
		r, err := features.ParseRecipe(recipe)
		if err != nil {
			t.Fatal(err)
		}
		shapes, err := onnx.Infer(d.Model(), onnx.Options{Batch: 8})
		if err != nil {
			t.Fatal(err)
		}
		return m.Predict(features.Extract(shapes, r))
	}
	plain, adam, amp, half, again := predict(""), predict("adam"), predict("amp+adam"), predict("bf16+adam"), predict("bf16+adam+checkpoint")
	if adam.Memory.Optimizer != 2*plain.Memory.Optimizer {
		t.Errorf("Adam keeps %.0f MiB, momentum %.0f", adam.Memory.Optimizer, plain.Memory.Optimizer)
	}
	if !(again.Memory.Total < half.Memory.Total && half.Memory.Total < amp.Memory.Total && amp.Memory.Total < adam.Memory.Total) {
		t.Errorf("memory: recomputed %.0f, bf16 %.0f, amp %.0f, single precision %.0f", again.Memory.Total, half.Memory.Total, amp.Memory.Total, adam.Memory.Total)
	}
	if !(half.BusySeconds < amp.BusySeconds && amp.BusySeconds < adam.BusySeconds/2 && half.BusySeconds < again.BusySeconds) {
		t.Errorf("busy: bf16 %.4f s, amp %.4f, single precision %.4f, recomputed %.4f", half.BusySeconds, amp.BusySeconds, adam.BusySeconds, again.BusySeconds)
	}
	joined := predict("amp+adam+compile")
	if wide, eager := joined.StepHigh/joined.StepLow, amp.StepHigh/amp.StepLow; joined.StepSeconds >= amp.StepSeconds || wide <= eager || joined.Confidence >= amp.Confidence {
		t.Errorf("with torch.compile a step takes %g s (%g without), interval by %g (%g), confidence %g (%g)",
			joined.StepSeconds, amp.StepSeconds, wide, eager, joined.Confidence, amp.Confidence)
	}
	if plain.Memory.High <= plain.Memory.Total {
		t.Errorf("memory %.0f, at most %.0f", plain.Memory.Total, plain.Memory.High)
	}
}

// A measured step corrects the utilisation: the longer the step, the idler the GPU.
func TestPredictAfter(t *testing.T) {
	m, err := For("h200")
	if err != nil {
		t.Fatal(err)
	}
	x := extract(t, chain(20), 32)
	before := m.Predict(x)
	slow, fast := m.PredictAfter(x, Steps{Seconds: 3 * before.StepSeconds}), m.PredictAfter(x, Steps{Seconds: before.StepSeconds / 3})
	if !(slow.Util < before.Util && before.Util < fast.Util) {
		t.Errorf("utilisation %.1f at three times the step, %.1f at the predicted, %.1f at a third", slow.Util, before.Util, fast.Util)
	}
	if slow.StepSeconds != 3*before.StepSeconds || slow.StepLow != slow.StepHigh {
		t.Errorf("step %g in %g to %g; it was measured", slow.StepSeconds, slow.StepLow, slow.StepHigh)
	}
}

func TestBadRecipes(t *testing.T) {
	for _, text := range []string{"fp8", "amp+bf16", "amp adam"} {
		if r, err := features.ParseRecipe(text); err == nil {
			t.Errorf("%q is read as %v", text, r)
		}
	}
	for _, text := range []string{"", "-", "amp", "bf16+adam+checkpoint", "amp+adam+compile"} {
		r, err := features.ParseRecipe(text)
		if again, _ := features.ParseRecipe(r.String()); err != nil || again != r {
			t.Errorf("%q is read as %v (%v), and that as %v", text, r, err, again)
		}
	}
}
