// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var someKey = Key{Model: "cifar10", Dataset: "d", User: "ann", Script: "s"}

// priorOf is the prior from one past job.
func priorOf(t testing.TB, o Outcome) *Prior {
	t.Helper()
	pool := New()
	learn(t, pool, someKey, o)
	p := pool.Prior(someKey, Default())
	if p.Dropped() {
		t.Fatal("no prior")
	}
	return p
}

// saysNothing checks that a prior leaves a job alone.
func saysNothing(t *testing.T, p *Prior) {
	t.Helper()
	own := profileOf(t, sampleOf(cifar, 1, 1, 100), sampleOf(cifar, 1, 2, 100))
	if d := cmp.Diff(own.Samples(), p.Profile("t4", own).Samples()); d != "" {
		t.Errorf("the profile has changed:\n%s", d)
	}
	if n := p.Profile("t4", nil).Len(); n != 0 {
		t.Errorf("%d samples out of nothing", n)
	}
	if got := p.Noise(0.5, 123, 0); got != 123 {
		t.Errorf("noise %v, want the 123 that was measured", got)
	}
	_, restart := p.Restart()
	_, work := p.Work()
	if restart || work || p.MostGPUs() != 0 || !p.Dropped() {
		t.Errorf("restart known: %v, work known: %v, most GPUs %d, dropped %v; want nothing", restart, work, p.MostGPUs(), p.Dropped())
	}
	if !p.Check("t4", sampleOf(cifar, 1, 1, 100), nil) || !p.CheckNoise(0.5, 100) {
		t.Error("it is back after a check")
	}
}

func TestNoPrior(t *testing.T) {
	saysNothing(t, New().Prior(someKey, Default()))
	r := &Record{Key: Key{Model: "other", User: "ann"}, Jobs: 1}
	saysNothing(t, NewPrior(someKey, r, Default()))
}

// The prior of an unused GPU type has no data, and nothing contradicts it.
func TestOtherGPUType(t *testing.T) {
	p := priorOf(t, history(t, cifar, cifarLocals, exactly))
	if n := p.Profile("v100", nil).Len(); n != 0 {
		t.Errorf("%d samples, want none", n)
	}
	for range 10 {
		if p.Check("v100", sampleOf(bert, 1, 1, 8), nil) {
			t.Fatal("dropped")
		}
	}
}

// A job of the same model: the prior predicts its times as well as they can be
// measured, stays for as long as the job runs, and lets it start where past
// jobs ended.
func TestSameModel(t *testing.T) {
	const sigma = 0.05
	pool := New()
	for seed := range uint64(10) {
		learn(t, pool, someKey, history(t, cifar, cifarLocals, lognormal(seed, sigma)))
	}
	p := pool.Prior(someKey, Default())
	samples := p.Profile("t4", nil).Samples()
	if want := len(shapes) * len(cifarLocals); len(samples) != want {
		t.Fatalf("%d samples, want %d", len(samples), want)
	}
	for _, s := range samples {
		truth := sampleOf(cifar, s.Nodes, s.GPUs, s.Local)
		if off := math.Abs(math.Log(s.Step / truth.Step)); off > sigma {
			t.Errorf("%+v: step off by %.3f; want at most %v", s, off, sigma)
		}
	}
	factor := lognormal(99, sigma)
	for i := range 1000 {
		shape := shapes[i%len(shapes)]
		local := []int{32, 128, 200, 777, 1024, 2048}[i%6]
		var model *goodput.Params
		if i%2 == 0 {
			model = &cifar
		}
		if s := scaled(sampleOf(cifar, shape[0], shape[1], local), factor()); p.Check("t4", s, model) {
			t.Fatalf("dropped by measurement %d, %+v", i, s)
		}
		if frac := float64(i) / 1000; p.CheckNoise(frac, 100*(frac*Cells+0.5)*factor()) {
			t.Fatalf("noise dropped at %v", frac)
		}
	}
	if p.MostGPUs() != 16 {
		t.Errorf("most GPUs %d, want 16", p.MostGPUs())
	}
	if s, ok := p.Restart(); !ok || s != 30 {
		t.Errorf("restart %v, %v; want 30", s, ok)
	}
	if w, ok := p.Work(); !ok || w != 39000 {
		t.Errorf("work %v, %v; want 39000", w, ok)
	}
}

// A wrong prior is gone after a measurement or two, whatever the job runs on,
// and with everything it said.
func TestWrongPrior(t *testing.T) {
	for _, c := range []struct {
		name   string
		past   goodput.Params
		locals []int
		by     float64 // factor on all times of the past
		job    goodput.Params
		local  int
		most   int // measurements it takes
	}{
		{"5 times slower", cifar, cifarLocals, 5, cifar, 128, 1},
		{"5 times faster", cifar, cifarLocals, 0.2, cifar, 128, 1},
		{"5 times slower, other batch", cifar, cifarLocals, 5, cifar, 160, 1},
		{"half as slow again", cifar, cifarLocals, 1.5, cifar, 512, 2},
		{"half as slow again, model", cifar, cifarLocals, 1.5, cifar, 700, 2},
		{"other limits", bert, bertLocals, 1, cifar, 128, 2},
		{"other limits the other way", cifar, cifarLocals, 1, bert, 12, 1},
	} {
		for _, shape := range shapes {
			past := history(t, c.past, c.locals, func() float64 { return c.by })
			p := priorOf(t, past)
			var model *goodput.Params
			if strings.HasSuffix(c.name, "model") {
				m := c.past
				for _, x := range []*float64{&m.AlphaGrad, &m.BetaGrad, &m.AlphaLocal, &m.BetaLocal, &m.AlphaNode, &m.BetaNode} {
					*x *= c.by
				}
				model = &m
			}
			took := 1
			for ; took < 10 && !p.Check("t4", sampleOf(c.job, shape[0], shape[1], c.local), model); took++ {
			}
			if took > c.most {
				t.Errorf("%s, %v: dropped after %d measurements; want at most %d", c.name, shape, took, c.most)
				continue
			}
			saysNothing(t, p)
		}
	}
}

// What past jobs have never seen is no contradiction: they all ran on one GPU.
func TestUnseenExchange(t *testing.T) {
	past := Outcome{Profiles: map[string]*goodput.Profile{"t4": profileOf(t, sampleOf(bert, 1, 1, 8), sampleOf(bert, 1, 1, 12))}}
	hopeful := bert
	hopeful.AlphaLocal, hopeful.BetaLocal, hopeful.AlphaNode, hopeful.BetaNode = 0, 0, 0, 0
	for _, model := range []*goodput.Params{nil, &hopeful} {
		p := priorOf(t, past)
		for range 10 {
			if p.Check("t4", sampleOf(bert, 4, 16, 8), model) {
				t.Fatalf("dropped; model %v", model)
			}
		}
		p.Check("t4", scaled(sampleOf(bert, 4, 16, 8), 3.5), model)
		if !p.Dropped() {
			t.Errorf("3.5 times slower was believed; model %v", model)
		}
	}
}

func TestCheckIgnoresNonsense(t *testing.T) {
	p := priorOf(t, history(t, cifar, cifarLocals, exactly))
	for range 5 {
		p.Check("t4", goodput.Sample{Nodes: 1, GPUs: 1, Local: 128, Step: math.NaN()}, nil)
		p.CheckNoise(0.5, math.NaN())
		p.CheckNoise(-1, 1e9)
	}
	if p.Dropped() || p.CheckNoise(0.5, 1050) {
		t.Error("dropped for what is no measurement")
	}
}

// Noise that is off drops the noise of the past only.
func TestWrongNoise(t *testing.T) {
	for by, most := range map[float64]int{5: 2, 0.2: 2, 20: 1, 0.01: 1} {
		p := priorOf(t, history(t, cifar, cifarLocals, exactly))
		took := 1
		for ; took < 10 && !p.CheckNoise(0.5, 1050*by); took++ {
		}
		if took != most {
			t.Errorf("%v times the noise: dropped after %d, want %d", by, took, most)
		}
		if got := p.Noise(0.5, 7, 1); got != 7 {
			t.Errorf("%v times the noise: still mixed in: %v, want 7", by, got)
		}
		if p.Dropped() || p.MostGPUs() == 0 {
			t.Errorf("%v times the noise: the times are gone as well", by)
		}
	}
}

// The past steps back: every measurement makes it lighter, every place it has
// been measured at makes it fewer; it never touches what the job measured.
func TestProfileStepsBack(t *testing.T) {
	p := priorOf(t, history(t, cifar, cifarLocals, func() float64 { return 1.2 }))
	rapid.Check(t, func(t *rapid.T) {
		own := &goodput.Profile{}
		weight, left := math.Inf(1), math.MaxInt
		for range rapid.IntRange(1, 30).Draw(t, "measurements") {
			shape := rapid.SampledFrom(shapes).Draw(t, "shape")
			s := sampleOf(cifar, shape[0], shape[1], rapid.SampledFrom([]int{32, 128, 256, 300}).Draw(t, "local"))
			if err := own.Add(s); err != nil {
				t.Fatal(err)
			}
			mine := own.Samples()
			past, kept := 0, 0
			lighter := math.Inf(1)
			for _, s := range p.Profile("t4", own).Samples() {
				if o, ok := sampleAt(mine, s); ok {
					kept++
					if s != o {
						t.Fatalf("the job measured %+v; it became %+v", o, s)
					}
					continue
				}
				past++
				lighter = s.Count
				if s.Count <= 0 || s.Count >= weight {
					t.Fatalf("%+v counts %v; before it was %v", s, s.Count, weight)
				}
			}
			if kept != len(mine) {
				t.Fatalf("%d of the %d samples of the job are there", kept, len(mine))
			}
			if past > left || past > 2*len(shapes)*len(cifarLocals)/(len(mine)+2)+1 {
				t.Fatalf("%d samples of the past beside %d; before there were %d", past, len(mine), left)
			}
			weight, left = lighter, past
		}
	})
}

// Where the job has measured, the past is silent, even if it knows no other
// place.
func TestProfileLeavesOwnAlone(t *testing.T) {
	p := priorOf(t, history(t, cifar, cifarLocals, func() float64 { return 1.2 }))
	own := history(t, cifar, cifarLocals, exactly).Profiles["t4"]
	if d := cmp.Diff(own.Samples(), p.Profile("t4", own).Samples()); d != "" {
		t.Error(d)
	}
}

// A job that has only run small keeps the past of large placements longest.
func TestProfileKeepsTheFarthest(t *testing.T) {
	p := priorOf(t, history(t, cifar, cifarLocals, exactly))
	var mine []goodput.Sample
	for local := 100; local < 138; local++ {
		mine = append(mine, sampleOf(cifar, 1, 1, local))
	}
	got := p.Profile("t4", profileOf(t, mine...)).Samples()
	if len(got) != len(mine)+1 || got[len(mine)].GPUs != 16 || got[len(mine)].Local != 1024 {
		t.Errorf("%+v; want one sample of the past, of 16 GPUs with local batch 1024", got[len(mine):])
	}
}

// What it is all for: a model fitted to the past and the few measurements of a
// job predicts placements the job has not seen.
func TestFitWithPrior(t *testing.T) {
	const sigma = 0.05
	pool := New()
	for seed := range uint64(5) {
		learn(t, pool, someKey, history(t, cifar, cifarLocals, lognormal(seed, sigma)))
	}
	p := pool.Prior(someKey, Default())
	factor := lognormal(77, sigma)
	own := &goodput.Profile{}
	for i := range 8 {
		shape := shapes[i/4] // one GPU, then two
		if err := own.Add(scaled(sampleOf(cifar, shape[0], shape[1], cifarLocals[i%4]), factor())); err != nil {
			t.Fatal(err)
		}
		with, without := meanError(t, p.Profile("t4", own)), meanError(t, own)
		t.Logf("%d measurements: mean error %.3f, without a past %.3f", i+1, with, without)
		if with > 2*sigma || with > without/2 {
			t.Errorf("%d measurements: mean error %.3f; want at most %v, and half of the %.3f without a past", i+1, with, 2*sigma, without)
		}
	}
}

// meanError is how far the model fitted to a profile is off the truth about
// cifar, on average over all shapes and batches, in logarithms.
func meanError(t *testing.T, profile *goodput.Profile) float64 {
	t.Helper()
	m, err := new(goodput.Fitter).Fit(profile)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, shape := range shapes {
		for _, local := range cifarLocals {
			step := m.Step(goodput.Shape{Nodes: shape[0], GPUs: shape[1]}, float64(local))
			sum += math.Abs(math.Log(step / sampleOf(cifar, shape[0], shape[1], local).Step))
		}
	}
	return sum / float64(len(shapes)*len(cifarLocals))
}

func TestSimilarityWeighs(t *testing.T) {
	pool := New()
	learn(t, pool, someKey, history(t, cifar, cifarLocals, exactly))
	last := math.Inf(1)
	for _, c := range []struct {
		key  Key
		most int
	}{
		{someKey, 16}, {Key{Model: "cifar10", Dataset: "d"}, 16}, {Key{Model: "cifar10"}, 16},
		{Key{Script: "s"}, 16}, {Key{User: "ann"}, 0},
	} {
		p := pool.Prior(c.key, Default())
		weight := p.Profile("t4", nil).Samples()[0].Count
		if !(weight > 0 && weight < last) {
			t.Errorf("%+v: weight %v; want less than %v", c.key, weight, last)
		}
		if got := p.MostGPUs(); got != c.most {
			t.Errorf("%+v: most GPUs %d, want %d", c.key, got, c.most)
		}
		last = weight
	}
}

func TestNoiseBlend(t *testing.T) {
	p := priorOf(t, history(t, cifar, cifarLocals, exactly))
	const past, measured = 1000, 3000 // in the middle of cell 9
	if got := p.Noise(0.475, 0, 0); !near(got, past) {
		t.Errorf("nothing measured: %v, want %v", got, past)
	}
	if got := p.Noise(0.475, math.NaN(), 3); !near(got, past) {
		t.Errorf("nothing useful measured: %v, want %v", got, past)
	}
	last := past - 1e-6
	for n := range 100 {
		got := p.Noise(0.475, measured, n)
		if !(got > last && got < measured) {
			t.Errorf("%d measurements: %v; want more than %v and less than %v", n, got, last, measured)
		}
		last = got
	}
	if last < 0.99*measured {
		t.Errorf("99 measurements: %v; want the past to be all but forgotten", last)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"weight = 0":       func(c *Config) { c.Weight = 0 },
		"off = 0.5":        func(c *Config) { c.Off = 0.5 },
		"gross = 1.2":      func(c *Config) { c.Gross = 1.2 },
		"noise_off = NaN":  func(c *Config) { c.NoiseOff = math.NaN() },
		"noise_gross = 1;": func(c *Config) { c.NoiseGross = 1 },
		"strikes = 0":      func(c *Config) { c.Strikes = 0 },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
