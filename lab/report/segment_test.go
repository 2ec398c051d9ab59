// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sim"
)

func TestSegmentLimit(t *testing.T) {
	for _, tc := range []struct {
		counts []int
		budget int
		want   int
	}{
		{nil, 10, 1},
		{[]int{1, 2, 3}, 6, 3},
		{[]int{1, 2, 3}, 5, 2},
		{[]int{100, 100, 1}, 21, 10},
		{[]int{5, 5, 5}, 2, 1}, // every job keeps one
	} {
		if got := segmentLimit(tc.counts, tc.budget); got != tc.want {
			t.Errorf("segmentLimit(%v, %d) = %d; want %d", tc.counts, tc.budget, got, tc.want)
		}
	}
}

func TestCleanSegments(t *testing.T) {
	got := cleanSegments([]sim.Segment{
		{Start: 50, End: -1, GPUs: 2}, {Start: 10, End: 20, GPUs: 1}, {Start: 30, End: 30}, {Start: math.NaN(), End: 40}, {Start: 60, End: math.Inf(1)},
	}, 90)
	want := []sim.Segment{{Start: 10, End: 20, GPUs: 1}, {Start: 50, End: 90, GPUs: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("segments (-want +got):\n%s", diff)
	}
}

func TestMergeSegmentsClosesTheShortestWaits(t *testing.T) {
	in := []sim.Segment{
		{Start: 0, End: 10, GPUs: 4, Nodes: 1},
		{Start: 11, End: 21, GPUs: 8, Nodes: 2},
		{Start: 100, End: 110, GPUs: 1, Nodes: 1},
		{Start: 112, End: 142, GPUs: 5, Nodes: 1},
		{Start: 200, End: 210, GPUs: 3, Nodes: 1},
	}
	want := []sim.Segment{
		{Start: 0, End: 21, GPUs: 6, Nodes: 2},
		{Start: 100, End: 142, GPUs: 4, Nodes: 1},
		{Start: 200, End: 210, GPUs: 3, Nodes: 1},
	}
	if diff := cmp.Diff(want, mergeSegments(in, 3)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(in, mergeSegments(in, 5)); diff != "" {
		t.Errorf("nothing to merge (-want +got):\n%s", diff)
	}
	if got := mergeSegments(in, 1); len(got) != 1 || got[0].Start != 0 || got[0].End != 210 {
		t.Errorf("merged to one = %+v; want 0 to 210", got)
	}
}
