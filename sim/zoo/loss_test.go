// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"math"
	"testing"
)

func TestLossAt(t *testing.T) {
	m := &Model{Loss: []LossPoint{{0.25, 0.25}, {0.75, 0.16}}}
	for at, want := range map[float64]float64{
		0: 1, 0.125: 0.5, 0.25: 0.25, 0.5: 0.2, 0.75: 0.16, 1: 0.16, // the logarithm is linear between points
	} {
		if got := m.LossAt(at); math.Abs(got-want) > 1e-12 {
			t.Errorf("LossAt(%g) = %g; want %g", at, got, want)
		}
	}
	if first, last := (&Model{}).LossAt(0), (&Model{}).LossAt(1); first != 1 || !(last > 0 && last < 0.5) {
		t.Errorf("a model without a curve goes from %g to %g; want from 1 to well below", first, last)
	}
}
