// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/vectors.json from the formulas in vectors_build_test.go")

const vectorsFile = "testdata/vectors.json"

// vectors is the content of vectors.json, which other implementations of this
// package are tested with. docs/goodput-vectors.md describes it.
type vectors struct {
	Fairway    string             `json:"fairway"`
	Version    int                `json:"version"`
	Times      []timesVector      `json:"times"`
	Efficiency []efficiencyVector `json:"efficiency"`
	Split      []splitVector      `json:"split"`
	Best       []bestVector       `json:"best"`
	Growth     []growthVector     `json:"growth"`
	Rules      []ruleVector       `json:"rules"`
	Noise      []noiseVector      `json:"noise"`
	Loss       []lossVector       `json:"loss"`
	Fit        []fitVector        `json:"fit"`
}

type vectorPlace struct {
	Nodes     int  `json:"nodes"`
	GPUs      int  `json:"gpus"`
	CrossRack bool `json:"cross_rack,omitempty"`
}

func (p vectorPlace) shape() Shape { return Shape(p) }

type timesVector struct {
	Params     Params      `json:"params"`
	Place      vectorPlace `json:"place"`
	Local      float64     `json:"local"`
	Accum      int         `json:"accum"`
	Grad       float64     `json:"grad"`
	Sync       float64     `json:"sync"`
	Step       float64     `json:"step"`
	Iter       float64     `json:"iter"`
	Throughput float64     `json:"throughput"`
}

type efficiencyVector struct {
	Noise      float64 `json:"noise"`
	Initial    int     `json:"initial"`
	Batch      int     `json:"batch"`
	Efficiency float64 `json:"efficiency"`
	Gain       float64 `json:"gain"`
}

type splitVector struct {
	Batch  int    `json:"batch"`
	GPUs   int    `json:"gpus"`
	Limits Limits `json:"limits"`
	Local  int    `json:"local"`
	Accum  int    `json:"accum"`
	OK     bool   `json:"ok"`
}

type bestVector struct {
	Params  Params      `json:"params"`
	Noise   float64     `json:"noise"`
	Place   vectorPlace `json:"place"`
	Limits  Limits      `json:"limits"`
	Local   int         `json:"local"`
	Accum   int         `json:"accum"`
	Goodput float64     `json:"goodput"`
}

type growthVector struct {
	Seen   int    `json:"seen"` // the most GPUs profiled; 0: none
	Limits Limits `json:"limits"`
	Limit  int    `json:"limit"`
	Most   int    `json:"most"`
}

// ruleVector and noiseVector are for the Python agent alone: nothing in Go scales
// a learning rate or sees a gradient.
type ruleVector struct {
	Rule   string        `json:"rule"`
	Scale  float64       `json:"scale"`
	Noise  gradientNoise `json:"noise"`
	Factor float64       `json:"factor"`
}

type gradientNoise struct {
	Sqr float64 `json:"sqr"` // squared length of the gradient
	Var float64 `json:"var"` // variance of its estimate from one batch of the initial size
}

type noiseVector struct {
	Name    string      `json:"name"`
	Initial int         `json:"initial"`
	Steps   []noiseStep `json:"steps"`
}

// noiseStep is one batch: the gradients it is the mean of. One gradient alone is
// paired with the one of the step before, unless that was left out or had
// several; the first of a row only waits for the next.
type noiseStep struct {
	Gradients [][]float64 `json:"gradients"`
	Bad       bool        `json:"bad,omitempty"` // the first number of all is to be read as NaN
	Scale     float64     `json:"scale"`
	Want      noiseWant   `json:"want"`
}

// noiseWant is what the estimator says after the step.
type noiseWant struct {
	OK     bool    `json:"ok"`
	Biased bool    `json:"biased"`
	Sqr    float64 `json:"sqr"`
	Var    float64 `json:"var"`
	Scale  float64 `json:"scale"`
}

type lossVector struct {
	Samples []Sample `json:"samples"`
	Params  Params   `json:"params"`
	Loss    float64  `json:"loss"`
}

type fitVector struct {
	Name    string   `json:"name"`
	Samples []Sample `json:"samples"`
	Loss    float64  `json:"loss"` // of the fit before the node pair is made up: at most this
	// Steps are predictions, within a relative tolerance.
	Steps     []fitStep `json:"steps"`
	Tolerance float64   `json:"tolerance"`
}

type fitStep struct {
	Place vectorPlace `json:"place"`
	Local float64     `json:"local"`
	Step  float64     `json:"step"`
}

// The file is what the formulas give, and the package agrees with the file.
// python/tests/test_vectors.py checks the agent against the same file.
func TestVectors(t *testing.T) {
	want := buildVectors()
	if *rewrite {
		if err := os.WriteFile(vectorsFile, want.text(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var got vectors
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Fatalf("%s is out of date, run go test -rewrite (-want +got):\n%s", vectorsFile, diff)
	}
	t.Run("times", func(t *testing.T) { checkTimes(t, got) })
	t.Run("choices", func(t *testing.T) { checkChoices(t, got) })
	t.Run("fit", func(t *testing.T) { checkFits(t, got) })
}

// text returns the file, one vector on a line.
func (v vectors) text(t *testing.T) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n \"fairway\": %q,\n \"version\": %d", v.Fairway, v.Version)
	section := func(name string, n int, at func(int) any) {
		fmt.Fprintf(&out, ",\n %q: [", name)
		for i := range n {
			line, err := json.Marshal(at(i))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s\n  %s", []string{"", ","}[min(i, 1)], line)
		}
		out.WriteString("\n ]")
	}
	section("times", len(v.Times), func(i int) any { return v.Times[i] })
	section("efficiency", len(v.Efficiency), func(i int) any { return v.Efficiency[i] })
	section("split", len(v.Split), func(i int) any { return v.Split[i] })
	section("best", len(v.Best), func(i int) any { return v.Best[i] })
	section("growth", len(v.Growth), func(i int) any { return v.Growth[i] })
	section("rules", len(v.Rules), func(i int) any { return v.Rules[i] })
	section("noise", len(v.Noise), func(i int) any { return v.Noise[i] })
	section("loss", len(v.Loss), func(i int) any { return v.Loss[i] })
	section("fit", len(v.Fit), func(i int) any { return v.Fit[i] })
	out.WriteString("\n}\n")
	return out.Bytes()
}

func agree(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }

func checkTimes(t *testing.T, all vectors) {
	for i, v := range all.Times {
		s := v.Place.shape()
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"grad", v.Params.Grad(v.Local), v.Grad}, {"sync", v.Params.Sync(s), v.Sync},
			{"step", v.Params.Step(s, v.Local), v.Step}, {"iter", v.Params.Iter(s, v.Local, v.Accum), v.Iter},
			{"throughput", v.Params.Throughput(s, v.Local, v.Accum), v.Throughput},
		} {
			if !agree(c.got, c.want) {
				t.Errorf("times %d: %s = %v, want %v", i, c.name, c.got, c.want)
			}
		}
	}
	for i, v := range all.Efficiency {
		if e, g := Efficiency(v.Noise, v.Initial, v.Batch), Gain(v.Noise, v.Initial, v.Batch); !agree(e, v.Efficiency) || !agree(g, v.Gain) {
			t.Errorf("efficiency %d: %v, gain %v; want %v, %v", i, e, g, v.Efficiency, v.Gain)
		}
	}
}

func checkChoices(t *testing.T, all vectors) {
	for i, v := range all.Split {
		if c, ok := Split(v.Batch, v.GPUs, v.Limits); ok != v.OK || c != (Config{Local: v.Local, Accum: v.Accum}) {
			t.Errorf("split %d: %+v, %v; want %d, %d, %v", i, c, ok, v.Local, v.Accum, v.OK)
		}
	}
	for i, v := range all.Best {
		c, goodput := v.Limits.Best(v.Params, v.Noise, v.Place.shape())
		if c != (Config{Local: v.Local, Accum: v.Accum}) || !agree(goodput, v.Goodput) {
			t.Errorf("best %d: %+v with %v; want %d, %d with %v", i, c, goodput, v.Local, v.Accum, v.Goodput)
		}
	}
	for i, v := range all.Growth {
		var p Profile
		if v.Seen > 0 {
			p = *profileOf(t, Sample{Nodes: 1, GPUs: v.Seen, Local: 1, Step: 1})
		}
		if got := p.MostAllowed(v.Limits, v.Limit); got != v.Most {
			t.Errorf("growth %d: %d, want %d", i, got, v.Most)
		}
	}
}

// square returns the squared length of a vector.
func square(g []float64) (sum float64) {
	for _, x := range g {
		sum += x * x
	}
	return sum
}

// middle returns the mean of vectors.
func middle(gradients ...[]float64) []float64 {
	mean := make([]float64, len(gradients[0]))
	for _, g := range gradients {
		for i, x := range g {
			mean[i] += x / float64(len(gradients))
		}
	}
	return mean
}

func checkFits(t *testing.T, all vectors) {
	for i, v := range all.Loss {
		if got := lossOf(profileOf(t, v.Samples...), v.Params); !agree(got, v.Loss) {
			t.Errorf("loss %d: %v, want %v", i, got, v.Loss)
		}
	}
	for _, v := range all.Fit {
		p := profileOf(t, v.Samples...)
		var f Fitter
		got, err := f.Fit(p)
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if loss := lossOf(p, f.last.params()); loss > v.Loss {
			t.Errorf("%s: loss %g, want at most %g", v.Name, loss, v.Loss)
		}
		for _, s := range v.Steps {
			if step := got.Step(s.Place.shape(), s.Local); math.Abs(step/s.Step-1) > v.Tolerance {
				t.Errorf("%s: step at %+v takes %g, want %g", v.Name, s, step, s.Step)
			}
		}
	}
}
