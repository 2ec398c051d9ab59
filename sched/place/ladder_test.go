// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

func TestPatienceBudget(t *testing.T) {
	p := place.Patience{Part: 0.1, Least: time.Minute, Most: 2 * time.Hour, Unknown: time.Hour}
	for _, c := range []struct{ estimate, want time.Duration }{
		{0, 6 * time.Minute},
		{time.Minute, time.Minute},
		{10 * time.Minute, time.Minute},
		{5 * time.Hour, 30 * time.Minute},
		{10 * 24 * time.Hour, 2 * time.Hour},
	} {
		j := &sched.Job{Spec: sched.Spec{Estimate: sched.Duration(c.estimate)}}
		if got := p.Budget(j); got != c.want {
			t.Errorf("a job of %s waits %s on a rung; want %s", c.estimate, got, c.want)
		}
		if got, want := p.Ladder(j), (place.Ladder{Rack: c.want, Any: 2 * c.want}); got != want {
			t.Errorf("a job of %s has the ladder %v; want %v", c.estimate, got, want)
		}
	}
}

// TestLadderInQueue follows one gang up its ladder. Two racks of two nodes; what
// is free is given by node, and the queue has nothing else to place.
func TestLadderInQueue(t *testing.T) {
	for _, c := range []struct {
		name   string
		gang   sched.Spec
		free   [4]int
		waited time.Duration
		want   string
	}{
		{"one node", sched.Spec{GPUs: 4}, [4]int{3, 1, 4, 0}, 0, "n2[0-3]"},
		{"no node yet", sched.Spec{GPUs: 4}, [4]int{3, 1, 3, 3}, 0, "needs 4 GPUs in one node; node n0 has 3 free until about 00:12, wake 12m"},
		{"longer for a long job", sched.Spec{GPUs: 4, Estimate: hours(10)}, [4]int{3, 1, 3, 3}, 30 * time.Minute,
			"needs 4 GPUs in one node; node n0 has 3 free until about 01:00, wake 1h"},
		{"one rack", sched.Spec{GPUs: 4}, [4]int{3, 1, 0, 3}, 12 * time.Minute, "n0[0-2] n1[0]"},
		{"no rack yet", sched.Spec{GPUs: 4}, [4]int{3, 0, 0, 3}, 13 * time.Minute,
			"needs 4 GPUs in one rack; rack r0 has 3 free until about 00:24, wake 24m"},
		{"anywhere", sched.Spec{GPUs: 4}, [4]int{3, 0, 0, 3}, 24 * time.Minute, "n0[0-2] n3[0]"},
		{"two nodes", sched.Spec{GPUs: 6}, [4]int{4, 1, 2, 1}, 0,
			"needs 6 GPUs in one rack; rack r0 has 5 free until about 00:12, wake 12m"},
		{"never wider than it accepts", sched.Spec{GPUs: 4, MaxSpread: sched.SameMachine}, [4]int{3, 1, 3, 3}, time.Hour,
			"needs 4 GPUs in one node; node n0 has 3 free"},
		{"rack at the widest", sched.Spec{GPUs: 4, MaxSpread: sched.SameRack}, [4]int{3, 0, 0, 3}, time.Minute,
			"needs 4 GPUs in one node; node n0 has 3 free until about 00:12, wake 12m"},
		{"rack for ever", sched.Spec{GPUs: 4, MaxSpread: sched.SameRack}, [4]int{3, 0, 0, 3}, time.Hour,
			"needs 4 GPUs in one rack; rack r0 has 3 free"},
		{"more than a rack holds", sched.Spec{GPUs: 12}, [4]int{4, 3, 3, 3}, time.Minute,
			"needs 12 GPUs in the cluster; the best place has 10 free until about 00:24, wake 24m"},
		{"more than a rack holds, later", sched.Spec{GPUs: 12}, [4]int{4, 3, 3, 3}, 24 * time.Minute, "n0[0-3] n1[0-2] n2[0-2] n3[0-1]"},
		{"too few in all", sched.Spec{GPUs: 4}, [4]int{1, 0, 1, 1}, 0, "needs 4 GPUs; 3 are free in the cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := crowded(t, c.free)
			c.gang.ID = "gang"
			if err := w.Submit(c.gang, 0); err != nil {
				t.Fatal(err)
			}
			w.Now = w.Now.Add(c.waited)
			s := w.State.Snapshot(w.Now)
			queue, err := place.Queue{}.Placing(place.OnLadder)
			if err != nil {
				t.Fatal(err)
			}
			plan := queue.Plan(s, place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }), place.NewFree(s.Cluster))
			if v := sched.Check(s, plan); len(v) > 0 {
				t.Fatalf("%v", v)
			}
			last := len(s.Jobs) - 1
			got := plan.Want[last].Text(s.Cluster)
			if len(plan.Want[last]) == 0 {
				got = plan.Why[last].Text(s.Cluster)
			}
			if !plan.Wake.IsZero() {
				got += ", wake " + sched.Duration(plan.Wake.Sub(policytest.Start)).String()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func hours(n int) sched.Duration { return sched.Duration(time.Duration(n) * time.Hour) }

// crowded returns four nodes of four GPUs in two racks with jobs on all but the
// given number of GPUs of each.
func crowded(t *testing.T, free [4]int) *policytest.World {
	t.Helper()
	var nodes []sched.Node
	for i := range free {
		nodes = append(nodes, sched.Node{Name: fmt.Sprint("n", i), GPUs: 4, Rack: fmt.Sprint("r", i/2)})
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range free {
		if n == 4 {
			continue
		}
		spec := sched.Spec{ID: sched.JobID(fmt.Sprint("on", i)), GPUs: 4 - n}
		held := sched.FirstGPUs(4) &^ sched.FirstGPUs(n)
		if err := w.Submit(spec, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.Apply(sched.Event{Kind: sched.JobStarted, Job: spec.ID, Placement: sched.Placement{{Node: int32(i), Milli: sched.WholeGPU, GPUs: held}}}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}
