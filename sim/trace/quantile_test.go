// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantiles(t *testing.T) {
	q := quantiles{{0, 1}, {0.5, 100}, {1, 100}}
	for _, test := range []struct{ u, want float64 }{{-1, 1}, {0, 1}, {0.25, 10}, {0.5, 100}, {0.9, 100}, {2, 100}} {
		if got := q.at(test.u); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("at(%g) = %g; want %g", test.u, got, test.want)
		}
	}
	if got := q.whole(0.26, 7); got != 7 {
		t.Errorf("whole = %d; want the bound, 7", got)
	}
}

// Every table of quantiles rises.
func TestTablesRise(t *testing.T) {
	tables := map[string]quantiles{"sweeps": phillySweeps, "singly": phillySingly, "themis jobs": themisJobs, "themis minutes": themisMinutes}
	for i := range phillyRuns {
		tables["run "+sizeNames[sizeBucket(phillyRuns[i].gpus)]] = phillyRuns[i].quantiles()
	}
	for i := range reasons {
		tables[reasons[i].name] = reasons[i].minutes()
	}
	for name, q := range tables {
		if q[0].u != 0 || q[len(q)-1].u != 1 {
			t.Errorf("%s: covers %g to %g; want 0 to 1", name, q[0].u, q[len(q)-1].u)
		}
		for i := 1; i < len(q); i++ {
			if q[i].u <= q[i-1].u || q[i].x < q[i-1].x {
				t.Errorf("%s: knot %d, %v, follows %v", name, i, q[i], q[i-1])
			}
		}
	}
	var sum float64
	for _, vc := range phillyVCs {
		sum += vc.share
		var mix float64
		for _, m := range vc.mix {
			mix += m
		}
		if math.Abs(mix-1) > 2e-3 {
			t.Errorf("sizes of a virtual cluster sum to %g; want 1", mix)
		}
	}
	if math.Abs(sum-1) > 2e-3 {
		t.Errorf("virtual clusters sum to %g; want 1", sum)
	}
}

// Ranks over a blend are uniform, whatever the shifts of its groups.
func TestBlendIsUniform(t *testing.T) {
	b := blend{weight: []float64{5, 1, 0, 2}, shift: []float64{0.3, -2, 9, 1}}
	rnd := rand.New(rand.NewPCG(1, 1))
	const n = 40000
	ranks := make([]float64, n)
	for i := range ranks {
		group := pick([]float64{5, 6, 6, 8}, rnd.Float64())
		ranks[i] = b.rank(rnd.NormFloat64() + b.shift[group])
	}
	slices.Sort(ranks)
	for i, r := range ranks {
		if d := math.Abs(r - (float64(i)+0.5)/n); d > 0.01 {
			t.Fatalf("rank %d of %d is %.3f, %.3f off", i, n, r, d)
		}
	}
}

// A rate's quantile function is monotone and stays within the span.
func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0.01, 10), 30, 30).Draw(t, "weights")
		span := rapid.Int64Range(1, int64(29*3600)*1e9).Draw(t, "span")
		r := newRate(time.Duration(span), time.Hour, func(at time.Duration) float64 { return weights[int(at/time.Hour)] })
		var last time.Duration
		for i := range 101 {
			at := r.at(float64(i)/100, time.Duration(span))
			if at < last || at > time.Duration(span)+1 {
				t.Fatalf("share %d %%: %s after %s, span %s", i, at, last, time.Duration(span))
			}
			last = at
		}
	})
}
