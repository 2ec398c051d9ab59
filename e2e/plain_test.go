// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestTimeLimit: a job is asked to save its work at its time limit, and fails.
func TestTimeLimit(t *testing.T) {
	d := startDaemon(t, shortDir(t), "--slots", "1")
	saved := filepath.Join(t.TempDir(), "saved")
	s := api.Submission{Spec: sched.Spec{GPUs: 1, TimeLimit: sched.Duration(2 * time.Second)}, Task: api.Task{Retries: 5, Retry: api.RetryAlways}}
	id := d.run(s, shell("trap 'echo yes > "+saved+"; exit 75' TERM; while :; do sleep 0.05; done")...)
	j := d.until(id, api.Failed)
	if j.Status.Starts != 1 || !strings.Contains(j.Why, "its time limit of 2s") || j.Status.Ran.D() < 2*time.Second {
		t.Errorf("started %d times, ran %s: %q; want one start and its time limit", j.Status.Starts, j.Status.Ran, j.Why)
	}
	waitFor(t, patience, func() bool { _, err := os.Stat(saved); return err == nil })
}
