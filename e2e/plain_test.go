// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestPlainScripts: scripts that know nothing of Fairway keep their GPUs and their
// size under the default policy, whoever comes later.
func TestPlainScripts(t *testing.T) {
	d := startDaemon(t, shortDir(t), "--slots", "4", "--policy", "pollux:interval=1s")
	plain := shell("for i in $(seq 60); do echo epoch $i; sleep 0.1; done")
	elastic := api.Submission{Spec: sched.Spec{MinGPUs: 1, MaxGPUs: 4}, Task: api.Task{Name: "elastic"}}
	rigid := api.Submission{Spec: sched.Spec{GPUs: 2}, Task: api.Task{Name: "rigid"}}
	first := []sched.JobID{d.run(elastic, plain...), d.run(rigid, plain...)}
	for _, id := range first {
		d.until(id, api.Running)
	}
	later := []sched.JobID{d.run(elastic, plain...), d.run(elastic, plain...), d.run(api.Submission{Spec: sched.Spec{GPUs: 1}}, plain...)}
	for _, id := range append(first, later...) {
		j := d.until(id, api.Finished)
		if j.Status.Starts != 1 || j.Status.MostGPUs != j.GPUs {
			t.Errorf("job %s was started %d times on up to %d GPUs; want once on %d", id, j.Status.Starts, j.Status.MostGPUs, j.GPUs)
		}
	}
}
