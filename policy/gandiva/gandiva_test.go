// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// build reads a spec: the policy's name and knobs.
var build = policytest.Builder(Default(), New)

func TestNewRefusesBadKnobs(t *testing.T) {
	for _, tc := range []struct {
		spec string
		want string // in the error
	}{
		{"gandiva:slice=0s", "slice = 0s; want 1s or more"},
		{"gandiva:max_height=0", "max_height = 0; want 1 to 100"},
		{"gandiva:max_height=101", "max_height = 101; want 1 to 100"},
		{"gandiva:patience=-1s", "patience = -1s; want 0s or more"},
		{"gandiva:max_packed_util=2.5", "max_packed_util = 2.5; want 0 to 2"},
		{"gandiva:pack_margin=1", "pack_margin = 1; want 0 to below 1"},
		{"gandiva:profile=-1s", "profile = -1s; want 0s or more"},
		{"gandiva:moves=-1", "moves = -1; want 0 or more"},
		{"gandiva:settle=-1s", "settle = -1s; want 0s or more"},
		{"gandiva:grow_after=-1s", "grow_after = -1s; want 0s or more"},
	} {
		if _, err := build(tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v; want %q", tc.spec, err, tc.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, tc := range []struct {
		spec           sched.Spec
		size, smallest int
	}{
		{sched.Spec{GPUs: 6}, 6, 6},
		{sched.Spec{GPUs: 4, MinGPUs: 1, MaxGPUs: 8}, 4, 1},
		{sched.Spec{GPUs: 4, MinGPUs: 6, MaxGPUs: 8}, 6, 6},
		{sched.Spec{GPUs: 12, MinGPUs: 6, MaxGPUs: 8}, 8, 6},
		{sched.Spec{GPUs: 5, MinGPUs: 2, MaxGPUs: 8, Sizes: []int{1, 2, 4, 8}}, 4, 2},
		{sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 8, Sizes: []int{2, 4, 8}}, 2, 2},
		{sched.Spec{GPUs: 8, MinGPUs: 1, MaxGPUs: 4, Sizes: []int{2, 4, 8}}, 4, 2},
		{sched.Spec{GPUs: 6, MinGPUs: 3, MaxGPUs: 8, TaskGPUs: 2}, 6, 4},
		{sched.Spec{GPUs: 3, MinGPUs: 3, MaxGPUs: 8, TaskGPUs: 3, Sizes: []int{4, 6, 8}}, 6, 6},
		{sched.Spec{GPUs: 4, MinGPUs: 5, MaxGPUs: 7, TaskGPUs: 4}, sched.NoSize, sched.NoSize},
		{sched.Spec{GPUs: 4, MinGPUs: 2, MaxGPUs: 3, Sizes: []int{1, 4}}, sched.NoSize, sched.NoSize},
	} {
		j := &sched.Job{Spec: tc.spec}
		if got := j.StartSize(); got != tc.size {
			t.Errorf("size of %+v = %d; want %d", tc.spec, got, tc.size)
		}
		if got := smallest(j); got != tc.smallest {
			t.Errorf("smallest size of %+v = %d; want %d", tc.spec, got, tc.smallest)
		}
	}
}
