// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// known is a model with round numbers: nine tenths of the GPU are left for work,
// corners are sharp, and a turn is a millisecond.
func known() *interfere.Model {
	flat := []interfere.Spread{{At: 0.8, Scatter: 0.05, High: 1.08}, {At: 2, Scatter: 0.1, High: 2.4}}
	return &interfere.Model{
		GPU: "test",
		TimeSlice: &interfere.Sharing{
			Form: interfere.FairShare, Capacity: 0.9, Corner: 50, Turn: 0.001, ShortStep: 0.002, Spread: flat,
		},
		MPS: &interfere.Sharing{Form: interfere.Overload, Knee: 1, Slope: 0.4, Spread: flat},
	}
}

func near(got, want, within float64) bool { return math.Abs(got-want) <= within*want }

func TestSlowdown(t *testing.T) {
	heavy, half, light := interfere.Load{Util: 1, Step: 0.1}, interfere.Load{Util: 0.5, Step: 0.1}, interfere.Load{Util: 0.2, Step: 0.1}
	type loads = []interfere.Load
	for _, c := range []struct {
		name   string
		mode   interfere.Mode
		own    interfere.Load
		others loads
		want   float64
	}{
		{"alone", interfere.TimeSlice, heavy, nil, 1},
		{"two that want all", interfere.TimeSlice, heavy, loads{heavy}, 1 / 0.45},
		{"the heavy one pays", interfere.TimeSlice, heavy, loads{light}, 1 / 0.7},
		{"the light one does not", interfere.TimeSlice, light, loads{heavy}, 1},
		{"half beside all gets half of what is left", interfere.TimeSlice, half, loads{heavy}, 0.5 / 0.45},
		{"two light ones", interfere.TimeSlice, light, loads{light}, 1},
		{"three that want all", interfere.TimeSlice, heavy, loads{heavy, heavy}, 1 / 0.3},
		{"one light one leaves some to two", interfere.TimeSlice, heavy, loads{heavy, light}, 1 / 0.35},
		{"a step shorter than a turn", interfere.TimeSlice, interfere.Load{Util: 0.1, Step: 0.0005}, loads{heavy}, 2.1},
		{"unknown is taken for all", interfere.TimeSlice, heavy, loads{{Step: 0.1}}, 1 / 0.45},
		{"side by side, both want all", interfere.MPS, heavy, loads{heavy}, 1 / 0.6},
		{"side by side, room for both", interfere.MPS, half, loads{half}, 1},
		{"side by side, both pay", interfere.MPS, light, loads{heavy}, 1 / 0.92},
		{"side by side, unknown is taken for all", interfere.MPS, interfere.Load{}, loads{heavy}, 1 / 0.6},
	} {
		if got := known().Slowdown(c.mode, c.own, c.others).Mean; !near(got, c.want, 0.02) {
			t.Errorf("%s: %.3f; want %.3f", c.name, got, c.want)
		}
	}
}

func TestSafe(t *testing.T) {
	m := known()
	for _, c := range []struct {
		name string
		jobs []interfere.Load
		want bool
	}{
		{"none", nil, true},
		{"one", []interfere.Load{{Util: 1, Step: 0.1}}, true},
		{"two light ones", []interfere.Load{{Util: 0.2, Step: 0.1}, {Util: 0.3, Step: 0.1}}, true},
		{"the second is not", []interfere.Load{{Util: 0.2, Step: 0.1}, {Util: 0.9, Step: 0.1}}, false},
		{"the first is not", []interfere.Load{{Util: 0.9, Step: 0.1}, {Util: 0.2, Step: 0.1}}, false},
		{"three are too many", []interfere.Load{{Util: 0.4, Step: 0.1}, {Util: 0.4, Step: 0.1}, {Util: 0.4, Step: 0.1}}, false},
		{"unknown", []interfere.Load{{Util: 0.2, Step: 0.1}, {}}, false},
		{"hardly known", []interfere.Load{{Util: 0.3, Step: 0.1, Spread: 0.5}, {Util: 0.4, Step: 0.1, Spread: 0.5}}, false},
		{"known", []interfere.Load{{Util: 0.3, Step: 0.1}, {Util: 0.4, Step: 0.1}}, true},
	} {
		if got := m.Safe(interfere.TimeSlice, interfere.DefaultLimit, c.jobs); got != c.want {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
}

// TestLaws: what holds of every model, whatever its numbers.
func TestLaws(t *testing.T) {
	builtin, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	models := []*interfere.Model{known(), builtin, interfere.Published()}
	rapid.Check(t, func(t *rapid.T) {
		m := models[rapid.IntRange(0, len(models)-1).Draw(t, "model")]
		mode := interfere.Mode(rapid.IntRange(0, 1).Draw(t, "mode"))
		load := rapid.Custom(func(t *rapid.T) interfere.Load {
			return interfere.Load{
				Util: rapid.Float64Range(0, 1).Draw(t, "util"), Step: rapid.Float64Range(0, 2).Draw(t, "step"),
				Spread: rapid.Float64Range(0, 0.5).Draw(t, "spread"),
			}
		})
		own := load.Draw(t, "own")
		others := rapid.SliceOfN(load, 1, 4).Draw(t, "others")
		before := m.Slowdown(mode, own, others)
		if !(before.Mean >= 1) || !(before.High >= before.Mean) || math.IsInf(before.High, 0) {
			t.Fatalf("%+v: want 1 <= Mean <= High", before)
		}
		more := m.Slowdown(mode, own, append(others[:len(others):len(others)], load.Draw(t, "another")))
		if more.Mean < before.Mean*(1-1e-9) || more.High < before.High*(1-1e-9) {
			t.Fatalf("with one more %+v; before %+v", more, before)
		}
		i := rapid.IntRange(0, len(others)-1).Draw(t, "which")
		if others[i].Util > 0 {
			others[i].Util = min(1, others[i].Util+rapid.Float64Range(0, 1).Draw(t, "busier"))
			if busier := m.Slowdown(mode, own, others); busier.Mean < before.Mean*(1-1e-9) || busier.High < before.High*(1-1e-9) {
				t.Fatalf("with a busier one %+v; before %+v", busier, before)
			}
		}
	})
}

func TestTruth(t *testing.T) {
	m := known()
	heavy := interfere.Load{Util: 1, Step: 0.1}
	others := []interfere.Load{heavy}
	e := m.Slowdown(interfere.TimeSlice, heavy, others)
	var sum, squares float64
	const n = 4000
	for seed := range uint64(n) {
		got := m.Truth(interfere.TimeSlice, heavy, others, seed)
		if again := m.Truth(interfere.TimeSlice, heavy, others, seed); again != got {
			t.Fatalf("seed %d: %g, then %g", seed, got, again)
		}
		off := math.Log(got / e.Mean)
		sum, squares = sum+off/n, squares+off*off/n
	}
	if math.Abs(sum) > 0.01 {
		t.Errorf("mean of ln(truth/mean) %.4f; want about 0", sum)
	}
	if got := math.Sqrt(squares); !near(got, e.Scatter, 0.05) {
		t.Errorf("scatter %.4f; want %.4f", got, e.Scatter)
	}
	light := interfere.Load{Util: 0.1, Step: 0.1}
	for seed := range uint64(100) {
		if got := m.Truth(interfere.TimeSlice, light, []interfere.Load{light}, seed); got < 1 {
			t.Fatalf("seed %d: %g; want at least 1", seed, got)
		}
		if got := m.Truth(interfere.TimeSlice, heavy, nil, seed); got != 1 {
			t.Fatalf("alone %g; want 1", got)
		}
	}
}

// TestPublished holds the model against the table it was fitted to.
func TestPublished(t *testing.T) {
	m := interfere.Published()
	for _, c := range []struct{ sum, speed, p10 float64 }{
		{0.3, 0.994, 0.94}, {0.7, 0.987, 0.89}, {1.1, 0.932, 0.81}, {1.3, 0.869, 0.74}, {1.5, 0.804, 0.63}, {1.7, 0.729, 0.55}, {1.9, 0.680, 0.54},
	} {
		l := interfere.Load{Util: c.sum / 2}
		e := m.Slowdown(interfere.TimeSlice, l, []interfere.Load{l})
		if !near(1/e.Mean, c.speed, 0.03) {
			t.Errorf("sum %g: speed %.3f; want %.3f", c.sum, 1/e.Mean, c.speed)
		}
		if 1/e.High > c.p10 || 1/e.High < 0.75*c.p10 {
			t.Errorf("sum %g: speed at worst %.3f; want somewhat below the tenth percentile, %.2f", c.sum, 1/e.High, c.p10)
		}
	}
}

func TestAllocations(t *testing.T) {
	m := known()
	jobs := []interfere.Load{{Util: 0.9, Step: 0.1, Spread: 0.1}, {Util: 0.4, Step: 0.01, Spread: 0.1}}
	if n := testing.AllocsPerRun(100, func() {
		m.Safe(interfere.MPS, interfere.DefaultLimit, jobs)
		m.Truth(interfere.TimeSlice, jobs[0], jobs[1:], 7)
	}); n != 0 {
		t.Errorf("%g allocations; want none", n)
	}
}

var sink float64

func BenchmarkSlowdown(b *testing.B) {
	m := known()
	for _, mode := range []interfere.Mode{interfere.TimeSlice, interfere.MPS} {
		b.Run(mode.String(), func(b *testing.B) {
			own, others := interfere.Load{Util: 0.9, Step: 0.1}, []interfere.Load{{Util: 0.4, Step: 0.01}}
			b.ReportAllocs()
			for b.Loop() {
				sink += m.Slowdown(mode, own, others).Mean
			}
		})
	}
}

func BenchmarkTruth(b *testing.B) {
	m := known()
	own, others := interfere.Load{Util: 0.9, Step: 0.1}, []interfere.Load{{Util: 0.4, Step: 0.01}}
	seed := uint64(0)
	for b.Loop() {
		seed++
		sink += m.Truth(interfere.TimeSlice, own, others, seed)
	}
}
