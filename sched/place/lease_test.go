// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

const lease = 10 * time.Minute

// leased is the simplest policy with leases: the larger priority goes first.
type leased struct{}

func (leased) Schedule(s *sched.Snapshot) sched.Plan {
	order := place.OrderBy(s, func(j *sched.Job) (a, b float64) { return -float64(j.Priority), 0 })
	l := place.NewLease(s, lease)
	plan := place.Queue{Preempt: true, Keep: l.Holds}.Plan(s, order, place.NewFree(s.Cluster))
	l.Mark(s, order, &plan)
	return plan
}

func decide(t *testing.T, w *policytest.World, at time.Duration, want string) sched.Plan {
	t.Helper()
	w.Now = policytest.Start.Add(at)
	s := w.State.Snapshot(w.Now)
	_, plan, err := w.Decide(leased{})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(s, plan); got != want {
		t.Errorf("at %s:\n got %s\nwant %s", at, got, want)
	}
	return plan
}

// TestLease: a job is safe for a lease after each start, and no longer.
func TestLease(t *testing.T) {
	w, _ := snapshot(t, gpus(8))
	decide(t, w, 0, "a:n0[0-3] n1[0-3]")
	if err := w.Submit(sched.Spec{ID: "b", GPUs: 8, Priority: 1}, 0); err != nil {
		t.Fatal(err)
	}
	plan := decide(t, w, lease-1, "a:n0[0-3] n1[0-3] b:behind")
	if want := policytest.Start.Add(2 * lease); !plan.Wake.Equal(want) {
		t.Errorf("wake at %s; want %s, when the patience of b ends", plan.Wake, want)
	}
	decide(t, w, lease, "a:behind b:n0[0-3] n1[0-3]")
	if j, _ := w.State.Job("b"); j.Note != (sched.Note{}) {
		t.Errorf("b runs and has the note %+v", j.Note)
	}
}

// TestLeaseBreaks: the first of the waiting jobs breaks all leases after having
// stood there for the length of one; the clock starts anew if that did not help.
func TestLeaseBreaks(t *testing.T) {
	w, _ := snapshot(t, gpus(4))
	submit := func(spec sched.Spec) {
		t.Helper()
		if err := w.Submit(spec, 0); err != nil {
			t.Fatal(err)
		}
	}
	decide(t, w, 0, "a:n0[0-3]")
	submit(sched.Spec{ID: "gang", GPUs: 8, Priority: 1})
	decide(t, w, 6*time.Minute, "a:n0[0-3] gang:behind")
	submit(sched.Spec{ID: "b", GPUs: 4})
	decide(t, w, 8*time.Minute, "a:n0[0-3] gang:behind b:n1[0-3]")
	// At 12m a has no lease any more, but goes on: stopping it helps nobody.
	decide(t, w, 12*time.Minute, "a:n0[0-3] gang:behind b:n1[0-3]")
	// At 16m b has one for two more minutes.
	decide(t, w, 16*time.Minute, "a:behind gang:n0[0-3] n1[0-3] b:behind")

	// Now for one that breaking leases does not help.
	w, _ = snapshot(t, job{Spec: sched.Spec{GPUs: 4, NonPreemptible: true}}.on(0, 0b1111), gpus(2).on(1, 0b11))
	submit(sched.Spec{ID: "gang", GPUs: 8, Priority: 1})
	decide(t, w, 0, "a:n0[0-3] b:n1[0-1] gang:behind")
	decide(t, w, lease, "a:n0[0-3] b:n1[0-1] gang:behind")
	if j, _ := w.State.Job("gang"); !j.Note.Since.Equal(policytest.Start.Add(lease)) {
		t.Errorf("the gang waits first since %s; want the clock to start anew at %s", j.Note.Since, lease)
	}
}

// TestLeaseWake: wake-ups come at whole tenths of a lease, never in the past.
func TestLeaseWake(t *testing.T) {
	w, _ := snapshot(t)
	s := w.State.Snapshot(policytest.Start.Add(30 * time.Second))
	l := place.NewLease(s, lease)
	for _, c := range []struct{ at, want time.Duration }{
		{5 * time.Minute, 5 * time.Minute},
		{5*time.Minute + 1, 6 * time.Minute},
		{0, time.Minute},
		{30 * time.Second, time.Minute},
	} {
		var plan sched.Plan
		l.Wake(&plan, policytest.Start.Add(c.at))
		if want := policytest.Start.Add(c.want); !plan.Wake.Equal(want) {
			t.Errorf("Wake(%s) at %s; want %s", c.at, plan.Wake.Sub(policytest.Start), c.want)
		}
	}
}
