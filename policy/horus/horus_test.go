// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package horus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/horus"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

func TestBadKnobs(t *testing.T) {
	for _, c := range []struct {
		change func(*horus.Config)
		want   string
	}{
		{func(c *horus.Config) { c.W1 = -1 }, "w1 = -1; want 0 to 1e6"},
		{func(c *horus.Config) { c.Jobs = 9 }, "jobs = 9; want 1 (no sharing) to 8"},
		{func(c *horus.Config) { c.Margin = -5 }, "margin = -5; want 0 or more MiB"},
		{func(c *horus.Config) { c.Slowdown = 0.9 }, "slowdown = 0.9; want 0 (no bound), or above 1 to 100"},
		{func(c *horus.Config) { c.Mode = "turns" }, `mode "turns"; want time-slice or mps`},
		{func(c *horus.Config) { c.K = 0 }, "lookahead = 5, k = 0, beta = 5; want 1 or more, and k at most 64"},
		{func(c *horus.Config) { c.Patience = 0 }, "patience = 0s; want a positive duration"},
		{func(c *horus.Config) { c.Reserve = 2 }, "reserve = 2; want 0 to 1"},
	} {
		config := horus.Default()
		c.change(&config)
		if _, err := horus.New(config); err == nil || err.Error() != c.want {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}

// TestHeavyJobsRun lets light jobs come for ever, more than the GPUs can take, and
// asks when one that must have two whole GPUs runs.
func TestHeavyJobsRun(t *testing.T) {
	for _, plus := range []bool{false, true} {
		w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 2, GPUMemory: 16 << 30}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 600 {
			spec := sched.Spec{
				ID: sched.JobID(fmt.Sprint("s", i)), GPUs: 1, GPUUtil: 0.2, GPUMemory: 1 << 30, Shareable: true,
				Submitted: w.Now.Add(time.Duration(i) * 2 * time.Minute), Estimate: sched.Duration(20 * time.Minute),
			}
			w.Length[spec.ID] = 20 * time.Minute
			w.Arrivals = append(w.Arrivals, spec)
		}
		config := horus.Default()
		config.Patience = sched.Duration(time.Hour)
		build := horus.New
		if plus {
			build = horus.NewPlus
		}
		p, err := build(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Play(p, w.Now.Add(10*time.Minute), nil); err != nil {
			t.Fatal(err)
		}
		if err := w.Submit(sched.Spec{ID: "heavy", GPUs: 2}, 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := w.Play(p, w.Now.Add(100*time.Minute), nil); err != nil {
			t.Fatal(err)
		}
		if j, ok := w.State.Job("heavy"); ok && j.Starts == 0 {
			t.Errorf("plus %t: the job has not started after 100 minutes", plus)
		}
	}
}
