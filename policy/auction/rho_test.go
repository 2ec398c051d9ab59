// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/auction"
)

// TestHalving is the worked example of the Themis paper: 16 GPUs, 4 apps, one of
// them with 4 jobs of 80, 100, 100 and 120 s for an iteration on one GPU.
func TestHalving(t *testing.T) {
	app := auction.Halving{
		IterSerial: []float64{80, 100, 100, 120},
		Phases:     []auction.Phase{{Jobs: 4, Iterations: 8}, {Jobs: 2, Iterations: 16}, {Jobs: 1, Iterations: 36}},
		Most:       8,
	}
	ideal := auction.Fair{ClusterGPUs: 16, Apps: 4}.Ideal(10_000, 16)
	if ideal != 2500 {
		t.Fatalf("ideal = %g; want 2500", ideal)
	}
	for _, c := range []struct {
		gpus   int
		phases []float64
		shared float64
		rho    string
	}{
		{1, []float64{3200, 3200, 3600}, 10000, "4.00"},
		{2, []float64{1600, 1600, 1800}, 5000, "2.00"},
		{4, []float64{960, 800, 900}, 2660, "1.06"},
		{8, []float64{480, 400, 450}, 1330, "0.53"},
		{16, []float64{240, 200, 450}, 890, "0.36"},
	} {
		if diff := cmp.Diff(c.phases, app.Times(1, c.gpus)); diff != "" {
			t.Errorf("%d GPUs: phases (-want +got):\n%s", c.gpus, diff)
		}
		shared := app.Shared(0, 1, c.gpus)
		if rho := fmt.Sprintf("%.2f", auction.Rho(shared, ideal)); shared != c.shared || rho != c.rho {
			t.Errorf("%d GPUs: shared = %g, rho = %s; want %g and %s", c.gpus, shared, rho, c.shared, c.rho)
		}
	}
	if got := app.Shared(100, 1.5, 1); got != 100+15000 {
		t.Errorf("after 100 s, slowed down by 1.5: %g; want 15100", got)
	}
	// To give GPUs to the job that ends last is better than to divide evenly: 5,
	// 4, 4 and 3 GPUs make the first phase 8*80/3 s long.
	app.Split = auction.LongestFirst
	if got, want := app.Times(1, 16)[0], 8*80/3.0; math.Abs(got-want) > 1e-9 {
		t.Errorf("longest first: the first phase takes %g; want %g", got, want)
	}
}

func TestSingleJob(t *testing.T) {
	// 1000 iterations of 2 s, 400 done after 600 s; it can use 8 of 64 GPUs and
	// shares them with 3 others on average: ideal 1000*2/8*4 = 1000 s.
	job := auction.Job{IterLeft: 600, IterSerial: 2, Most: 8}
	fair := auction.Fair{ClusterGPUs: 64, Apps: 4}
	ideal := fair.Ideal(1000*2, 8)
	for _, c := range []struct {
		gpus     int
		slowdown float64
		rho      float64
	}{
		{1, 1, 1.8}, {4, 1, 0.9}, {8, 1, 0.75}, {16, 1, 0.75}, {8, 1.5, 0.825}, {0, 1, math.Inf(1)},
	} {
		if got := auction.Rho(job.Shared(600, c.slowdown, c.gpus), ideal); math.Abs(got-c.rho) > 1e-12 && got != c.rho {
			t.Errorf("%d GPUs, slowdown %g: rho = %g; want %g", c.gpus, c.slowdown, got, c.rho)
		}
	}
	if got := auction.Waiting(600, 600, job.Shared(0, 1, fair.Share())); got != 600+600+150 {
		t.Errorf("waiting: %g; want 1350: a lease, then 16 GPUs of which it uses 8", got)
	}
	if got := (auction.Job{Most: 1}).Shared(5, 1, 0); got != 5 {
		t.Errorf("nothing left to do: %g; want 5", got)
	}
}

func TestCurves(t *testing.T) {
	jobs := []auction.Job{{IterLeft: 100, IterSerial: 1, Most: 2}, {IterLeft: 10, IterSerial: 1, Most: 4}}
	for gpus, want := range map[int]float64{0: math.Inf(1), 1: 7 + 110, 2: 7 + 100, 3: 7 + 50, 8: 7 + 50} {
		if got := auction.Curves(7, 1, gpus, jobs); got != want {
			t.Errorf("%d GPUs: %g; want %g", gpus, got, want)
		}
	}
}

func TestSplits(t *testing.T) {
	jobs := []auction.Job{{IterLeft: 1, IterSerial: 10, Most: 2}, {IterLeft: 1, IterSerial: 90, Most: 8}, {IterLeft: 0, IterSerial: 1, Most: 8}}
	if diff := cmp.Diff([]int{2, 3, 2}, auction.Evenly(7, jobs)); diff != "" {
		t.Errorf("evenly (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{1, 6, 0}, auction.LongestFirst(7, jobs)); diff != "" {
		t.Errorf("longest first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{2, 8, 0}, auction.LongestFirst(99, jobs)); diff != "" {
		t.Errorf("longest first, plenty (-want +got):\n%s", diff)
	}
}

func TestContention(t *testing.T) {
	var c auction.Contention
	if got := c.Average(5); got != 5 {
		t.Errorf("at the start: %g; want 5, the number now", got)
	}
	c.Add(10, 2)
	c.Add(30, 6)
	if got := c.Average(9); got != 5 {
		t.Errorf("2 for 10 s and 6 for 30 s: %g; want 5", got)
	}
}
