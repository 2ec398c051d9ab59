// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairway-gpu/fairway/sched"
)

// story is a state with a bit of everything.
func story(t *testing.T) (*sched.State, time.Time) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	c, err := sched.NewCluster([]sched.Node{{Name: "a", GPUs: 4, Type: "t4"}, {Name: "b", GPUs: 4, Type: "t4"}})
	if err != nil {
		t.Fatal(err)
	}
	st := sched.NewState(c)
	where := sched.Placement{{Node: 1, Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(2)}}
	events := []sched.Event{
		{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "vision", Quota: 4}},
		{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "x", GPUs: 2, Tenant: "vision", App: "search"}},
		{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "y", GPUs: 1, App: "search"}},
		{Kind: sched.AppStaged, App: "search", Stages: []sched.Stage{{Jobs: 2, Part: 0.5}}},
		{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "z", GPUs: 2, Work: 100}},
		{Kind: sched.JobStarted, Job: "x", Placement: where},
		{Kind: sched.JobEnded, Job: "y", Phase: sched.Finished},
		{Kind: sched.JobReported, Job: "x", Done: 7, Rate: 0.1},
		{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "long", GPUs: 1, Work: 100}},
		{Kind: sched.JobStarted, Job: "long", Placement: sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(1)}}},
		{Kind: sched.JobReported, Job: "long", Done: 50},
		{Kind: sched.JobEnded, Job: "long", Phase: sched.Finished},
		{Kind: sched.JobNoted, Job: "z", Note: sched.Note{Level: 2}},
	}
	for i, e := range events {
		e.At = at.Add(time.Duration(i) * time.Minute)
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return st, at.Add(time.Hour)
}

func TestSaveRestoreThroughJSON(t *testing.T) {
	st, now := story(t)
	b, err := json.Marshal(st.Save())
	if err != nil {
		t.Fatal(err)
	}
	var saved sched.Saved
	if err := json.Unmarshal(b, &saved); err != nil {
		t.Fatal(err)
	}
	back, err := sched.Restore(saved)
	if err != nil {
		t.Fatal(err)
	}
	want, got := st.Snapshot(now), back.Snapshot(now)
	opts := cmp.Options{cmpopts.IgnoreUnexported(sched.Snapshot{}, sched.Cluster{}), cmp.AllowUnexported(sched.Job{}), cmpopts.EquateEmpty()}
	if d := cmp.Diff(want, got, opts); d != "" {
		t.Errorf("restored state differs (-want +got):\n%s", d)
	}
	if l := got.Announcements; l.Jobs != 1 || math.Abs(l.Off-math.Log(2)) > 1e-9 {
		t.Errorf("announcements %+v; want one job that was off by a factor of two", l)
	}
	a, _ := want.App("search")
	b2, ok := got.App("search")
	if !ok || !cmp.Equal(a, b2) {
		t.Errorf("app search = %+v; want %+v", b2, a)
	}
	// The next job must get the next number, or ties would break differently.
	next := sched.Event{Kind: sched.JobSubmitted, At: now, Spec: &sched.Spec{ID: "n", GPUs: 1}}
	if err := back.Apply(next); err != nil {
		t.Fatal(err)
	}
	if j, _ := back.Job("n"); j.Seq != 4 {
		t.Errorf("next job has number %d; want 4", j.Seq)
	}
}

func TestRestoreRefusesWhatCannotBe(t *testing.T) {
	cases := map[string]struct {
		spoil func(*sched.Saved)
		want  string
	}{
		"ended job":    {func(s *sched.Saved) { s.Jobs[0].Phase = sched.Failed }, "is failed"},
		"twice":        {func(s *sched.Saved) { s.Jobs = append(s.Jobs, s.Jobs[0]) }, "twice"},
		"no such node": {func(s *sched.Saved) { s.Jobs[0].Placement[0].Node = 9 }, "node 9"},
		"app missing":  {func(s *sched.Saved) { s.Apps = nil }, "not saved"},
		"app count":    {func(s *sched.Saved) { s.Apps[0].Active = 5 }, "active jobs"},
		"bad node":     {func(s *sched.Saved) { s.Nodes[0].Name = "" }, "name is empty"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st, _ := story(t)
			saved := st.Save()
			c.spoil(&saved)
			_, err := sched.Restore(saved)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Restore = %v; want an error with %q", err, c.want)
			}
		})
	}
}

func TestFrozenStaysAsItIs(t *testing.T) {
	st, now := story(t)
	frozen := st.Frozen(now)
	var before []sched.Job
	for _, j := range frozen.Jobs {
		before = append(before, *j)
	}
	for _, e := range []sched.Event{
		{Kind: sched.JobHeld, Job: "x", Until: now.Add(time.Hour)},
		{Kind: sched.JobEnded, Job: "z", Phase: sched.Cancelled},
		{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "n", GPUs: 1}},
	} {
		e.At = now
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for i, j := range frozen.Jobs {
		if d := cmp.Diff(before[i], *j, cmp.AllowUnexported(sched.Job{})); d != "" {
			t.Errorf("job %s of the frozen snapshot changed:\n%s", j.ID, d)
		}
	}
	if a, ok := frozen.App("z"); !ok || a.Active != 1 {
		t.Errorf("app z of the frozen snapshot = %+v, %v; want it active", a, ok)
	}
}

func TestHeldJobLeavesItsGPUsAndCountsNoPreemption(t *testing.T) {
	st, now := story(t)
	until := now.Add(time.Hour)
	if err := st.Apply(sched.Event{Kind: sched.JobHeld, At: now, Job: "x", Until: until}); err != nil {
		t.Fatal(err)
	}
	j, _ := st.Job("x")
	if j.Phase != sched.Pending || len(j.Placement) != 0 || j.Preemptions != 0 || j.Ready(now) || !j.Ready(until) {
		t.Errorf("held job = %+v; want pending, without GPUs, not preempted, ready from %s on", j.Status, until)
	}
}
