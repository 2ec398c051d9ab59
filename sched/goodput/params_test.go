// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// handy has round numbers: times that can be worked out on paper.
var handy = Params{
	AlphaGrad: 0.1, BetaGrad: 0.02,
	AlphaLocal: 0.05, BetaLocal: 0.01,
	AlphaNode: 0.38, BetaNode: 0.01,
	Gamma: 2,
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-12*max(1, math.Abs(want)) }

func TestTimes(t *testing.T) {
	racks := handy
	racks.AlphaRack, racks.BetaRack = 0.5, 0.1
	serial := handy
	serial.Gamma = 1
	for _, tc := range []struct {
		name string
		got  float64
		want float64
	}{
		{"gradient of 10 examples", handy.Grad(10), 0.3},
		{"one GPU exchanges nothing", handy.Sync(Shape{Nodes: 1, GPUs: 1}), 0},
		{"two GPUs of a node", handy.Sync(Shape{Nodes: 1, GPUs: 2}), 0.05},
		{"four GPUs of a node", handy.Sync(Shape{Nodes: 1, GPUs: 4}), 0.07},
		{"two GPUs of two nodes", handy.Sync(Shape{Nodes: 2, GPUs: 2}), 0.38},
		{"four GPUs of two nodes", handy.Sync(Shape{Nodes: 2, GPUs: 4}), 0.40},
		{"across racks without a pair of its own", handy.Sync(Shape{Nodes: 2, GPUs: 4, CrossRack: true}), 0.40},
		{"across racks", racks.Sync(Shape{Nodes: 2, GPUs: 4, CrossRack: true}), 0.70},
		{"within a rack", racks.Sync(Shape{Nodes: 2, GPUs: 4}), 0.40},
		{"step: 3-4-5 triangle", handy.Step(Shape{Nodes: 2, GPUs: 4}, 10), 0.5},
		{"step without overlap", serial.Step(Shape{Nodes: 2, GPUs: 4}, 10), 0.7},
		{"step of one GPU", handy.Step(Shape{Nodes: 1, GPUs: 1}, 10), 0.3},
		{"two accumulated", handy.Iter(Shape{Nodes: 2, GPUs: 4}, 10, 2), 1.1},
		{"throughput", handy.Throughput(Shape{Nodes: 2, GPUs: 4}, 10, 2), 120 / 1.1},
		{"throughput of nothing", handy.Throughput(Shape{}, 10, 0), 0},
	} {
		if !near(tc.got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

// Times as small as these, to the tenth power, are below the smallest float64.
func TestStepDoesNotUnderflow(t *testing.T) {
	p := Params{AlphaGrad: 1e-40, AlphaNode: 1e-40, Gamma: 10}
	got, want := p.Step(Shape{Nodes: 2, GPUs: 2}, 1), 1e-40*math.Pow(2, 0.1)
	if math.Abs(got/want-1) > 1e-12 {
		t.Errorf("got %g, want %g", got, want)
	}
}

func TestParamsValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*Params)
		want string // part of the error; empty: none
	}{
		{"good", func(*Params) {}, ""},
		{"negative", func(p *Params) { p.BetaNode = -1 }, "beta_node = -1"},
		{"not a number", func(p *Params) { p.AlphaLocal = math.NaN() }, "alpha_local = NaN"},
		{"infinite", func(p *Params) { p.AlphaRack = math.Inf(1) }, "alpha_rack = +Inf"},
		{"no work", func(p *Params) { p.AlphaGrad, p.BetaGrad = 0, 0 }, "alpha_grad = beta_grad = 0"},
		{"gamma low", func(p *Params) { p.Gamma = 0.9 }, "gamma = 0.9"},
		{"gamma high", func(p *Params) { p.Gamma = 11 }, "gamma = 11"},
		{"gamma not a number", func(p *Params) { p.Gamma = math.NaN() }, "gamma = NaN"},
	} {
		p := handy
		tc.set(&p)
		err := p.Validate()
		if tc.want == "" && err != nil {
			t.Errorf("%s: unexpected error %v", tc.name, err)
		}
		if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

func drawParams(t *rapid.T) Params {
	seconds := func(name string) float64 { return rapid.Float64Range(1e-6, 10).Draw(t, name) }
	return Params{
		AlphaGrad: seconds("alpha_grad"), BetaGrad: seconds("beta_grad"),
		AlphaLocal: seconds("alpha_local"), BetaLocal: seconds("beta_local"),
		AlphaNode: seconds("alpha_node"), BetaNode: seconds("beta_node"),
		Gamma: rapid.Float64Range(MinGamma, MaxGamma).Draw(t, "gamma"),
	}
}

func drawShape(t *rapid.T) Shape {
	gpus := rapid.IntRange(1, 256).Draw(t, "gpus")
	return Shape{GPUs: gpus, Nodes: rapid.IntRange(1, min(gpus, 64)).Draw(t, "nodes")}
}

func TestThroughputProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := drawParams(t), drawShape(t)
		local := rapid.Float64Range(1, 1000).Draw(t, "local")
		accum := rapid.IntRange(0, 5).Draw(t, "accum")
		const slack = 1 + 1e-9

		step, grad, sync := p.Step(s, local), p.Grad(local), p.Sync(s)
		if step*slack < max(grad, sync) || step > (grad+sync)*slack {
			t.Errorf("step %g is not between the longer part %g and the sum %g", step, max(grad, sync), grad+sync)
		}
		more := s
		more.GPUs++
		if s.GPUs >= 2 && p.Iter(more, local, accum)*slack < p.Iter(s, local, accum) {
			t.Errorf("a step on %d GPUs takes less time than on %d", more.GPUs, s.GPUs)
		}
		if p.Throughput(s, local*1.5, accum)*slack < p.Throughput(s, local, accum) {
			t.Error("a larger gradient lowers the throughput")
		}
		if p.Throughput(s, local, accum+1)*slack < p.Throughput(s, local, accum) {
			t.Error("fewer exchanges lower the throughput")
		}
		closer := p
		closer.Gamma = min(MaxGamma, p.Gamma+1)
		if closer.Step(s, local) > step*slack {
			t.Error("more overlap makes the step longer")
		}
	})
}

func TestLowOverlap(t *testing.T) {
	for gamma := 1.0; gamma <= MaxGamma; gamma += 1.0 / 16 {
		low := newLowOverlap(gamma)
		for b := 0.0; b <= 3; b += 1.0 / 64 {
			got, exact := low.of(1, b), overlap(1, b, gamma)
			if got > exact*(1+1e-12) || got < 0.95*exact {
				t.Fatalf("gamma %g, times 1 and %g: bound %g, want at most 5 %% below %g", gamma, b, got, exact)
			}
		}
	}
	for _, gamma := range []float64{math.NaN(), math.Inf(1), -1, 0, 11} {
		if got := newLowOverlap(gamma).of(1, 2); got != 0 {
			t.Errorf("gamma %g: bound %g, want 0", gamma, got)
		}
	}
}
