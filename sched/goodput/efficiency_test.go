// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestEfficiencyAndGain(t *testing.T) {
	for _, tc := range []struct {
		noise            float64
		initial, batch   int
		efficiency, gain float64
	}{
		{100, 100, 100, 1, 1},
		{0, 100, 400, 0.25, 1},               // no noise: a larger batch brings nothing
		{300, 100, 500, 0.5, 2.5},            // (300+100)/(300+500)
		{math.Inf(1), 100, 500, 1, 5},        // only noise: every example counts
		{1e300, 1, 1 << 20, 1, 1 << 20},      // almost only noise
		{200, 200, 100, 400.0 / 300, 2. / 3}, // below the initial size
	} {
		if got := Efficiency(tc.noise, tc.initial, tc.batch); !near(got, tc.efficiency) {
			t.Errorf("Efficiency(%g, %d, %d) = %v, want %v", tc.noise, tc.initial, tc.batch, got, tc.efficiency)
		}
		if got := Gain(tc.noise, tc.initial, tc.batch); !near(got, tc.gain) {
			t.Errorf("Gain(%g, %d, %d) = %v, want %v", tc.noise, tc.initial, tc.batch, got, tc.gain)
		}
	}
}

func TestEfficiencyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		noise := rapid.Float64Range(0, 1e9).Draw(t, "noise")
		initial := rapid.IntRange(1, 1000).Draw(t, "initial")
		batch := initial * rapid.IntRange(1, 64).Draw(t, "times")
		e, g := Efficiency(noise, initial, batch), Gain(noise, initial, batch)
		const slack = 1 + 1e-12
		if e > 1 || e*slack < float64(initial)/float64(batch) {
			t.Errorf("efficiency %g is not in [%d/%d, 1]", e, initial, batch)
		}
		if g*slack < 1 || g > float64(batch)/float64(initial)*slack {
			t.Errorf("gain %g is not in [1, %d/%d]", g, batch, initial)
		}
		if Efficiency(noise, initial, batch+1) > e*slack {
			t.Error("efficiency grows with the batch")
		}
		if Gain(noise, initial, batch+1)*slack < g {
			t.Error("gain falls with the batch")
		}
		if Efficiency(noise+1, initial, batch)*slack < e {
			t.Error("efficiency falls with the noise")
		}
	})
}
