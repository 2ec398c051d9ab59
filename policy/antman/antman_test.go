// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package antman_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/antman"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestGuarantee plays random worlds in which quotas and nodes stay as they are:
// whoever runs with the guarantee is left alone until it ends, no GPU has more
// than two jobs, and those on it suit each other.
func TestGuarantee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := policytest.Random(t)
		config := antman.Default()
		if rapid.Bool().Draw(t, "bound") {
			config.Slowdown, config.Busy = 1.1, 1
		}
		p, err := antman.New(config)
		if err != nil {
			t.Fatal(err)
		}
		for step := range rapid.IntRange(1, 8).Draw(t, "steps") {
			for k := range rapid.IntRange(0, 4).Draw(t, "jobs") {
				job := policytest.DrawJob(t, sched.JobID(fmt.Sprint("j", step, "-", k)))
				job.Shareable = rapid.Bool().Draw(t, "shares")
				job.GPUUtil = rapid.SampledFrom([]float64{0, 0.2, 0.5, 0.7, 0.9}).Draw(t, "use")
				if err := w.Submit(job, 0); err != nil {
					t.Fatal(err)
				}
			}
			before := map[sched.JobID]sched.Placement{}
			for _, j := range w.State.Snapshot(w.Now).Jobs {
				if j.Phase == sched.Running && j.Note.Level > 0 {
					before[j.ID] = j.Placement
				}
			}
			if _, _, err := w.Decide(p); err != nil {
				t.Fatal(err)
			}
			s := w.State.Snapshot(w.Now)
			for _, j := range s.Jobs {
				if p, ok := before[j.ID]; ok && !p.Equal(j.Placement) {
					t.Errorf("job %s had the guarantee on %s and is on %s", j.ID, p.Text(s.Cluster), j.Placement.Text(s.Cluster))
				}
			}
			checkPairs(t, s)
			w.Now = w.Now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			if len(s.Jobs) > 0 && rapid.Bool().Draw(t, "ends") {
				end := sched.Event{Kind: sched.JobEnded, Job: rapid.SampledFrom(s.Jobs).Draw(t, "job").ID, Phase: sched.Finished}
				if err := w.Apply(end); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// checkPairs looks at every GPU on its own.
func checkPairs(t *rapid.T, s *sched.Snapshot) {
	on := map[[2]int][]*sched.Job{}
	for _, j := range s.Jobs {
		for _, slice := range j.Placement {
			for _, g := range slice.GPUs.Indexes() {
				at := [2]int{int(slice.Node), g}
				on[at] = append(on[at], j)
			}
		}
	}
	for at, jobs := range on {
		if len(jobs) < 2 {
			continue
		}
		a, b := jobs[0], jobs[1]
		memory := s.Cluster.Nodes[at[0]].GPUMemory
		if len(jobs) > 2 || !a.Shareable || !b.Shareable || a.GPUUtil+b.GPUUtil > 0.9 || a.GPUUtil*b.GPUUtil == 0 ||
			(memory > 0 && a.GPUMemory+b.GPUMemory > memory) || (a.Note.Level > 0 && b.Note.Level > 0) {
			t.Errorf("GPU %v has %d jobs, %s and %s among them", at, len(jobs), a.ID, b.ID)
		}
	}
}

func TestBadKnobs(t *testing.T) {
	for _, c := range []struct {
		change func(*antman.Config)
		want   string
	}{
		{func(c *antman.Config) { c.Guest = 0 }, "guest = 0; want 1 to 500 thousandths of a GPU"},
		{func(c *antman.Config) { c.Busy = 2 }, "busy = 2; want 0 (no sharing) to 1"},
		{func(c *antman.Config) { c.MaxUtil = -1 }, "max_util = -1; want 0 to 2"},
		{func(c *antman.Config) { c.Slowdown = 0.5 }, "slowdown = 0.5; want 0 (no bound), or above 1 to 100"},
		{func(c *antman.Config) { c.Mode = "turns" }, `mode "turns"; want time-slice or mps`},
		{func(c *antman.Config) { c.Patience = -1 }, "patience = -1ns; want 0s or more"},
	} {
		config := antman.Default()
		c.change(&config)
		if _, err := antman.New(config); err == nil || err.Error() != c.want {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}
