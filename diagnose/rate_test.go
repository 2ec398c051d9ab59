// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestRateOf(t *testing.T) {
	if r := RateOf(0, 0); math.Abs(r.PerHour-1/6300.0) > 1e-12 || !(r.Low > 0 && r.Low < r.PerHour && r.PerHour < r.High) {
		t.Errorf("nothing seen: %+v; want one failure in 6,300 hours", r)
	}
	// A gamma distribution of shape 10 has 5 % below 5.425 and above 15.71.
	r := RateOf(9, 10000-6300)
	for _, c := range []struct{ got, want float64 }{{r.PerHour, 10e-4}, {r.Low, 5.425e-4}, {r.High, 15.71e-4}} {
		if math.Abs(c.got/c.want-1) > 0.02 {
			t.Errorf("%+v; want %g", r, c.want)
		}
	}
}

// TestRateIsLearned: after a year, the rate of the cluster is known although its prior
// was wrong, and that of most nodes lies within their bounds, good and bad ones.
func TestRateIsLearned(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 18))
	const nodes, hours, usual = 1000, 8760, 1.0 / 1000
	var rates, failures [nodes]float64
	total, mean := 0.0, 0.0
	for i := range nodes {
		rates[i] = usual * math.Exp(0.5*r.NormFloat64())
		mean += rates[i] / nodes
		for at := r.ExpFloat64() / rates[i]; at < hours; at += r.ExpFloat64() / rates[i] {
			failures[i]++
			total++
		}
	}
	cluster, inside := RateOf(total, nodes*hours), 0
	for i := range nodes {
		if got := RateOfNode(cluster, failures[i], hours); got.Low <= rates[i] && rates[i] <= got.High {
			inside++
		}
	}
	t.Logf("cluster: %.3g per hour, in truth %.3g; nodes whose rate is within its bounds: %d of %d", cluster.PerHour, mean, inside, nodes)
	if math.Abs(cluster.PerHour/mean-1) > 0.03 {
		t.Errorf("cluster %+v; want %g", cluster, mean)
	}
	if inside < nodes*85/100 {
		t.Errorf("the rates of %d of %d nodes are within their bounds; want about 900", inside, nodes)
	}
	if fresh := RateOfNode(cluster, 0, 0); math.Abs(fresh.PerHour/cluster.PerHour-1) > 1e-9 {
		t.Errorf("a new node: %+v; want the rate of its cluster", fresh)
	}
}

func TestOutages(t *testing.T) {
	if o := Outages(0, 0, 0); o.PerHour != 1/priorHours || o.Repair.D() != priorRepair {
		t.Errorf("before anything was seen %+v; want the prior", o)
	}
	o := Outages(99, 99*3*time.Hour, (1e5-priorHours)*time.Hour)
	if o.PerHour != 100/1e5 || o.Repair.D() != (99*3+1)*time.Hour/100 {
		t.Errorf("%+v; want one in 1,000 hours, of nearly 3 hours", o)
	}
}
