// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// wanted is a policy with a plan; jobs that are not in it wait.
type wanted map[sched.JobID]sched.Placement

func (f wanted) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		if plan.Want[i] = f[j.ID]; len(plan.Want[i]) == 0 {
			plan.Why[i] = sched.Reason{Code: sched.Full, Need: 1}
		}
	}
	return plan
}

func gpu(n int) sched.Placement {
	return sched.Placement{{Milli: sched.WholeGPU, GPUs: 1 << n}}
}

// TestTie: a plan that would move a job off the GPUs with its state keeps it there, or
// lets it wait.
func TestTie(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 3, Memory: 100, Suspend: true}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := sched.NewState(c)
	apply := func(e sched.Event) {
		t.Helper()
		e.At = now
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []sched.JobID{"away", "runs", "other"} {
		apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: id, GPUs: 1, Protected: id != "other", Memory: 20, GPUMemory: 30}})
	}
	apply(sched.Event{Kind: sched.JobStarted, Job: "away", Placement: gpu(0)})
	apply(sched.Event{Kind: sched.JobStopped, Job: "away", Suspend: true})
	apply(sched.Event{Kind: sched.JobStarted, Job: "runs", Placement: gpu(1)})
	if n := st.Cluster().Nodes[0]; n.SuspendedMemory != 50 {
		t.Errorf("suspended jobs hold %d of the node; want the 20 that the job asks for and 30 of its GPU", n.SuspendedMemory)
	}
	for name, c := range map[string]struct {
		plan wanted
		want string
	}{
		"both stay":                          {wanted{"away": gpu(0), "runs": gpu(1)}, "[start away on n[0]]"},
		"moved for nothing":                  {wanted{"away": gpu(2), "runs": gpu(0)}, "[start away on n[0]]"},
		"the GPU of the suspended is taken":  {wanted{"away": gpu(2), "runs": gpu(1), "other": gpu(0)}, "[start other on n[0]]"},
		"the GPU of the running is taken":    {wanted{"runs": gpu(2), "other": gpu(1)}, "[stop runs on n[1]: suspended: what it had on its GPUs is in the memory of node n, and it waits for these GPUs start other on n[1]]"},
		"another is placed where both fit":   {wanted{"away": gpu(0), "runs": gpu(1), "other": gpu(2)}, "[start away on n[0] start other on n[2]]"},
		"the running is suspended by itself": {wanted{"away": gpu(0)}, "[stop runs on n[1]: needs 1 GPU; 0 are free in the cluster start away on n[0]]"},
	} {
		t.Run(name, func(t *testing.T) {
			actions, _, err := sched.Decide(c.plan, st.Frozen(now))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range actions {
				got = append(got, a.Text(st.Cluster()))
				if a.Verb == sched.Stop && !a.Suspend {
					t.Errorf("%s: it is not suspended", a.Text(st.Cluster()))
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v; want %s", got, c.want)
			}
		})
	}
	if err := st.Apply(sched.Event{Kind: sched.JobStarted, At: now, Job: "away", Placement: gpu(2), InPlace: true}); err == nil {
		t.Error("a suspended attempt went on on another GPU")
	}
}

// TestSuspendedMemoryInPlans: no plan gives away memory that suspended jobs hold, and one
// that goes on gives its own back.
func TestSuspendedMemoryInPlans(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 2, Memory: 100, Suspend: true}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := sched.NewState(c)
	for _, e := range []sched.Event{
		{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "away", GPUs: 1, Protected: true, Memory: 40}},
		{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "large", GPUs: 1, Memory: 50}},
		{Kind: sched.JobStarted, Job: "away", Placement: gpu(0)},
		{Kind: sched.JobStopped, Job: "away", Suspend: true},
		{Kind: sched.JobSuspension, Job: "away", Suspension: &sched.Suspension{Memory: 30}},
	} {
		e.At = now
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := sched.Decide(wanted{"large": gpu(1)}, st.Frozen(now)); err == nil {
		t.Error("a job got 50 of the 30 that are left")
	}
	if _, _, err := sched.Decide(wanted{"away": gpu(0), "large": gpu(1)}, st.Frozen(now)); err != nil {
		t.Errorf("once the suspended job goes on, both fit: %v", err)
	}
	j, _ := st.Job("away")
	if out, back := j.SuspendCost(); out <= back || back <= 0 {
		t.Errorf("it costs %s and %s; want more to leave than to come back", out, back)
	}
}

// TestSuspendSeats: where the seats of a GPU are counted, a job is suspended only if
// whoever follows finds one.
func TestSuspendSeats(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{{Name: "n", GPUs: 1, Suspend: true, Seats: 3}})
	if err != nil {
		t.Fatal(err)
	}
	st := sched.NewState(c)
	for i, want := range []bool{true, true, false} { // the third would leave none
		id := sched.JobID(fmt.Sprint(i))
		for _, e := range []sched.Event{
			{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: id, GPUs: 1, Protected: true}},
			{Kind: sched.JobStarted, Job: id, Placement: gpu(0)},
		} {
			if err := st.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		j, _ := st.Job(id)
		if j.Suspends != want {
			t.Errorf("with %d suspended, the job that runs can be suspended: %v; want %v", i, j.Suspends, want)
		}
		if err := st.Apply(sched.Event{Kind: sched.JobStopped, Job: id, Suspend: true}); err != nil {
			t.Fatal(err)
		}
	}
}
