// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pairing_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/pairing"
)

func bound(t testing.TB, c pairing.Config) *pairing.Bound {
	b, err := pairing.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What holds is within the limit by the model itself, for any number of jobs and
// in any order, and one more job or a busier one never helps.
func TestHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := pairing.Config{
			Limit: rapid.SampledFrom([]float64{1.05, 1.15, 1.3, 2}).Draw(rt, "limit"),
			Sure:  rapid.Bool().Draw(rt, "sure"), GPU: pairing.Auto, Mode: rapid.SampledFrom([]string{"time-slice", "mps"}).Draw(rt, "mode"),
		}
		b := bound(t, c)
		gpu := rapid.SampledFrom([]string{"h200", "never measured"}).Draw(rt, "gpu")
		utils := rapid.SliceOfN(rapid.Float64Range(0.01, 1), 2, 4).Draw(rt, "utils")
		got := b.Holds(gpu, utils)
		if got != b.Holds(gpu, append(append([]float64{}, utils[1:]...), utils[0])) {
			rt.Errorf("%v: the answer depends on the order", utils)
		}
		if got && !within(rt, c, gpu, utils) {
			rt.Errorf("%v hold; the model says that one of them is slowed by more than %g", utils, c.Limit)
		}
		if !got && b.Holds(gpu, append([]float64{0.5}, utils...)) {
			rt.Errorf("%v do not hold, but with one more they do", utils)
		}
	})
}

func within(t *rapid.T, c pairing.Config, gpu string, utils []float64) bool {
	m, err := interfere.Default(gpu)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := interfere.ParseMode(c.Mode)
	if err != nil {
		t.Fatal(err)
	}
	for i := range utils {
		var others []interfere.Load
		for k, u := range utils {
			if k != i {
				others = append(others, interfere.Load{Util: u})
			}
		}
		e := m.Slowdown(mode, interfere.Load{Util: utils[i]}, others)
		if (c.Sure && e.High > c.Limit+1e-9) || e.Mean > c.Limit+1e-9 {
			return false
		}
	}
	return true
}

func TestEdges(t *testing.T) {
	b := bound(t, pairing.Config{Limit: 1.2, GPU: "never measured", Mode: "time-slice"})
	for _, c := range []struct {
		utils []float64
		want  bool
	}{
		{nil, true},
		{[]float64{1}, true},
		{[]float64{0.4, 0.5}, true},  // the published curve is flat up to 0.9
		{[]float64{0.7, 0.69}, true}, // 1 / (1 - 0.335 * 0.49) = 1.196
		{[]float64{0.7, 0.7}, false}, // 1.201
		{[]float64{0.9, 0.9}, false}, // 1.43
		{make([]float64, 9), false},
	} {
		if got := b.Holds("h200", c.utils); got != c.want {
			t.Errorf("Holds(%v) = %t; want %t", c.utils, got, c.want)
		}
	}
	if off := bound(t, pairing.Config{GPU: pairing.Auto, Mode: "mps"}); !off.Holds("h200", []float64{1, 1, 1}) {
		t.Error("without a limit everything holds")
	}
	for _, c := range []pairing.Config{{Limit: 1, Mode: "mps"}, {Limit: 2, Mode: ""}, {Limit: -1, Mode: "mps"}} {
		if _, err := pairing.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
