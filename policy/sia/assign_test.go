// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"math"
	"math/rand/v2"
	"testing"
)

// randomInstance draws jobs with the options and the concave gains of a cluster
// with small and large nodes.
func randomInstance(random *rand.Rand, jobs int, gpus ...int) *instance {
	in := &instance{gpus: gpus}
	for range jobs {
		var menu []option
		speed := make([]float64, len(gpus))
		for t := range speed {
			speed[t] = 0.5 + 4*random.Float64()
		}
		scaling, most := 0.3+0.7*random.Float64(), 1<<random.IntN(6)
		rigid := random.IntN(4) == 0
		for t := range gpus {
			for n := 1; n <= min(most, gpus[t]); n *= 2 {
				if rigid && n != most {
					continue
				}
				value := speed[t] * math.Pow(float64(n), scaling)
				menu = append(menu, option{gpuType: t, gpus: n, gain: 1.1 - math.Pow(1+value, -0.5)})
			}
		}
		in.menus = append(in.menus, menu)
	}
	return in
}

func checkFits(t *testing.T, in *instance, choice []int) {
	t.Helper()
	use := make([]int, len(in.gpus))
	for k, o := range choice {
		if o != nothing {
			use[in.menus[k][o].gpuType] += in.menus[k][o].gpus
		}
	}
	for i := range use {
		if use[i] > in.gpus[i] {
			t.Errorf("%d of %d GPUs of type %d are given away", use[i], in.gpus[i], i)
		}
	}
}

// all tries every combination of options.
func (in *instance) all() float64 {
	left := append([]int(nil), in.gpus...)
	var from func(k int) float64
	from = func(k int) float64 {
		if k == len(in.menus) {
			return 0
		}
		best := from(k + 1)
		for _, x := range in.menus[k] {
			if left[x.gpuType] >= x.gpus {
				left[x.gpuType] -= x.gpus
				best = max(best, x.gain+from(k+1))
				left[x.gpuType] += x.gpus
			}
		}
		return best
	}
	return from(0)
}

func TestExactAgainstAllCombinations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for trial := range 200 {
		in := randomInstance(random, 1+random.IntN(4), 1+random.IntN(6), 1+random.IntN(9))
		choice := in.exact()
		checkFits(t, in, choice)
		if got, want := in.value(choice), in.all(); math.Abs(got-want) > 1e-9 {
			t.Errorf("trial %d: %g; the best of all has %g", trial, got, want)
		}
	}
}

// The search for large instances is within one percent of the best where that is
// known.
func TestSearchAgainstExact(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	worst := 0.0
	for trial := range 75 {
		in := randomInstance(random, 2+random.IntN(40), 1+random.IntN(24), 1+random.IntN(24), 1+random.IntN(16))
		choice := in.search()
		checkFits(t, in, choice)
		best := in.value(in.exact())
		gap := 1 - in.value(choice)/best
		worst = max(worst, gap)
		if gap > 0.01 {
			t.Errorf("trial %d: %d jobs on %v: the search is %.2f %% below the best", trial, len(in.menus), in.gpus, 100*gap)
		}
	}
	t.Logf("largest gap: %.2f %%", 100*worst)
}

// On a large instance the search comes near the bound that its prices prove.
func TestSearchAgainstBound(t *testing.T) {
	for _, jobs := range []int{1000, 10_000} {
		testBound(t, randomInstance(rand.New(rand.NewPCG(3, 3)), jobs, jobs/2, jobs/2, jobs/4))
	}
}

func testBound(t *testing.T, in *instance) {
	t.Helper()
	m := market{instance: in, left: make([]int, len(in.gpus))}
	prices := m.price()
	bound := 0.0
	for i, n := range in.gpus {
		bound += prices[i] * float64(n)
	}
	for _, menu := range in.menus {
		_, worth := wish(menu, prices)
		bound += worth
	}
	choice := in.assign()
	checkFits(t, in, choice)
	if got := in.value(choice); got < 0.99*bound {
		t.Errorf("%d jobs: the search has %g; nothing has more than %g", len(in.menus), got, bound)
	} else {
		t.Logf("%d jobs: %.2f %% below the bound", len(in.menus), 100*(1-got/bound))
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, c := range []struct {
		name string
		in   *instance
	}{
		{"64x100", randomInstance(rand.New(rand.NewPCG(1, 1)), 100, 24, 24, 16)},
		{"1280x1000", randomInstance(rand.New(rand.NewPCG(1, 1)), 1000, 512, 512, 256)},
		{"10000x10000", randomInstance(rand.New(rand.NewPCG(1, 1)), 10_000, 4000, 4000, 2000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.in.assign()
			}
		})
	}
}
