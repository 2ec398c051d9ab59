// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched/num"
)

func TestSplit(t *testing.T) {
	l := Limits{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 256}
	for _, tc := range []struct {
		name        string
		batch, gpus int
		limits      Limits
		want        Config
		ok          bool
	}{
		{"initial on one GPU", 128, 1, l, Config{128, 0}, true},
		{"one GPU above initial accumulates", 200, 1, l, Config{100, 1}, true},
		{"one GPU, as often as memory demands", 1024, 1, l, Config{256, 3}, true},
		{"two GPUs above initial need not", 256, 2, l, Config{128, 0}, true},
		{"rounded up to equal parts", 130, 4, l, Config{33, 0}, true},
		{"rounded up twice", 1030, 4, l, Config{129, 1}, true},
		{"memory exactly full", 1024, 4, l, Config{256, 0}, true},
		{"not above max", 4096, 3, l, Config{227, 5}, true}, // 1366 in 6 parts: 228, but 3*6*228 = 4104
		{"below local min", 128, 64, l, Config{2, 0}, true},
		{"more GPUs than max", 128, 5000, l, Config{}, false},
		{"no batch", 0, 1, l, Config{}, false},
		{"no GPUs", 128, 0, l, Config{}, false},
		{"no room", 128, 1, Limits{Initial: 128, Max: 128}, Config{}, false},
	} {
		got, ok := Split(tc.batch, tc.gpus, tc.limits)
		if got != tc.want || ok != tc.ok {
			t.Errorf("%s: Split(%d, %d) = %v, %v; want %v, %v", tc.name, tc.batch, tc.gpus, got, ok, tc.want, tc.ok)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	good := Limits{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 256}
	if err := good.Validate(); err != nil {
		t.Errorf("good limits: %v", err)
	}
	for want, l := range map[string]Limits{
		"initial = 0":   {0, 4096, 32, 256},
		"max = 64":      {128, 64, 32, 256},
		"local_min = 0": {128, 4096, 0, 256},
		"local_max = 8": {128, 4096, 32, 8},
	} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got error %v, want one with %q", l, err, want)
		}
	}
}

func TestBest(t *testing.T) {
	free := Params{AlphaGrad: 1, Gamma: 1}     // a gradient takes 1 s whatever its size
	linear := Params{BetaGrad: 0.01, Gamma: 1} // 0.01 s for each example, nothing else
	l := Limits{Initial: 100, Max: 1600, LocalMin: 10, LocalMax: 400}
	for _, tc := range []struct {
		name    string
		params  Params
		noise   float64
		shape   Shape
		limits  Limits
		want    Config
		goodput float64
	}{
		// Examples cost nothing and all count: the largest batch without
		// accumulation. More of it, at 1 s each time, changes nothing, and the
		// first of equals wins.
		{"free and noisy", free, math.Inf(1), Shape{1, 4, false}, l, Config{400, 0}, 1600},
		// Examples beyond the initial batch are worth nothing.
		{"no noise", linear, 0, Shape{1, 4, false}, l, Config{25, 0}, 400},
		{"one GPU", linear, 0, Shape{1, 1, false}, l, Config{100, 0}, 100},
		{"all GPUs there can be", linear, 0, Shape{40, 160, false}, l, Config{10, 0}, 16000. / 16},
		{"too many GPUs", linear, 0, Shape{41, 161, false}, l, Config{}, 0},
		{"no GPUs", linear, 0, Shape{}, l, Config{}, 0},
		{"bad limits", linear, 0, Shape{1, 1, false}, Limits{}, Config{}, 0},
		{"fixed batch", linear, 0, Shape{1, 2, false}, Limits{100, 100, 1, 100}, Config{50, 0}, 200},
		{"odd number, not above max", linear, math.Inf(1), Shape{1, 3, false}, Limits{100, 100, 1, 100}, Config{33, 0}, 300},
	} {
		got, goodput := tc.limits.Best(tc.params, tc.noise, tc.shape)
		if got != tc.want || !near(goodput, tc.goodput) {
			t.Errorf("%s: got %v with goodput %v, want %v with %v", tc.name, got, goodput, tc.want, tc.goodput)
		}
	}
}

func drawLimits(t *rapid.T) Limits {
	initial := rapid.IntRange(1, 512).Draw(t, "initial")
	least := rapid.IntRange(1, 64).Draw(t, "local_min")
	return Limits{
		Initial: initial, Max: initial * rapid.IntRange(1, 64).Draw(t, "max/initial"),
		LocalMin: least, LocalMax: least + rapid.IntRange(0, 1000).Draw(t, "local_max-local_min"),
	}
}

func TestSplitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimits(t)
		gpus := rapid.IntRange(1, 128).Draw(t, "gpus")
		batch := rapid.IntRange(1, l.Max).Draw(t, "batch")
		c, ok := Split(batch, gpus, l)
		if !ok {
			if gradients := gpus * max(2, num.CeilDiv(num.CeilDiv(batch, gpus), l.LocalMax)); gradients <= l.Max {
				t.Errorf("no split of %d over %d GPUs within %v", batch, gpus, l)
			}
			return
		}
		if c.Local > l.LocalMax || c.Batch(gpus) > l.Max {
			t.Errorf("%v on %d GPUs (batch %d) is outside %v", c, gpus, c.Batch(gpus), l)
		}
		if slack := gpus * (c.Accum + 1) * 2; c.Batch(gpus) < batch-slack || c.Batch(gpus) > batch+slack {
			t.Errorf("%v on %d GPUs makes a batch of %d, want about %d", c, gpus, c.Batch(gpus), batch)
		}
	})
}

func TestBestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s, l := drawParams(t), drawShape(t), drawLimits(t)
		noise := rapid.Float64Range(0, 1e6).Draw(t, "noise")
		c, goodput := l.Best(p, noise, s)
		if goodput == 0 {
			// The smallest batch must do, unless it needs accumulation.
			least := max(l.Initial, l.LocalMin*s.GPUs)
			if least <= l.Max && least <= l.LocalMax*s.GPUs && l.LocalMin <= l.Initial {
				t.Errorf("nothing found for %v within %v", s, l)
			}
			return
		}
		batch := c.Batch(s.GPUs)
		if c.Local < l.LocalMin || c.Local > l.LocalMax || batch > l.Max {
			t.Errorf("%v on %d GPUs is outside %v", c, s.GPUs, l)
		}
		if want := p.Throughput(s, float64(c.Local), c.Accum) * Efficiency(noise, l.Initial, batch); math.Abs(goodput/want-1) > 1e-9 {
			t.Errorf("goodput %g is not that of %v: %g", goodput, c, want)
		}
		// A noisier gradient never makes the best batch smaller.
		noisier, _ := l.Best(p, 1.5*noise+1, s)
		if noisier.Batch(s.GPUs) < batch {
			t.Errorf("best batch falls from %d to %d with more noise", batch, noisier.Batch(s.GPUs))
		}
	})
}

// Best leaves candidates out, but never the best one: it finds the same, to the
// last bit, as all of them one by one.
func TestBestSkipsNoBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s, l := drawParams(t), drawShape(t), drawLimits(t)
		noise := rapid.Float64Range(0, 1e6).Draw(t, "noise")
		least := max(l.Initial, l.LocalMin*s.GPUs)
		if least > l.Max {
			return
		}
		var want Config
		most := 0.0
		for _, c := range l.between(nil, least, s.GPUs) {
			iter := p.Iter(s, float64(c.Local), c.Accum)
			if g := float64(c.Batch(s.GPUs)) / iter * Efficiency(noise, l.Initial, c.Batch(s.GPUs)); g > most {
				want, most = c, g
			}
		}
		if got, goodput := l.Best(p, noise, s); got != want || goodput != most {
			t.Errorf("%v with %g, want %v with %g", got, goodput, want, most)
		}
	})
}

// The model of Pollux' image classifier: what one finds by trying every batch
// size is within the width of the geometric steps.
func TestBestIsNearExhaustive(t *testing.T) {
	p := Params{AlphaGrad: 0.0644, BetaGrad: 0.00449, AlphaLocal: 0.0751, BetaLocal: 0.00087, AlphaNode: 0.320, BetaNode: 0.00618, Gamma: 2.48}
	l := Limits{Initial: 200, Max: 12800, LocalMin: 20, LocalMax: 200}
	for _, s := range []Shape{{1, 1, false}, {1, 4, false}, {2, 8, false}, {5, 17, false}, {16, 64, false}} {
		for _, noise := range []float64{10, 4580, 14459} {
			_, got := l.Best(p, noise, s)
			want := 0.0
			for local := l.LocalMin; local <= l.LocalMax; local++ {
				for accum := 0; (Config{local, accum}).Batch(s.GPUs) <= l.Max; accum++ {
					batch := Config{local, accum}.Batch(s.GPUs)
					if batch < l.Initial || (s.GPUs == 1 && accum == 0 && batch > l.Initial) {
						continue
					}
					want = max(want, p.Throughput(s, float64(local), accum)*Efficiency(noise, l.Initial, batch))
				}
			}
			if got > want*(1+1e-9) || got < 0.99*want {
				t.Errorf("%v, noise %g: goodput %g, exhaustive search %g", s, noise, got, want)
			}
		}
	}
}

func BenchmarkBest(b *testing.B) {
	l := Limits{Initial: 200, Max: 12800, LocalMin: 20, LocalMax: 200}
	for b.Loop() {
		l.Best(handy, 1000, Shape{Nodes: 4, GPUs: 16})
	}
}
