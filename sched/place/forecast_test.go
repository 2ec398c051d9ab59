// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

func TestEnds(t *testing.T) {
	now := policytest.Start.Add(100 * time.Hour)
	running := func(estimate, ran time.Duration) *sched.Job {
		return &sched.Job{
			Spec:   sched.Spec{GPUs: 1, Estimate: sched.Duration(estimate)},
			Status: sched.Status{Phase: sched.Running, Since: now.Add(-ran)},
		}
	}
	slow := running(time.Hour, time.Hour)
	slow.Work, slow.Done, slow.Rate, slow.ReportedAt = 100, 50, 0.01, now
	over := running(time.Hour, 90*time.Minute)
	over.Work, over.Done, over.Rate, over.ReportedAt = 100, 100, 0.01, now
	for _, c := range []struct {
		name string
		job  *sched.Job
		want time.Duration // from now
	}{
		{"as estimated", running(time.Hour, 20*time.Minute), 40 * time.Minute},
		{"late", running(time.Hour, time.Hour), time.Hour},
		{"later", running(time.Hour, 119*time.Minute), time.Minute},
		{"late again", running(time.Hour, 2*time.Hour), 2 * time.Hour},
		{"unknown", running(0, 0), 30 * time.Minute},
		{"unknown and late", running(0, 45*time.Minute), 15 * time.Minute},
		{"a second, and late", running(time.Second, 5*time.Second), 55 * time.Second},
		{"by its rate", slow, 5000 * time.Second},
		{"more work than it said", over, 30 * time.Minute},
	} {
		if got := place.Ends(c.job, now, 30*time.Minute).Sub(now); got != c.want {
			t.Errorf("%s: ends in %s; want %s", c.name, got, c.want)
		}
	}
}

// TestEarliest holds the search against a plain one that lets the jobs end one by
// one, and checks that the view is left alone.
func TestEarliest(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		w := policytest.Random(t)
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			if err := w.Submit(policytest.DrawJob(t, sched.JobID(fmt.Sprint("r", i))), 0); err != nil {
				t.Fatal(err)
			}
		}
		queue := place.Queue{}
		s := w.State.Snapshot(w.Now)
		plan := queue.Plan(s, place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }), place.NewFree(s.Cluster))
		free := place.NewFree(s.Cluster)
		for i, j := range s.Jobs {
			free.Take(j, plan.Want[i])
		}
		before := free.Total()
		spec := policytest.DrawJob(t, "gang")
		gang := &sched.Job{Spec: spec}
		forecast := place.NewForecast(s, plan.Want, free, 30*time.Minute)
		at, p, ok := forecast.Earliest(gang, gang.GPUs, place.Consolidated)
		if free.Total() != before {
			t.Fatalf("%d GPUs are free after the search; %d were before", free.Total(), before)
		}
		want, wantOK := plainEarliest(s, plan, gang)
		if ok != wantOK || !at.Equal(want) {
			t.Fatalf("gang starts at %s, %t; want %s, %t", at, ok, want, wantOK)
		}
		if ok {
			found++
			if clear := forecast.Clear(p); !gang.Shareable && clear.After(at) {
				t.Errorf("its place %s is free at %s only; it was given %s", p.Text(s.Cluster), clear, at)
			}
		}
	})
	if found == 0 {
		t.Error("no gang ever had a time: the test has no force")
	}
}

func plainEarliest(s *sched.Snapshot, plan sched.Plan, gang *sched.Job) (time.Time, bool) {
	times := []time.Time{s.Now}
	for i, j := range s.Jobs {
		if len(plan.Want[i]) > 0 {
			times = append(times, place.Ends(j, s.Now, 30*time.Minute))
		}
	}
	best, ok := time.Time{}, false
	for _, at := range times {
		free := place.NewFree(s.Cluster)
		for i, j := range s.Jobs {
			if at.Equal(s.Now) || place.Ends(j, s.Now, 30*time.Minute).After(at) {
				free.Take(j, plan.Want[i])
			}
		}
		if _, fits := place.Consolidated(free, gang, gang.GPUs); fits && (!ok || at.Before(best)) {
			best, ok = at, true
		}
	}
	return best, ok
}
