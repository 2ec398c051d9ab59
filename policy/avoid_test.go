// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestRetryGoesElsewhere: a job that failed on a node is tried again on another
// one, if there is one.
func TestRetryGoesElsewhere(t *testing.T) {
	for _, name := range table.Names() {
		w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 4}, {Name: "n1", GPUs: 4}, {Name: "n2", GPUs: 4}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Submit(sched.Spec{ID: "j", GPUs: 4, Estimate: sched.Duration(time.Hour)}, 0); err != nil {
			t.Fatal(err)
		}
		p := build(t, name)
		var failed []string
		for range 2 {
			if _, _, err := w.Decide(p); err != nil {
				t.Fatal(err)
			}
			j, _ := w.State.Job("j")
			if j.Phase != sched.Running {
				t.Fatalf("%s: the job does not run", name)
			}
			failed = append(failed, w.State.Cluster().Nodes[j.Placement[0].Node].Name)
			if err := w.Apply(sched.Event{Kind: sched.JobFailed, Job: "j", Avoid: failed}); err != nil {
				t.Fatal(err)
			}
			w.Now = w.Now.Add(time.Minute)
		}
		if failed[0] == failed[1] {
			t.Errorf("%s: the job failed on %s and then again on %s; want another node the second time", name, failed[0], failed[1])
		}
	}
}
