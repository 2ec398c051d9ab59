// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/policy/knob"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// build reads a spec: the policy's name and knobs.
func build(spec string) (sched.Policy, error) {
	c := Default()
	for _, word := range strings.Split(spec, ":")[1:] {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("word %q; want knob=value", word)
		}
		if err := knob.Set(&c, name, value); err != nil {
			return nil, err
		}
	}
	return New(c)
}

func TestScenarios(t *testing.T) { policytest.Run(t, "testdata", build) }

func TestNewRefusesBadKnobs(t *testing.T) {
	for _, tc := range []struct {
		spec string
		want string // in the error
	}{
		{"philly:gang_timeout=-1s", "gang_timeout = -1s; want 0s to 365d"},
		{"philly:back_off=400d", "back_off = 9600h; want 0s to 365d"},
		{"philly:tick=0s", "tick = 0s; want 1ms to 365d"},
		{"philly:retries_per_rung=0", "retries_per_rung = 0; want 1 or more"},
		{"philly:relax=maybe", `relax = "maybe"; want on, off or at-once`},
		{"philly:preempt_above=-0.5", "preempt_above = -0.5; want 0 to 1"},
	} {
		if _, err := build(tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v; want %q", tc.spec, err, tc.want)
		}
	}
}

func TestName(t *testing.T) {
	for _, spec := range []string{"philly", "philly:relax=off:tick=1m"} {
		p, err := build(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p); got != spec {
			t.Errorf("String() = %s; want %s", got, spec)
		}
	}
}
