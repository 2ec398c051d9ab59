// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// TestDrains plays random worlds to the end: every job that an empty cluster could
// host must have ended by the time that one after the other would take.
func TestDrains(t *testing.T) {
	each(t, policy.Drains, func(t *testing.T, spec string, _ policy.Promises) {
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

// TestNoStarvation lets small jobs come for ever, more than the cluster can serve,
// and asks how long a gang as large as the cluster waits.
func TestNoStarvation(t *testing.T) {
	// Those ahead of it may end first: 40 at a time, 8 GPUs, 15 minutes each. Horus
	// waits for 6 hours before it lets anybody go first.
	const bound = 8 * time.Hour
	each(t, policy.NoStarvation, func(t *testing.T, spec string, _ policy.Promises) { starts(t, spec, bound) })
	for spec, sooner := range map[string]time.Duration{
		"fifo": 2 * time.Hour, "fifo:backfill": 2 * time.Hour, "fifo@share": 2 * time.Hour, "horus:patience=30m": 2 * time.Hour,
		// Those who came before it have a lease each first.
		"las": 51 * time.Minute, "las:lease=1h": 80 * time.Minute,
		// Nobody reports losses: least GPU time first.
		"slaq": time.Hour,
	} {
		t.Run(spec+"/sooner", func(t *testing.T) { starts(t, spec, sooner) })
	}
}

// starts lets a gang come to a crowd and checks that it starts in time.
func starts(t *testing.T, spec string, bound time.Duration) {
	w := crowd(t)
	gang := sched.Spec{ID: "gang", Tenant: "g", GPUs: 8, Estimate: sched.Duration(5 * time.Minute)}
	if err := w.Submit(gang, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	p := build(t, spec)
	for until := w.Now.Add(bound); w.Now.Before(until); {
		if err := w.Play(p, w.Now.Add(min(10*time.Minute, until.Sub(w.Now))), nil); err != nil {
			t.Fatal(err)
		}
		if j, waits := w.State.Job("gang"); !waits || j.Starts > 0 {
			return
		}
	}
	t.Errorf("the gang has not started after %s", bound)
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
