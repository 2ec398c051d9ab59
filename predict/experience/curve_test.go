// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCurve(t *testing.T) {
	var c Curve
	if _, ok := c.At(0.5); ok {
		t.Error("an empty curve knows the noise scale")
	}
	for _, m := range [][2]float64{{0.49, 10}, {0.30, 100}, {0.32, 400}, {0.45, 10}, {0.31, 200}} {
		if err := c.Add(m[0], m[1]); err != nil {
			t.Fatal(err)
		}
	}
	if len(c) != 2 || c[0].Cell != 6 || c[0].Count != 3 || c[1].Cell != 9 || c[1].Count != 2 {
		t.Fatalf("curve %+v; want cell 6 of 3 measurements and cell 9 of 2", c)
	}
	for _, w := range []struct {
		frac, noise float64
		ok          bool
	}{
		{0, 200, true}, {0.325, 200, true}, // flat up to the middle of the first cell
		{0.4, math.Sqrt(200 * 10), true}, // halfway between the middles
		{0.475, 10, true}, {0.5, 10, true},
		{0.51, 10, false}, {1, 10, false}, // nobody got there
		{-0.1, 0, false}, {math.NaN(), 0, false},
	} {
		if got, ok := c.At(w.frac); ok != w.ok || ok && !near(got, w.noise) {
			t.Errorf("at %v: %v, %v; want %v, %v", w.frac, got, ok, w.noise, w.ok)
		}
	}
}

func TestCurveExtremes(t *testing.T) {
	var c Curve
	for _, m := range [][2]float64{{0, 0}, {1, math.Inf(1)}} {
		if err := c.Add(m[0], m[1]); err != nil {
			t.Fatal(err)
		}
	}
	want := Curve{{Cell: 0, Noise: leastNoise, Count: 1}, {Cell: Cells - 1, Noise: mostNoise, Count: 1}}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	for _, m := range [][2]float64{{-0.01, 1}, {1.01, 1}, {math.NaN(), 1}, {0.5, -1}, {0.5, math.NaN()}} {
		if c.Add(m[0], m[1]) == nil {
			t.Errorf("noise %v at %v was taken", m[1], m[0])
		}
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Errorf("after what was refused: %s", d)
	}
}
