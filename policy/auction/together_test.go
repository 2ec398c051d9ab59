// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched/fairness"
)

// TestHalving is the worked example of the Themis paper: 16 GPUs, 4 apps, one of
// them with 4 jobs of 80, 100, 100 and 120 s for an iteration on one GPU.
func TestHalving(t *testing.T) {
	app := auction.Halving{
		IterSerial: []float64{80, 100, 100, 120},
		Phases:     []auction.Phase{{Jobs: 4, Iterations: 8}, {Jobs: 2, Iterations: 16}, {Jobs: 1, Iterations: 36}},
		Most:       8,
	}
	share := fairness.App{GPUs: 16, Now: 4, Others: 10_000, Most: 16}
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
		share.Left = shared
		if rho := fmt.Sprintf("%.2f", share.PaperRho()); shared != c.shared || rho != c.rho {
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
	for _, c := range []struct {
		gpus     int
		slowdown float64
		rho      float64
	}{
		{1, 1, 1.8}, {4, 1, 0.9}, {8, 1, 0.75}, {16, 1, 0.75}, {8, 1.5, 0.825},
	} {
		left := job.Shared(0, c.slowdown, c.gpus)
		app := fairness.App{Elapsed: 600, Left: left, Mean: 4, Now: 4, GPUs: 64, Jobs: []fairness.Job{{GPUs: 8, Seconds: 1000 * 2 / 8}}}
		if got := app.PaperRho(); math.Abs(got-c.rho) > 1e-12 {
			t.Errorf("%d GPUs, slowdown %g: rho = %g; want %g", c.gpus, c.slowdown, got, c.rho)
		}
	}
	if got := job.Shared(600, 1, 0); !math.IsInf(got, 1) {
		t.Errorf("without GPUs it ends after %g s; want never", got)
	}
	if got := (auction.Job{Most: 1}).Shared(5, 1, 0); got != 5 {
		t.Errorf("nothing left to do: %g; want 5", got)
	}
}

func TestTogether(t *testing.T) {
	jobs := []auction.Job{{IterLeft: 100, IterSerial: 1, Most: 2}, {IterLeft: 10, IterSerial: 1, Most: 4}}
	for gpus, want := range map[int]float64{0: math.Inf(1), 1: 110, 2: 100, 3: 50, 8: 50} {
		if got := auction.Together(jobs, 1, gpus, nil); got != want {
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
