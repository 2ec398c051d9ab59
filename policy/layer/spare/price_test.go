// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package spare_test

import (
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/layer/spare"
)

// gang is one job on all nodes of 8 GPUs.
func gang(nodes int, perNodeHour float64, repair time.Duration) spare.Case {
	return spare.Case{Nodes: nodes, Rate: perNodeHour, Repair: repair, Gang: 8 * float64(nodes), GPUs: 8}
}

// TestStillIsErlangsFormula: with a load of 1, B is 1/2, 1/5, 1/16, 1/65.
func TestStillIsErlangsFormula(t *testing.T) {
	c := gang(10, 0.1, time.Hour)
	for spares, want := range []float64{1. / 2, 1. / 5, 1. / 16, 1. / 65} {
		if got := c.Still(spares); math.Abs(got-want) > 1e-12 {
			t.Errorf("with %d spares the gang stands still %g of the time; want %g", spares, got, want)
		}
	}
	c.Wait = time.Minute
	if got, want := c.Still(0), 1./61; math.Abs(got-want) > 1e-12 {
		t.Errorf("a gang that waits for a minute stands still %g of the time; want %g", got, want)
	}
	c.Rate = 0
	if got := c.Still(0); got != 0 {
		t.Errorf("a gang whose nodes never fail stands still %g of the time", got)
	}
}

func TestSparesPayForLargeGangsThatFailOften(t *testing.T) {
	for _, tc := range []struct {
		what string
		c    spare.Case
		want int
	}{
		{"the nodes never fail", gang(1200, 0, time.Hour), 0},
		{"a gang of one node never waits for long enough", gang(1, 1.25e-4, time.Hour), 0},
		{"a small gang", gang(64, 1.25e-4, time.Hour), 0},
		{"a large gang", gang(1200, 1.25e-4, time.Hour), 2},
		{"whose nodes are away for a day", gang(1200, 1.25e-4, 24*time.Hour), 10},
		{"that waits for a minute at most", spare.Case{Nodes: 1200, Rate: 1.25e-4, Repair: 24 * time.Hour, Gang: 9600, GPUs: 8, Wait: time.Minute}, 0},
	} {
		if got := tc.c.Pays(); got != tc.want {
			t.Errorf("%s: %d spares pay; want %d", tc.what, got, tc.want)
		}
	}
}

// TestPaysFindsTheMost: no other number of spares gains more.
func TestPaysFindsTheMost(t *testing.T) {
	for _, away := range []float64{0.01, 0.3, 1, 4, 30} {
		for _, wait := range []time.Duration{0, time.Minute, 10 * time.Minute, 10 * time.Hour} {
			c := gang(1000, away/1000, time.Hour)
			c.Wait = wait
			best := c.Pays()
			for n := range 100 {
				if c.Gain(n) > c.Gain(best) {
					t.Errorf("%g nodes away, wait %s: %d spares gain %g GPUs, %d gain %g", away, wait, best, c.Gain(best), n, c.Gain(n))
				}
				if c.Still(n+1) > c.Still(n) {
					t.Errorf("%g nodes away, wait %s: with %d spares the gang stands still more than with %d", away, wait, n+1, n)
				}
			}
		}
	}
}
