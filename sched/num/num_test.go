// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package num_test

import (
	"math"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/sched/num"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{
		{nil, 0.5, 0},
		{[]float64{7}, 0, 7}, {[]float64{7}, 0.99, 7},
		{[]float64{4, 1, 3, 2}, 0, 1}, {[]float64{4, 1, 3, 2}, 0.5, 2.5}, {[]float64{4, 1, 3, 2}, 1, 4},
		{[]float64{4, 1, 3, 2}, 0.9, 3.7}, {[]float64{4, 1, 3, 2}, -1, 1}, {[]float64{4, 1, 3, 2}, 2, 4},
	} {
		before := slices.Clone(c.values)
		if got := num.Quantile(c.values, c.q); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Quantile(%v, %g) = %g, want %g", c.values, c.q, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("Quantile(%v, %g) changed its input to %v", before, c.q, c.values)
		}
	}
}

func TestMean(t *testing.T) {
	if got := num.Mean(nil); got != 0 {
		t.Errorf("Mean of nothing = %g, want 0", got)
	}
	if got := num.Mean([]float64{1, 2, 6}); got != 3 {
		t.Errorf("Mean(1, 2, 6) = %g, want 3", got)
	}
}

func TestCeilDiv(t *testing.T) {
	for _, c := range [][3]int{{0, 4, 0}, {1, 4, 1}, {4, 4, 1}, {5, 4, 2}} {
		if got := num.CeilDiv(c[0], c[1]); got != c[2] {
			t.Errorf("CeilDiv(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
