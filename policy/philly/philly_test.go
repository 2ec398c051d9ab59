// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"strings"
	"testing"
	"time"

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
		{"philly:gang_timeout=-1s", "gang_timeout = -1s; want 0s to 365d"},
		{"philly:back_off=400d", "back_off = 9600h; want 0s to 365d"},
		{"philly:tick=0s", "tick = 0s; want 1ms to 365d"},
		{"philly:retries_per_rung=0", "retries_per_rung = 0; want 1 or more"},
		{"philly:relax=maybe", `relax = "maybe"; want on, proportional, off or at-once`},
		{"philly:preempt_above=-0.5", "preempt_above = -0.5; want 0 to 1"},
	} {
		if _, err := build(tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v; want %q", tc.spec, err, tc.want)
		}
	}
}

func TestAttempt(t *testing.T) {
	p := &policy{Config: Default()}
	now := policytest.Start.Add(time.Hour)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	const period = 270 * time.Second
	for _, tc := range []struct {
		name string
		note sched.Note
		want attempt
	}{
		{"first", sched.Note{}, attempt{fewest, 1, at(period), true}},
		{"still trying", sched.Note{Count: 3, Since: at(2*time.Minute + 1)}, attempt{fewest, 3, at(2*time.Minute + 1), true}},
		{"backs off", sched.Note{Count: 3, Since: at(2 * time.Minute)}, attempt{fewest, 3, at(2 * time.Minute), false}},
		{"due", sched.Note{Count: 3, Since: now}, attempt{fewest, 4, at(period), true}},
		{"one rung wider", sched.Note{Count: 5, Since: now}, attempt{domain, 1, at(period), true}},
		{"widest", sched.Note{Level: 2, Count: 5, Since: now}, attempt{anywhere, 6, at(period), true}},
		{"note of another policy", sched.Note{Level: 9, Count: -4, Since: at(time.Hour)}, attempt{anywhere, 1, at(period), true}},
	} {
		if got := p.attempt(&sched.Job{Status: sched.Status{Note: tc.note}}, now); got != tc.want {
			t.Errorf("%s: attempt(%+v) = %+v; want %+v", tc.name, tc.note, got, tc.want)
		}
	}
}

func TestSize(t *testing.T) {
	for _, tc := range []struct {
		spec sched.Spec
		want int
	}{
		{sched.Spec{GPUs: 6}, 6},
		{sched.Spec{GPUs: 4, MinGPUs: 1, MaxGPUs: 8}, 4},
		{sched.Spec{GPUs: 4, MinGPUs: 6, MaxGPUs: 8}, 6},
		{sched.Spec{GPUs: 12, MinGPUs: 6, MaxGPUs: 8}, 8},
		{sched.Spec{GPUs: 5, MinGPUs: 1, MaxGPUs: 8, Sizes: []int{1, 2, 4, 8}}, 4},
		{sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 8, Sizes: []int{2, 4, 8}}, 2},
		{sched.Spec{GPUs: 8, MinGPUs: 1, MaxGPUs: 4, Sizes: []int{2, 4, 8}}, 4},
		{sched.Spec{GPUs: 6, MinGPUs: 3, MaxGPUs: 8, TaskGPUs: 2}, 6},
		{sched.Spec{GPUs: 3, MinGPUs: 3, MaxGPUs: 8, TaskGPUs: 3, Sizes: []int{4, 6, 8}}, 6},
		{sched.Spec{GPUs: 4, MinGPUs: 5, MaxGPUs: 7, TaskGPUs: 4}, sched.NoSize},
		{sched.Spec{GPUs: 4, MinGPUs: 2, MaxGPUs: 3, Sizes: []int{1, 4}}, sched.NoSize},
	} {
		if got := (&sched.Job{Spec: tc.spec}).StartSize(); got != tc.want {
			t.Errorf("size of %+v = %d; want %d", tc.spec, got, tc.want)
		}
	}
}
