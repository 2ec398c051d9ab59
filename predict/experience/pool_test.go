// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// Two models that were measured on T4 GPUs, as the zoo has them.
var (
	cifar = goodput.Params{AlphaGrad: 0.0178, BetaGrad: 0.000697, AlphaLocal: 0.0342, BetaLocal: 0.00165, AlphaNode: 0.128, BetaNode: 0.00261, Gamma: 2.23}
	bert  = goodput.Params{AlphaGrad: 0.176, BetaGrad: 0.0586, AlphaLocal: 0.275, BetaLocal: 0.00081, AlphaNode: 1.397, BetaNode: 0.00861, Gamma: 1.84}
)

var cifarLocals, bertLocals = []int{128, 256, 512, 1024}, []int{4, 8, 12}

// sampleOf is what a job of a model measures.
func sampleOf(p goodput.Params, nodes, gpus, local int) goodput.Sample {
	s := goodput.Sample{Nodes: nodes, GPUs: gpus, Local: local, Count: 1}
	s.Step = p.Step(goodput.Shape{Nodes: nodes, GPUs: gpus}, float64(local))
	s.Sync = s.Step - p.Grad(float64(local))
	return s
}

// scaled is a sample with all times multiplied.
func scaled(s goodput.Sample, by float64) goodput.Sample {
	s.Step *= by
	s.Sync *= by
	return s
}

func profileOf(t testing.TB, samples ...goodput.Sample) *goodput.Profile {
	t.Helper()
	p := &goodput.Profile{}
	for _, s := range samples {
		if err := p.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// shapes are placements on nodes of 4 GPUs, as {nodes, GPUs}.
var shapes = [][2]int{{1, 1}, {1, 2}, {1, 4}, {2, 8}, {4, 16}}

// history is the outcome of a job of a model that has run on all shapes, with
// its times multiplied by what noise returns.
func history(t testing.TB, p goodput.Params, locals []int, noise func() float64) Outcome {
	t.Helper()
	var samples []goodput.Sample
	for _, shape := range shapes {
		for _, local := range locals {
			samples = append(samples, scaled(sampleOf(p, shape[0], shape[1], local), noise()))
		}
	}
	o := Outcome{Profiles: map[string]*goodput.Profile{"t4": profileOf(t, samples...)}, Restart: 30, Work: 39000}
	for i := range Cells {
		if err := o.Noise.Add((float64(i)+0.5)/Cells, 100*float64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func exactly() float64 { return 1 }

// lognormal returns factors around 1.
func lognormal(seed uint64, sigma float64) func() float64 {
	r := rand.New(rand.NewPCG(seed, 0))
	return func() float64 { return math.Exp(sigma * r.NormFloat64()) }
}

func learn(t testing.TB, p *Pool, k Key, o Outcome) {
	t.Helper()
	if err := p.Learn(k, o); err != nil {
		t.Fatal(err)
	}
}

// Up to memory, a record is the plain mean over jobs, whatever their order.
func TestLearnAverages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		factors := rapid.SliceOfN(rapid.Float64Range(0.5, 2), 1, memory).Draw(t, "factors")
		pool := New()
		sum, logs := 0.0, 0.0
		for _, f := range factors {
			s := scaled(sampleOf(cifar, 1, 2, 128), f)
			s.Count = 1000 * f // how long a job ran does not matter
			p := &goodput.Profile{}
			if err := p.Add(s); err != nil {
				t.Fatal(err)
			}
			o := Outcome{Profiles: map[string]*goodput.Profile{"t4": p}, Restart: f, Work: 2 * f, Noise: Curve{{Cell: 3, Noise: f, Count: 7}}}
			if err := pool.Learn(Key{Model: "m"}, o); err != nil {
				t.Fatal(err)
			}
			sum += f
			logs += math.Log(f)
		}
		n := float64(len(factors))
		r, _, _ := pool.Nearest(Key{Model: "m"})
		s := r.Samples["t4"][0]
		truth := sampleOf(cifar, 1, 2, 128)
		if !near(s.Step, truth.Step*sum/n) || !near(s.Sync, truth.Sync*sum/n) || s.Count != n {
			t.Fatalf("sample %+v; want %v times %+v, count %v", s, sum/n, truth, n)
		}
		if !near(r.Restart.Value, sum/n) || !near(r.Work.Value, 2*sum/n) || r.Restart.Count != len(factors) || r.Jobs != len(factors) {
			t.Fatalf("restart %+v, work %+v, %d jobs; want %v and %v of %v jobs", r.Restart, r.Work, r.Jobs, sum/n, 2*sum/n, n)
		}
		if p := r.Noise[0]; math.Abs(math.Log(p.Noise)-logs/n) > 1e-9 || p.Count != n {
			t.Fatalf("noise %+v; want %v of %v jobs", p, math.Exp(logs/n), n)
		}
	})
}

// A hundred jobs at one speed are overruled by as many as memory holds a few
// times.
func TestLearnForgetsOldSpeeds(t *testing.T) {
	pool, k := New(), Key{Model: "m"}
	for i := range 100 + 3*memory {
		f := 1.0
		if i >= 100 {
			f = 2
		}
		learn(t, pool, k, history(t, cifar, cifarLocals, func() float64 { return f }))
	}
	r, _, _ := pool.Nearest(k)
	for i, s := range r.Samples["t4"] {
		truth := sampleOf(cifar, s.Nodes, s.GPUs, s.Local)
		if s.Step < 1.9*truth.Step || s.Step > 2*truth.Step || s.Count != memory {
			t.Errorf("sample %d: step %v of %v jobs; want 1.9 to 2 times %v, of %d", i, s.Step, s.Count, truth.Step, memory)
		}
	}
}

func TestLearnNothing(t *testing.T) {
	pool := New()
	learn(t, pool, Key{Model: "m"}, Outcome{Profiles: map[string]*goodput.Profile{"t4": {}, "v100": nil}})
	learn(t, pool, Key{Dataset: "d"}, history(t, cifar, cifarLocals, exactly))
	learn(t, pool, Key{}, history(t, cifar, cifarLocals, exactly))
	if pool.Len() != 0 {
		t.Errorf("%d records, want none", pool.Len())
	}
}

// What is refused leaves the pool as it was; what is learned leaves records
// that were handed out as they were.
func TestLearnIsAtomic(t *testing.T) {
	pool, k := New(), Key{Model: "m"}
	learn(t, pool, k, history(t, cifar, cifarLocals, exactly))
	before := text(t, pool)
	for name, bad := range map[string]struct {
		k Key
		o Outcome
	}{
		"restart":  {k, Outcome{Restart: -1, Work: 1}},
		"work":     {k, Outcome{Work: math.Inf(1)}},
		"nan":      {k, Outcome{Work: math.NaN()}},
		"noise":    {k, Outcome{Noise: Curve{{Cell: 3, Noise: math.NaN(), Count: 1}}}},
		"cell":     {k, Outcome{Noise: Curve{{Cell: Cells, Noise: 1, Count: 1}}}},
		"key":      {Key{Model: "a\nb"}, Outcome{Work: 1}},
		"gpu type": {k, Outcome{Profiles: map[string]*goodput.Profile{"": profileOf(t, sampleOf(cifar, 1, 1, 1))}}},
	} {
		if err := pool.Learn(bad.k, bad.o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := text(t, pool); got != before {
			t.Fatalf("%s: the pool has changed:\n%s", name, cmp.Diff(before, got))
		}
	}
	held, _, _ := pool.Nearest(k)
	copied := *held
	copied.Samples = map[string][]goodput.Sample{"t4": slices.Clone(held.Samples["t4"])}
	copied.Noise = slices.Clone(held.Noise)
	learn(t, pool, k, history(t, bert, bertLocals, func() float64 { return 2 }))
	learn(t, pool, k, history(t, cifar, cifarLocals, func() float64 { return 3 }))
	if d := cmp.Diff(&copied, held, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("a record in use has changed:\n%s", d)
	}
}

// Of too many samples the corners stay, and no two that are close together
// while others are left out.
func TestSamplesAreSpread(t *testing.T) {
	var samples []goodput.Sample
	for _, shape := range [][2]int{{1, 1}, {1, 2}, {1, 4}, {2, 8}, {4, 16}, {8, 32}} {
		for local := 100; local < 200; local++ {
			samples = append(samples, sampleOf(cifar, shape[0], shape[1], local))
		}
	}
	pool, k := New(), Key{Model: "m"}
	learn(t, pool, k, Outcome{Profiles: map[string]*goodput.Profile{"t4": profileOf(t, samples...)}})
	r, _, _ := pool.Nearest(k)
	kept := r.Samples["t4"]
	if len(kept) != MaxSamples {
		t.Fatalf("%d samples, want %d", len(kept), MaxSamples)
	}
	for _, shape := range [][2]int{{1, 1}, {1, 4}, {8, 32}} {
		for _, local := range []int{100, 199} {
			if _, ok := sampleAt(kept, goodput.Sample{Nodes: shape[0], GPUs: shape[1], Local: local}); !ok {
				t.Errorf("the sample of %v with local batch %d is gone", shape, local)
			}
		}
	}
	closest, farthest := math.Inf(1), 0.0
	for _, s := range samples {
		left := math.Inf(1)
		for _, o := range kept {
			d := distance(position(s), position(o))
			if compareShape(s, o) != 0 {
				if _, ok := sampleAt(kept, s); ok {
					closest = min(closest, d)
				}
			}
			left = min(left, d)
		}
		farthest = max(farthest, left)
	}
	if farthest > closest {
		t.Errorf("a sample left out is %v away from all others; two that were kept only %v", farthest, closest)
	}
	if r.MostGPUs != 32 {
		t.Errorf("most GPUs %d, want 32", r.MostGPUs)
	}
}

func TestPoolIsBounded(t *testing.T) {
	pool := New()
	o := Outcome{Work: 1}
	for i := range MaxRecords + 10 {
		learn(t, pool, Key{Model: fmt.Sprint(i)}, o)
		if i == 20 {
			learn(t, pool, Key{Model: "3"}, o) // seen again
		}
	}
	if pool.Len() != MaxRecords {
		t.Fatalf("%d records, want %d", pool.Len(), MaxRecords)
	}
	for model, want := range map[string]bool{"2": false, "3": true, "10": false, "11": true, fmt.Sprint(MaxRecords + 9): true} {
		if _, _, ok := pool.Nearest(Key{Model: model}); ok != want {
			t.Errorf("model %s is there: %v, want %v", model, ok, want)
		}
	}
}

func TestSamplesOfPoolAreBounded(t *testing.T) {
	var samples []goodput.Sample
	for i := range MaxSamples {
		samples = append(samples, sampleOf(cifar, 1, 1, i+1))
	}
	p := profileOf(t, samples...)
	profiles := map[string]*goodput.Profile{}
	for i := range MaxTypes {
		profiles[fmt.Sprint("gpu", i)] = p
	}
	pool, records := New(), MaxAllSamples/(MaxTypes*MaxSamples)
	for i := range records + 2 {
		learn(t, pool, Key{Model: fmt.Sprintf("%03d", i)}, Outcome{Profiles: profiles})
	}
	if pool.Len() != records || pool.samples != MaxAllSamples {
		t.Errorf("%d records, %d samples; want %d, %d", pool.Len(), pool.samples, records, MaxAllSamples)
	}
	if _, _, ok := pool.Nearest(Key{Model: "001"}); ok {
		t.Error("the second record is there; want the first two gone")
	}
	profiles["one more"] = p
	if err := pool.Learn(Key{Model: "m"}, Outcome{Profiles: profiles}); err == nil {
		t.Errorf("%d types of GPU were taken", len(profiles))
	}
}

func TestNearest(t *testing.T) {
	pool := New()
	if _, _, ok := pool.Nearest(Key{Model: "m"}); ok {
		t.Error("an empty pool has a record")
	}
	o := Outcome{Work: 1}
	for _, k := range []Key{
		{Model: "m", Dataset: "d", Script: "s"}, {Model: "m", Dataset: "d"}, {Model: "m"},
		{Model: "m", Dataset: "often"}, {Model: "m", Dataset: "often"},
		{Model: "other", Dataset: "d", Script: "s", User: "u"}, {User: "u"},
	} {
		learn(t, pool, k, o)
	}
	for _, c := range []struct{ job, want Key }{
		{Key{Model: "m", Dataset: "d", Script: "s"}, Key{Model: "m", Dataset: "d", Script: "s"}},
		{Key{Model: "m", Dataset: "d"}, Key{Model: "m", Dataset: "d"}}, // the very same one
		{Key{Model: "m", Dataset: "d", Script: "s2"}, Key{Model: "m", Dataset: "d"}},
		{Key{Model: "m"}, Key{Model: "m"}},
		{Key{Model: "m", Dataset: "new", User: "u"}, Key{Model: "m", Dataset: "often"}}, // of two jobs
		{Key{Model: "new", User: "u"}, Key{User: "u"}},
		{Key{Model: "new", User: "u2", Dataset: "d"}, Key{}},
	} {
		got, similarity, ok := pool.Nearest(c.job)
		if !ok {
			got = &Record{}
		}
		if got.Key != c.want || similarity != c.job.Similarity(c.want) {
			t.Errorf("%+v: %+v, similarity %v; want %+v, %v", c.job, got.Key, similarity, c.want, c.job.Similarity(c.want))
		}
	}
}
