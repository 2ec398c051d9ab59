// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"math"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"pgregory.net/rapid"
)

func TestNoiseIsAStepFunction(t *testing.T) {
	m := &Model{Noise: []NoisePoint{{0, 100}, {1, 10000}}}
	for _, tc := range []struct{ frac, phi, until float64 }{
		{-1, 100 * math.Pow(100, 0.025), 0.05},
		{0, 100 * math.Pow(100, 0.025), 0.05},
		{0.049, 100 * math.Pow(100, 0.025), 0.05},
		{0.05, 100 * math.Pow(100, 0.075), 0.1},
		{0.5, 100 * math.Pow(100, 0.525), 0.55},
		{0.95, 100 * math.Pow(100, 0.975), math.Inf(1)},
		{1, 100 * math.Pow(100, 0.975), math.Inf(1)},
		{7, 100 * math.Pow(100, 0.975), math.Inf(1)},
	} {
		if got := m.NoiseAt(tc.frac); math.Abs(got/tc.phi-1) > 1e-9 {
			t.Errorf("NoiseAt(%v) = %v, want %v", tc.frac, got, tc.phi)
		}
		if got := m.NoiseUntil(tc.frac); got != tc.until {
			t.Errorf("NoiseUntil(%v) = %v, want %v", tc.frac, got, tc.until)
		}
	}
}

func TestNoiseWithoutPoints(t *testing.T) {
	m := &Model{}
	if at, until := m.NoiseAt(0.3), m.NoiseUntil(0.3); !math.IsInf(at, 1) || !math.IsInf(until, 1) {
		t.Errorf("got %v until %v, want +Inf until +Inf", at, until)
	}
}

func TestNoiseBetweenAndBeyondPoints(t *testing.T) {
	// One jump in the middle: two levels, one change.
	m := &Model{Noise: []NoisePoint{{0.475, 400}, {0.525, 1100}}}
	if got := m.NoiseUntil(0); got != 0.5 {
		t.Errorf("first change at %v, want 0.5", got)
	}
	if got := m.NoiseUntil(0.5); !math.IsInf(got, 1) {
		t.Errorf("second change at %v, want none", got)
	}
	if before, after := m.NoiseAt(0.49), m.NoiseAt(0.5); before != 400 || math.Abs(after-1100) > 1e-9 {
		t.Errorf("got %v then %v, want 400 then 1100", before, after)
	}
}

// A simulator that walks from change to change must get through training in a
// bounded number of steps and must see every value.
func TestNoiseWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Model{}
		at := 0.0
		for range rapid.IntRange(1, 30).Draw(t, "points") {
			at += rapid.Float64Range(1e-3, 0.2).Draw(t, "gap")
			if at > 1 {
				break
			}
			m.Noise = append(m.Noise, NoisePoint{at, rapid.Float64Range(1e-3, 1e12).Draw(t, "phi")})
		}
		steps := 0
		for x := 0.0; !math.IsInf(x, 1); x = m.NoiseUntil(x) {
			now, next := m.NoiseAt(x), m.NoiseUntil(x)
			if next <= x {
				t.Fatalf("NoiseUntil(%v) = %v does not go forward", x, next)
			}
			before := math.Nextafter(min(next, 1), 0)
			if got := m.NoiseAt(before); got != now {
				t.Fatalf("NoiseAt(%v) = %v, want %v as at %v: the next change is at %v", before, got, now, x, next)
			}
			if !math.IsInf(next, 1) && m.NoiseAt(next) == now {
				t.Fatalf("nothing changes at %v", next)
			}
			if steps++; steps > noiseSteps {
				t.Fatal("more changes than steps")
			}
		}
	})
}

func TestSlowdownAt(t *testing.T) {
	m := &Model{Slowdown: Slowdown{Rack: 1.2}} // nothing known about racks among each other
	for l, want := range map[sched.Level]float64{
		sched.NoLevel: 1, sched.SameSlot: 1, sched.SameMachine: 1, sched.SameRack: 1.2, sched.CrossRack: 1.2,
	} {
		if got := m.SlowdownAt(l); got != want {
			t.Errorf("SlowdownAt(%s) = %v, want %v", l, got, want)
		}
	}
}

func TestStepTimeOn(t *testing.T) {
	m := &Model{
		Batch:      goodput.Limits{Initial: 30, Max: 300, LocalMin: 1, LocalMax: 10},
		Throughput: map[string]goodput.Params{"t4": {AlphaGrad: 0.1, BetaGrad: 0.01, Gamma: 1}},
		StepTime:   map[string]float64{"k80": 3},
	}
	for _, tc := range []struct {
		gpu  sched.GPUType
		want float64
		ok   bool
	}{
		{"K80", 3, true},
		{"T4", 0.6, true}, // three gradients of ten examples
		{"h200", 0, false},
	} {
		got, ok := m.StepTimeOn(tc.gpu)
		if math.Abs(got-tc.want) > 1e-12 || ok != tc.ok {
			t.Errorf("StepTimeOn(%s) = %v, %v; want %v, %v", tc.gpu, got, ok, tc.want, tc.ok)
		}
	}
}
