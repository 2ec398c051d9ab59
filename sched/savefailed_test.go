// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// TestPinnedWhileSavesFail: a protected job that saves may be stopped, but not once a save
// has failed and until one works.
func TestPinnedWhileSavesFail(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 2}})
	if err != nil {
		t.Fatal(err)
	}
	st, now := sched.NewState(c), time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	apply := func(e sched.Event) {
		t.Helper()
		now = now.Add(time.Second)
		e.At, e.Job = now, "x"
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "x", GPUs: 1, Protected: true}})
	on := sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: 1}}
	apply(sched.Event{Kind: sched.JobStarted, Placement: on})
	for _, step := range []struct {
		name   string
		event  sched.Event
		pinned bool
	}{
		{"it shows that it saves", sched.Event{Can: sched.Saves}, false},
		{"a save fails", sched.Event{SaveFailed: true}, true},
		{"another one", sched.Event{SaveFailed: true, Can: sched.Saves}, true},
		{"it says nothing of it", sched.Event{}, true},
		{"it is stopped", sched.Event{Kind: sched.JobHeld}, true},
		{"and started again", sched.Event{Kind: sched.JobStarted, Placement: on}, true},
		{"it finds an old checkpoint", sched.Event{Kind: sched.JobCheckpoint, SaveFailed: true}, true},
		{"it trains", sched.Event{}, true},
		{"it saves again", sched.Event{Kind: sched.JobCheckpoint}, false},
	} {
		if step.event.Kind == 0 {
			step.event.Kind = sched.JobReported
		}
		apply(step.event)
		if j, _ := st.Job("x"); j.Pinned() != step.pinned {
			t.Errorf("%s: pinned %t; want %t", step.name, j.Pinned(), step.pinned)
		}
	}
}
