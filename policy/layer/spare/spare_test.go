// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package spare_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

func build(t testing.TB, spec string) sched.Policy {
	t.Helper()
	p, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSpec(t *testing.T) {
	const spec = "las@spare:most=0.1:unknown=2h"
	if got := fmt.Sprint(build(t, spec)); got != spec {
		t.Errorf("%s prints as %s", spec, got)
	}
	for _, bad := range []string{"most=-1", "most=2", "unknown=0s", "unknown=9000h"} {
		if _, err := policy.Builtin().New("fifo@spare:" + bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestLegal lets the layer decide over many policies in random worlds whose nodes fail
// often: every plan is legal, and the same snapshot gives the same plan twice.
func TestLegal(t *testing.T) {
	for _, spec := range []string{"fifo", "fifo:backfill", "fifo:greedy", "philly", "las", "drf", "gandiva", "themis", "pollux", "fairway", "fifo:greedy@reserve:gpus=1"} {
		t.Run(spec, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				w.State.Expect(sched.Outages{PerHour: 1, Repair: sched.Duration(time.Hour)})
				p := build(t, spec+"@spare:most=1")
				for range rapid.IntRange(1, 8).Draw(rt, "decisions") {
					for range rapid.IntRange(1, 3).Draw(rt, "events") {
						w.Stir(rt)
					}
					s := w.State.Snapshot(w.Now)
					plan := p.Schedule(s)
					for _, v := range sched.Check(s, plan) {
						rt.Errorf("%s", v)
					}
					if again := p.Schedule(s); !strings.Contains(spec, "@reserve") && !reflect.DeepEqual(again.Want, plan.Want) {
						rt.Errorf("the same snapshot gave another plan:\n%v\n%v", plan.Want, again.Want)
					}
					if _, _, err := w.Decide(p); err != nil {
						rt.Fatal(err)
					}
				}
			})
		})
	}
}

var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster of 12 nodes with 8 GPUs, on which a gang of 10 nodes runs.
type world struct {
	t  *testing.T
	st *sched.State
	p  sched.Policy
}

func newWorld(t *testing.T, spec string, o sched.Outages) *world {
	t.Helper()
	nodes := make([]sched.Node, 12)
	for i := range nodes {
		nodes[i] = sched.Node{Name: fmt.Sprintf("n%d", i), GPUs: 8}
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, st: sched.NewState(c), p: build(t, spec)}
	w.st.Expect(o)
	w.submit("gang", 80, 30*24*time.Hour)
	w.decide("gang starts")
	return w
}

func (w *world) apply(e sched.Event) {
	w.t.Helper()
	e.At = start
	if err := w.st.Apply(e); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) submit(id sched.JobID, gpus int, estimate time.Duration) {
	w.apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: id, GPUs: gpus, Submitted: start, Estimate: sched.Duration(estimate)}})
}

// decide carries out a decision, and compares what is started with what is expected.
func (w *world) decide(want string) {
	w.t.Helper()
	actions, _, err := sched.Decide(w.p, w.st.Snapshot(start))
	if err != nil {
		w.t.Fatal(err)
	}
	got := "nothing starts"
	for i, a := range actions {
		if a.Verb != sched.Start {
			w.t.Fatalf("%s is stopped", a.Job.ID)
		}
		if got = string(a.Job.ID) + " starts"; i > 0 {
			w.t.Fatalf("%d jobs start", len(actions))
		}
		w.apply(sched.Event{Kind: sched.JobStarted, Job: a.Job.ID, Placement: a.To})
	}
	if got != want {
		w.t.Fatalf("%s; want that %s", got, want)
	}
}

// fail takes the first node of the gang out of use.
func (w *world) fail() {
	w.t.Helper()
	j, _ := w.st.Job("gang")
	node := w.st.Cluster().Nodes[j.Placement[0].Node]
	node.State = sched.Down
	w.apply(sched.Event{Kind: sched.JobFailed, Job: "gang"})
	w.apply(sched.Event{Kind: sched.NodeJoined, Node: &node})
}

// often is a rate at which a spare pays for the gang: by the price, one node in 50 hours.
var often = sched.Outages{PerHour: 1. / 500, Repair: sched.Duration(24 * time.Hour)}

// TestAGangGoesOnOnTheSpare: others do not get it, not even while the gang waits.
func TestAGangGoesOnOnTheSpare(t *testing.T) {
	for _, spec := range []string{"fifo:backfill", "las", "fifo:greedy"} {
		w := newWorld(t, spec+"@spare:most=0.1", often)
		w.submit("small", 8, 24*time.Hour)
		w.decide("small starts") // of two free nodes, one is kept
		w.submit("later", 8, 24*time.Hour)
		w.decide("nothing starts")
		_, plan, err := sched.Decide(w.p, w.st.Snapshot(start))
		if err != nil {
			t.Fatal(err)
		}
		if text := plan.Why[2].Text(w.st.Cluster()); !strings.Contains(text, "nodes with 8 GPUs are kept free to replace others that fail") {
			t.Errorf("%s: the job that waits is told %q", spec, text)
		}
		w.fail()
		w.decide("gang starts")
		w.decide("nothing starts") // nothing is free
	}
}

// TestNothingIsKeptThatDoesNotPay: where nodes seldom fail, where nobody knows, where a
// node comes free soon, and for a job that goes on without the node.
func TestNothingIsKeptThatDoesNotPay(t *testing.T) {
	seldom := often
	seldom.PerHour /= 1000
	for name, o := range map[string]sched.Outages{"seldom": seldom, "unknown": {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "fifo:backfill@spare:most=0.1", o)
			w.submit("small", 16, 24*time.Hour)
			w.decide("small starts")
		})
	}
	t.Run("soon free", func(t *testing.T) {
		w := newWorld(t, "fifo:backfill@spare:most=0.1", often)
		w.submit("a", 8, time.Minute)
		w.decide("a starts")
		w.submit("b", 8, time.Minute)
		w.decide("b starts")
	})
}

// TestAJobThatNeedsTheSpareGetsIt: one that could never start beside it.
func TestAJobThatNeedsTheSpareGetsIt(t *testing.T) {
	w := newWorld(t, "fifo@spare:most=0.1", often)
	w.apply(sched.Event{Kind: sched.JobEnded, Job: "gang", Phase: sched.Finished})
	w.submit("all", 96, time.Hour)
	w.decide("all starts")
}
