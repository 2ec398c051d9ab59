// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

// tenantRow is a number of equal jobs of a tenant.
type tenantRow struct {
	tenant, count int
	scale         float64
	speed         []float64
}

// divided returns the GPUs that a job of each row has under the hierarchical goal, with
// tenants of the weights 1, 1 and 2 (of which the first is for jobs without one).
func divided(t *testing.T, gpus []float64, within string, rows ...tenantRow) []float64 {
	t.Helper()
	x := &table{problem: problem{gpus: gpus}}
	for i, r := range rows {
		x.rows = append(x.rows, row{count: float64(r.count), scale: r.scale, speed: r.speed, best: slices.Max(r.speed)})
		c := &claim{scale: int(r.scale)}
		copy(c.speed[:], r.speed)
		x.terms = append(x.terms, [3]float64{spreadSpeed(c, gpus) / r.scale, float64(r.tenant), float64(i)})
	}
	s := &sched.Snapshot{Tenants: []sched.Tenant{{ID: "a", Weight: 1}, {ID: "b", Weight: 2}}}
	m := x.fill(x.hierarchical(s, within))
	out := throughputs(t, &x.problem, m)
	for r := range out {
		out[r] /= x.terms[r][0]
	}
	return out
}

// The shares of tenants are as their weights, whatever the number of their jobs, and
// inside a tenant they are equal or in order. What a job cannot use goes to the
// others of its tenant, and what a tenant cannot use to the others.
func TestHierarchical(t *testing.T) {
	one := []float64{1}
	for _, c := range []struct {
		name   string
		gpus   []float64
		within string
		rows   []tenantRow
		want   []float64
	}{
		{"fair", []float64{6}, Fair,
			[]tenantRow{{1, 4, 1, one}, {2, 8, 1, one}}, []float64{0.5, 0.5}},
		{"more jobs get no more", []float64{6}, Fair,
			[]tenantRow{{1, 20, 1, one}, {2, 5, 1, one}}, []float64{0.1, 0.8}},
		{"in order", []float64{6}, InOrder,
			[]tenantRow{{1, 1, 1, one}, {1, 1, 1, one}, {1, 1, 1, one}, {2, 1, 3, one}, {2, 1, 4, one}}, []float64{1, 1, 0, 3, 1}},
		{"without a tenant", []float64{6}, Fair,
			[]tenantRow{{0, 2, 3, one}, {1, 3, 2, one}}, []float64{1.5, 1}},
		{"small jobs leave the rest to their tenant", []float64{8}, Fair,
			[]tenantRow{{1, 2, 1, one}, {1, 1, 8, one}, {0, 1, 8, one}}, []float64{1, 2, 4}},
		{"small tenants leave the rest to others", []float64{8}, Fair,
			[]tenantRow{{2, 1, 1, one}, {1, 1, 8, one}}, []float64{1, 7}},
		// The first job of tenant b can only be on the second type, which is too small for
		// its share; its tenant's other job gets what is missing on the first type.
		{"types that are full", []float64{6, 1}, Fair,
			[]tenantRow{{2, 1, 4, []float64{0, 1}}, {2, 1, 6, []float64{1, 0}}, {1, 1, 6, []float64{1, 0}}}, []float64{1, 11.0 / 3, 7.0 / 3}},
	} {
		got := divided(t, c.gpus, c.within, c.rows...)
		for r := range got {
			if math.Abs(got[r]-c.want[r]) > 0.01 {
				t.Errorf("%s: row %d has %.3f GPUs; want %.3f (%v)", c.name, r, got[r], c.want[r], got)
			}
		}
	}
}

// completion returns the least sum of completion times of jobs, by trying all: each on
// any GPU, in any order (on one GPU the shortest first is best).
func completion(jobs []candidate, gpus []float64) float64 {
	var types []int // of each GPU
	for t, n := range gpus {
		for range int(n) {
			types = append(types, t)
		}
	}
	best := math.Inf(1)
	on := make([][]float64, len(types))
	var try func(i int)
	try = func(i int) {
		if i == len(jobs) {
			best = min(best, sumOfEnds(on))
			return
		}
		for g, t := range types {
			if x := jobs[i].time[t]; x > 0 {
				on[g] = append(on[g], x)
				try(i + 1)
				on[g] = on[g][:len(on[g])-1]
			}
		}
	}
	try(0)
	return best
}

func sumOfEnds(on [][]float64) float64 {
	sum := 0.0
	for _, times := range on {
		end := 0.0
		for _, x := range slices.Sorted(slices.Values(times)) {
			end += x
			sum += end
		}
	}
	return sum
}

// TestMatchingAgainstAllSchedules: no schedule has a smaller sum of completion times
// than jobs on their types, the shortest first, each on the GPU that is free first.
func TestMatchingAgainstAllSchedules(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for trial := range 60 {
		gpus := []float64{float64(1 + random.IntN(2)), float64(1 + random.IntN(2))}
		jobs := make([]candidate, 1+random.IntN(5))
		for i := range jobs {
			jobs[i].least = math.Inf(1)
			must := random.IntN(2)
			for k := range gpus {
				if k == must || random.IntN(4) > 0 {
					jobs[i].time[k] = float64(60 + random.IntN(6000))
					jobs[i].least = min(jobs[i].least, jobs[i].time[k])
				}
			}
		}
		want := completion(jobs, gpus)
		on := map[int][]float64{} // by type
		for i, k := range assign(jobs, gpus, 0) {
			on[k] = append(on[k], jobs[i].time[k])
		}
		got := 0.0
		for k, times := range on {
			slices.Sort(times)
			slices.Reverse(times)
			for i, x := range times { // the longest are last on each of the GPUs
				got += x * float64(i/int(gpus[k])+1)
			}
		}
		if got > want*(1+1e-6) {
			t.Errorf("trial %d: the completion times sum to %g; want %g: %v on %v", trial, got, want, jobs, gpus)
		}
	}
}

// TestWindow: a long queue on few GPUs does not make the matching expensive.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		jobs int
		gpus []float64
		want int
	}{{10, []float64{1, 1}, 10}, {10_000, []float64{5000, 5000}, 1024}, {10_000, []float64{1, 0}, 305}} {
		if got := window(c.jobs, c.gpus); got != c.want {
			t.Errorf("%d jobs on %v GPUs: %d take part; want %d", c.jobs, c.gpus, got, c.want)
		}
	}
}
