// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package horus

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Three heaps that differ in one value each are told apart, although memory is in
// bytes and utilisation below 1.
func TestClusterFindsHeaps(t *testing.T) {
	var points []point
	var want []int
	for i := range 30 {
		wobble := float64(i%5) / 100
		switch i % 3 {
		case 0:
			points = append(points, point{1, 0.2 + wobble, 1, 1e9})
		case 1:
			points = append(points, point{1, 0.9 + wobble, 1, 1e9})
		case 2:
			points = append(points, point{1, 0.2 + wobble, 1, 3e10})
		}
		want = append(want, i%3)
	}
	got := cluster(points, 3)
	name := map[int]int{}
	for i, c := range got {
		if other, ok := name[want[i]]; ok && other != c {
			t.Fatalf("point %d of heap %d is in class %d, others of it in %d", i, want[i], c, other)
		}
		name[want[i]] = c
	}
	if len(name) != 3 || name[0] == name[1] || name[1] == name[2] || name[0] == name[2] {
		t.Errorf("classes of the heaps: %v; want three different ones", name)
	}
}

// The same points give the same classes, each point is in the class of the
// nearest centre, and there are no more classes than asked for.
func TestClusterProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 5).Draw(t, "k")
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) point {
			return point{
				float64(rapid.IntRange(1, 8).Draw(t, "tasks")), rapid.Float64Range(0, 1).Draw(t, "util"),
				float64(rapid.IntRange(1, 2).Draw(t, "gpus")), float64(rapid.Int64Range(0, 1<<36).Draw(t, "memory")),
			}
		}), 0, 40).Draw(t, "points")
		before := slices.Clone(points)
		got := cluster(points, k)
		if diff := cmp.Diff(got, cluster(points, k)); diff != "" {
			t.Errorf("the same points give other classes:\n%s", diff)
		}
		if !slices.Equal(before, points) {
			t.Errorf("the points have changed")
		}
		if len(got) != len(points) || (len(got) > 0 && (slices.Min(got) < 0 || slices.Max(got) >= k)) {
			t.Errorf("classes %v of %d points; want each from 0 to %d", got, len(points), k-1)
		}
	})
}

func TestShares(t *testing.T) {
	jobs := func(n int) []int { return make([]int, n) }
	for _, c := range []struct {
		name   string
		queues []queue
		want   []int
	}{
		{"empty", []queue{{}, {}}, nil},
		{"alone", []queue{{}, {jobs: jobs(9), weight: 5}}, []int{0, 5}},
		{"by weight times length", []queue{{jobs: jobs(10), weight: 1}, {jobs: jobs(10), weight: 4}}, []int{1, 4}},
		{"largest remainder", []queue{{jobs: jobs(3), weight: 1}, {jobs: jobs(4), weight: 1}}, []int{2, 3}},
		{"the oldest has a turn", []queue{{jobs: jobs(1), weight: 1, oldest: time.Hour}, {jobs: jobs(100), weight: 100}}, []int{1, 4}},
		{"no more than there are", []queue{{jobs: jobs(1), weight: 1000}, {jobs: jobs(2), weight: 1}}, []int{1, 2}},
	} {
		if diff := cmp.Diff(c.want, shares(c.queues, 5)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
