// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// TestEveryJobRuns plays random worlds to the end: every job that an empty
// cluster could host must have run to its end by the time that one after the
// other would take.
func TestEveryJobRuns(t *testing.T) {
	for spec, promise := range promises {
		if !promise.finite {
			continue
		}
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				uncordon(rt, w)
				var total time.Duration
				at := policytest.Start
				for i := range rapid.IntRange(1, 15).Draw(rt, "jobs") {
					job := policytest.DrawJob(rt, sched.JobID(fmt.Sprint("j", i)))
					length := time.Duration(rapid.IntRange(1, 90).Draw(rt, "minutes")) * time.Minute
					job.Estimate = min(job.Estimate, sched.Duration(length)) // right, short or missing
					at = at.Add(time.Duration(rapid.IntRange(0, 600).Draw(rt, "seconds")) * time.Second)
					job.Submitted = at
					w.Arrivals = append(w.Arrivals, job)
					w.Length[job.ID] = length
					total += length
				}
				bound := at.Add(total + time.Hour)
				if err := w.Play(build(t, spec), bound, nil); err != nil {
					rt.Fatal(err)
				}
				checkOnlyImpossibleWait(rt, w)
			})
		})
	}
}

// uncordon makes the cordoned nodes ready: a job may wait for one of these.
func uncordon(t *rapid.T, w *policytest.World) {
	for i, n := range w.State.Cluster().Nodes {
		if n.State == sched.Cordoned {
			if err := w.SetNode(i, sched.Ready); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func checkOnlyImpossibleWait(t *rapid.T, w *policytest.World) {
	s := w.State.Snapshot(w.Now)
	empty, quota := place.NewFree(s.Cluster), place.NewQuota(s)
	for _, j := range s.Jobs {
		_, ok := place.Consolidated(empty.For(s.Cluster), j, j.GPUs)
		if ok && quota.Left(j) >= j.GPUs {
			t.Errorf("job %s (%d GPUs) is %s at %s, %d starts; an empty cluster would host it", j.ID, j.GPUs, j.Phase, w.Now.Sub(policytest.Start), j.Starts)
		}
	}
}

// TestNoStarvation lets small jobs come for ever, more than the cluster can
// serve, and asks how long a gang as large as the cluster waits.
func TestNoStarvation(t *testing.T) {
	for _, c := range []struct {
		spec  string
		bound time.Duration
	}{
		// Those ahead of it have to end first: 40 at a time, 8 GPUs, 15 minutes each.
		{"fifo", 2 * time.Hour},
		{"fifo:backfill", 2 * time.Hour},
		// Those who came before it have a lease each first.
		{"las", 51 * time.Minute},
		{"las:lease=1h", 80 * time.Minute},
		// Other tenants have more once all their jobs that came before it have ended.
		{"drf", 2 * time.Hour},
		{"carbyne", 2 * time.Hour},
		// Nobody of the crowd may share: jobs have the guarantee in order of submission.
		{"antman", 2 * time.Hour},
		// Nobody of the crowd may share: as fifo.
		{"packing", 2 * time.Hour},
		{"fifo@share", 2 * time.Hour},
		// Those who came before it have waited as long; then GPUs are kept for it.
		{"horus:patience=30m", 2 * time.Hour},
		{"horus+:patience=30m", 2 * time.Hour},
		// Delays of those who came later are shorter.
		{"quincy", 2 * time.Hour},
		// It weighs more than those who have waited for less of their length.
		{"shockwave", 2 * time.Hour},
		// Nobody reports losses: least GPU time first.
		{"slaq", time.Hour},
		{"tiresias", 2 * time.Hour},
		{"tiresias:promote=1", 2 * time.Hour},
	} {
		t.Run(c.spec, func(t *testing.T) {
			w := crowd(t)
			gang := sched.JobID("gang")
			if err := w.Submit(sched.Spec{ID: gang, Tenant: "g", GPUs: 8, Estimate: sched.Duration(5 * time.Minute)}, 5*time.Minute); err != nil {
				t.Fatal(err)
			}
			since := w.Now
			if err := w.Play(build(t, c.spec), since.Add(c.bound), nil); err != nil {
				t.Fatal(err)
			}
			if j, ok := w.State.Job(gang); ok && j.Starts == 0 {
				t.Errorf("the gang has not started after %s", c.bound)
			}
		})
	}
}

// TestPromotionEndsStarvation: without promotion, a job that was demoted waits
// as long as new ones come; with it, it goes on.
func TestPromotionEndsStarvation(t *testing.T) {
	for spec, want := range map[string]bool{"tiresias:thresholds=1h": false, "tiresias:thresholds=1h:promote=2": true} {
		w := crowd(t)
		if err := w.Submit(sched.Spec{ID: "long", GPUs: 8}, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.Play(build(t, spec), w.Now.Add(10*time.Hour), nil); err != nil {
			t.Fatal(err)
		}
		j, _ := w.State.Job("long")
		if got := j.AttainedBy(w.Now) > 1.5*3600; got != want {
			t.Errorf("%s: the job has had %g GPU-seconds; want more than one queue's worth: %t", spec, j.AttainedBy(w.Now), want)
		}
	}
}

// crowd returns a world of eight GPUs with a stream of small jobs: forty are
// there, and one more comes every minute, where one ends every two.
func crowd(t *testing.T) *policytest.World {
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 8}})
	if err != nil {
		t.Fatal(err)
	}
	const length = 15 * time.Minute
	for i := range 40 + 12*60 {
		spec := sched.Spec{
			ID: sched.JobID(fmt.Sprint("s", i)), Tenant: sched.TenantID(fmt.Sprint("t", i%2)), GPUs: 1,
			Estimate: sched.Duration(length), Submitted: w.Now.Add(max(0, time.Duration(i-40)*time.Minute) + time.Second),
		}
		if i < 40 {
			if err := w.Submit(spec, length); err != nil {
				t.Fatal(err)
			}
			continue
		}
		w.Length[spec.ID] = length
		w.Arrivals = append(w.Arrivals, spec)
	}
	return w
}
