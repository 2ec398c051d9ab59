// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sim"
)

func horusWorkload(t *testing.T, edit func(*Gen)) *sim.Workload {
	t.Helper()
	g := Gen{Kind: KindHorus, Jobs: 5000, GPUs: 1024, Seed: 3, Longest: 24 * time.Hour}
	edit(&g)
	w, err := Generate(g)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The mix is light by default, heavy if asked for, and every job is one that was
// measured.
func TestHorusMix(t *testing.T) {
	measured := map[horusProfile]bool{}
	for _, p := range horusProfiles {
		measured[p] = true
	}
	for _, c := range []struct{ light, low, high float64 }{{0, 0.42, 0.52}, {0.1, 0.8, 0.95}} {
		w := horusWorkload(t, func(g *Gen) { g.Light = c.light })
		mean, single := 0.0, 0
		for i := range w.Work {
			j := &w.Work[i]
			mean += j.TrueUtil / float64(len(w.Work))
			if j.GPUs == 1 {
				single++
			}
			if !measured[horusProfile{j.Model, j.BatchSize / j.GPUs, j.TrueUtil, j.GPUMemory >> 20}] {
				t.Fatalf("%s trains %s at batch %d on %d GPUs, which was not measured", j.ID, j.Model, j.BatchSize, j.GPUs)
			}
			if j.GPUs < 1 || j.GPUs > 8 || !j.Shareable || j.RunTime.D() > 24*time.Hour {
				t.Fatalf("%s has %d GPUs for %s", j.ID, j.GPUs, j.RunTime)
			}
		}
		if mean < c.low || mean > c.high {
			t.Errorf("light %g: mean utilisation %.3f; want %.2f to %.2f", c.light, mean, c.low, c.high)
		}
		if part := float64(single) / float64(len(w.Work)); part < 0.69 || part > 0.75 {
			t.Errorf("%.2f of the jobs have one GPU; want about 0.72", part)
		}
	}
}

// Predictions err by what is asked for, and are right otherwise.
func TestHorusError(t *testing.T) {
	for _, want := range []float64{0, 0.05, 0.133} {
		w := horusWorkload(t, func(g *Gen) { g.Error = want })
		var square float64
		n := 0
		for i := range w.Work {
			j := &w.Work[i]
			if j.TrueUtil > 0.6 {
				continue // predictions above 100 % are cut
			}
			off := math.Log(1+100*j.GPUUtil) - math.Log(1+100*j.TrueUtil)
			square += off * off
			n++
		}
		if got := math.Sqrt(square / float64(n)); math.Abs(got-want) > 0.05*want+0.002 {
			t.Errorf("RMSLE %.4f; want %.4f", got, want)
		}
	}
}

// The same seed gives the same jobs, and the error of predictions changes nothing
// else.
func TestHorusSeed(t *testing.T) {
	a := horusWorkload(t, func(*Gen) {})
	if diff := cmp.Diff(a, horusWorkload(t, func(*Gen) {})); diff != "" {
		t.Errorf("the same seed gives another workload:\n%s", diff)
	}
	b := horusWorkload(t, func(g *Gen) { g.Error = 0.3 })
	for i := range b.Work {
		b.Work[i].GPUUtil = a.Work[i].GPUUtil
	}
	if diff := cmp.Diff(a.Work, b.Work); diff != "" {
		t.Errorf("the error of predictions changes more than these:\n%s", diff)
	}
}

func TestHorusCluster(t *testing.T) {
	c, err := HorusCluster()
	if err != nil {
		t.Fatal(err)
	}
	if c.GPUs() != 1024 || len(c.Racks) != 4 || len(c.Nodes) != 128 {
		t.Errorf("%d GPUs in %d racks and %d nodes; want 1024, 4 and 128", c.GPUs(), len(c.Racks), len(c.Nodes))
	}
}
