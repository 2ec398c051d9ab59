// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fairway-gpu/fairway/sim/zoo"
)

// TestRealLosses: how well the fall of the loss in the next twentieth of the training
// is foretold, from 30 losses so far, on a curve of the form that is fitted and on
// those of real trainings. The error is relative to the whole fall of that twentieth
// and summed over models and moments, so that flat parts do not dominate.
func TestRealLosses(t *testing.T) {
	z, err := zoo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	const next, seen = 0.05, 30
	var off, all [2]float64 // own form, real
	for _, name := range z.Names() {
		m, _ := z.Model(name)
		if len(m.Loss) == 0 {
			continue
		}
		random := rand.New(rand.NewPCG(1, 1))
		for i, loss := range []func(part float64) float64{
			func(part float64) float64 { return 0.9/(1+20*part) + 0.1 },
			m.LossAt,
		} {
			for _, now := range []float64{0.1, 0.25, 0.5} {
				f, ok := fitCurve(points(seen, now/(seen-1), func(part float64) float64 {
					if i == 0 {
						return loss(part)
					}
					return loss(part) * math.Exp(m.LossScatter*random.NormFloat64())
				}), Default().Decay)
				if !ok {
					t.Fatalf("%s, after %g: no curve", name, now)
				}
				want := loss(now) - loss(now+next)
				off[i] += math.Abs(f.at(now) - f.at(now+next) - want)
				all[i] += math.Abs(want)
			}
		}
	}
	own, real := off[0]/all[0], off[1]/all[1]
	t.Logf("the fall in the next twentieth of the training is off by %.0f %% on its own form, by %.0f %% on real losses", 100*own, 100*real)
	if own > 0.05 {
		t.Errorf("off by %.0f %% on its own form; want at most 5 %%", 100*own)
	}
	if real > 1 {
		t.Errorf("off by %.0f %% on real losses; no better than expecting no fall", 100*real)
	}
}
