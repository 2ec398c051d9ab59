// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

func points(n int, every float64, loss func(step float64) float64) []goodput.LossPoint {
	out := make([]goodput.LossPoint, n)
	for i := range out {
		step := float64(i) * every
		out[i] = goodput.LossPoint{Step: step, Loss: loss(step)}
	}
	return out
}

// TestPredictions foretells losses of both families twice as far as was seen.
func TestPredictions(t *testing.T) {
	for name, loss := range map[string]func(k float64) float64{
		"sublinear, first order":  func(k float64) float64 { return 1/(0.001*k+0.5) + 0.3 },
		"sublinear, second order": func(k float64) float64 { return 1/(1e-6*k*k+0.0005*k+0.4) + 0.1 },
		"linear":                  func(k float64) float64 { return 2*math.Pow(0.9995, k) + 0.7 },
		"flat":                    func(float64) float64 { return 0.4 },
	} {
		f, ok := fitCurve(points(20, 100, loss), 0.9)
		if !ok {
			if name != "flat" {
				t.Errorf("%s: no curve", name)
			}
			continue
		}
		if got, want := f.at(4000), loss(4000); math.Abs(got-want) > 0.03*(loss(0)-want) {
			t.Errorf("%s: foretells %.4f at step 4000 with %+v; want %.4f", name, got, f, want)
		}
	}
}

// TestRecentLossesCount: after a change of the learning rate the curve follows
// the losses since, not those before.
func TestRecentLossesCount(t *testing.T) {
	seen := points(20, 100, func(k float64) float64 {
		if k < 1000 {
			return 2 - k/1000
		}
		return 1
	})
	f, ok := fitCurve(seen, 0.6)
	if fall := f.at(1900) - f.at(2900); !ok || fall > 0.05 {
		t.Errorf("foretells a fall of %.3f after ten equal losses; want next to none", fall)
	}
}

func TestTooFewLosses(t *testing.T) {
	same := []goodput.LossPoint{{Step: 1, Loss: 3}, {Step: 1, Loss: 2}, {Step: 2, Loss: 1}, {Step: math.Inf(1), Loss: 1}, {Step: 3, Loss: math.NaN()}}
	if f, ok := fitCurve(same, 0.9); ok {
		t.Errorf("two steps that count give %+v; want no curve", f)
	}
}

// TestCurvesFall: whatever was measured, a prediction is a number and no rise.
func TestCurvesFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seen []goodput.LossPoint
		for range rapid.IntRange(0, 32).Draw(t, "points") {
			seen = append(seen, goodput.LossPoint{
				Step: rapid.Float64Range(0, 1e9).Draw(t, "step"), Loss: rapid.Float64Range(-1e6, 1e6).Draw(t, "loss"),
			})
		}
		f, ok := fitCurve(seen, rapid.Float64Range(0.1, 1).Draw(t, "decay"))
		if !ok {
			return
		}
		last := 0.0
		for _, p := range seen {
			last = max(last, p.Step)
		}
		now, later := f.at(last), f.at(3*last)
		if !(later <= now+1e-9*math.Abs(now)) || math.IsInf(now, 0) {
			t.Errorf("from %g at step %g to %g", now, last, later)
		}
	})
}

func TestSpeeds(t *testing.T) {
	v := speedsOn([]goodput.StepTime{
		{Type: "a", GPUs: 8, Time: 0.25}, {Type: "a", GPUs: 2, Time: 1}, {Type: "b", GPUs: 1, Time: 9},
		{Type: "a", GPUs: 2, Time: 3},
	}, "a")
	for n, want := range map[int]float64{1: 0.25, 2: 0.5, 5: 2.25, 8: 4, 16: 8} {
		if got := v.at(n); got != want {
			t.Errorf("%d GPUs: %g steps a second; want %g", n, got, want)
		}
	}
	if got := speedsOn([]goodput.StepTime{{Type: "b", GPUs: 1, Time: 2}}, "a").at(1); got != 0.5 {
		t.Errorf("another type alone: %g; want 0.5", got)
	}
}
