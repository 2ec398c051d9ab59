// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pairing_test

import (
	"fmt"
	"testing"

	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
)

// What is known of two jobs holds for others that train the same, in either order.
func TestOutcomes(t *testing.T) {
	job := func(id, model string) *sched.Job {
		return &sched.Job{Spec: sched.Spec{ID: sched.JobID(id), Model: model}}
	}
	var o pairing.Outcomes
	if _, known := o.Get(job("a", "x"), job("b", "y")); known || !o.Empty() {
		t.Error("something is known before anything was measured")
	}
	o.Put(job("a", "x"), job("b", "y"), 1.5)
	o.Put(job("c", ""), job("d", ""), 2)
	for _, c := range []struct {
		a, b  *sched.Job
		known bool
	}{
		{job("e", "y"), job("f", "x"), true},
		{job("e", "x"), job("f", "x"), false},
		{job("d", ""), job("c", ""), true},
		{job("e", ""), job("c", ""), false},
	} {
		if _, known := o.Get(c.a, c.b); known != c.known {
			t.Errorf("%s and %s: known %v; want %v", pairing.Kind(c.a), pairing.Kind(c.b), known, c.known)
		}
	}
	for i := range 10_000 { // a memory that is full starts anew
		o.Put(job(fmt.Sprint(i), ""), job("z", ""), 1)
	}
	if outcome, known := o.Get(job("9999", ""), job("z", "")); !known || outcome != 1 {
		t.Errorf("the last outcome is %g, %v; want 1", outcome, known)
	}
}
