// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
)

var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster with jobs that run where a test says.
type world struct {
	t     *testing.T
	state *sched.State
	now   time.Time
}

func newWorld(t *testing.T, nodes ...sched.Node) *world {
	t.Helper()
	if len(nodes) == 0 {
		nodes = []sched.Node{{Name: "n0", GPUs: 8}}
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, state: sched.NewState(c), now: start}
}

func (w *world) apply(e sched.Event) {
	w.t.Helper()
	e.At = w.now
	if err := w.state.Apply(e); err != nil {
		w.t.Fatal(err)
	}
}

func on(gpus ...int) sched.Placement {
	var set sched.GPUSet
	for _, g := range gpus {
		set |= 1 << g
	}
	return sched.Placement{{Node: 0, Milli: sched.WholeGPU, GPUs: set}}
}

// job submits a job; with GPUs it also starts there.
func (w *world) job(spec sched.Spec, at sched.Placement) {
	w.t.Helper()
	spec.Submitted = w.now
	w.apply(sched.Event{Kind: sched.JobSubmitted, Spec: &spec})
	if len(at) > 0 {
		w.apply(sched.Event{Kind: sched.JobStarted, Job: spec.ID, Placement: at})
	}
}

// preempted stops and starts a running job n times.
func (w *world) preempted(id sched.JobID, n int) {
	w.t.Helper()
	j, _ := w.state.Job(id)
	at := j.Placement
	for range n {
		w.apply(sched.Event{Kind: sched.JobStopped, Job: id})
		w.apply(sched.Event{Kind: sched.JobStarted, Job: id, Placement: at})
	}
}

// wants is a policy that wants a fixed plan: jobs not in it wait, or stay where
// they run if it says so.
type wants map[sched.JobID]sched.Placement

func (p wants) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		if at, ok := p[j.ID]; ok {
			plan.Want[i] = at
		} else {
			plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs}
		}
	}
	return plan
}

func newGuard(t *testing.T, c guard.Config) *guard.Guard {
	t.Helper()
	g, err := guard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// decide returns where every job of the plan runs, and the rules that vetoed.
func (w *world) decide(g *guard.Guard, p sched.Policy) (map[string]string, []string) {
	w.t.Helper()
	s := w.state.Snapshot(w.now)
	_, plan, err := sched.Decide(g.Over(p), s)
	if err != nil {
		w.t.Fatal(err)
	}
	g.Carried(s, plan)
	at := map[string]string{}
	for i, j := range s.Jobs {
		if len(plan.Want[i]) > 0 {
			at[string(j.ID)] = plan.Want[i].Text(s.Cluster)
		}
	}
	var rules []string
	for _, v := range g.Vetoes() {
		rules = append(rules, fmt.Sprintf("%s %s", v.Rule, v.Job))
		if v.Text == "" {
			w.t.Errorf("veto of %s has no text", v.Job)
		}
	}
	return at, rules
}

func one(id, tenant string) sched.Spec {
	return sched.Spec{ID: sched.JobID(id), Tenant: sched.TenantID(tenant), GPUs: 1}
}

func sized(id string, gpus int) sched.Spec { return sched.Spec{ID: sched.JobID(id), GPUs: gpus} }

func TestValidate(t *testing.T) {
	tests := []struct {
		config guard.Config
		want   string // part of the error; empty: valid
	}{
		{guard.Config{}, ""},
		{guard.Default(), ""},
		{guard.Config{Margin: 1}, ""},
		{guard.Config{Bound: -1}, "bound"},
		{guard.Config{Window: -1}, "window"},
		{guard.Config{Settle: -1}, "settle"},
		{guard.Config{Margin: 0.5}, "margin"},
		{guard.Config{Margin: -1}, "margin"},
		{guard.Config{Margin: math.NaN()}, "margin"},
	}
	for _, test := range tests {
		_, err := guard.New(test.config)
		if got := fmt.Sprint(err); (err != nil) != (test.want != "") || !strings.Contains(got, test.want) {
			t.Errorf("New(%+v) = %v; want an error with %q", test.config, err, test.want)
		}
	}
}

// TestSettle: a job with an agent is not moved or resized before it trains where it is.
func TestSettle(t *testing.T) {
	reports := func(rate float64) sched.Event {
		return sched.Event{Kind: sched.JobReported, Can: sched.Resizes, Rate: rate}
	}
	tests := []struct {
		name   string
		events []sched.Event
		later  time.Duration
		plan   wants
		want   map[string]string
		rules  []string
	}{
		{"moved", []sched.Event{reports(0)}, time.Minute, wants{"a": on(1)}, map[string]string{"a": "n0[0]"}, []string{"settle a"}},
		{"who was to follow it waits", []sched.Event{reports(0)}, time.Minute, wants{"a": on(1), "b": on(0)}, map[string]string{"a": "n0[0]"}, []string{"settle a"}},
		{"resized", []sched.Event{reports(0)}, time.Minute, wants{"a": on(0, 1)}, map[string]string{"a": "n0[0]"}, []string{"settle a"}},
		{"trains", []sched.Event{reports(5)}, time.Minute, wants{"a": on(1)}, map[string]string{"a": "n0[1]"}, nil},
		{"started again", []sched.Event{reports(5), {Kind: sched.JobStopped}, {Kind: sched.JobStarted, Placement: on(0)}}, time.Minute, wants{"a": on(1)}, map[string]string{"a": "n0[0]"}, []string{"settle a"}},
		{"preempted", []sched.Event{reports(0)}, time.Minute, wants{}, map[string]string{}, nil},
		{"no agent", nil, time.Minute, wants{"a": on(1)}, map[string]string{"a": "n0[1]"}, nil},
		{"for too long", []sched.Event{reports(0)}, time.Hour, wants{"a": on(1)}, map[string]string{"a": "n0[1]"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			a := one("a", "")
			a.MinGPUs, a.MaxGPUs = 1, 2
			w.job(a, on(0))
			for _, e := range test.events {
				e.Job = "a"
				w.apply(e)
			}
			w.job(one("b", ""), nil)
			w.now = w.now.Add(test.later)
			at, rules := w.decide(newGuard(t, guard.Default()), test.plan)
			if diff := cmp.Diff(test.want, at); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := cmp.Diff(test.rules, rules); diff != "" {
				t.Errorf("rules: -want +got\n%s", diff)
			}
		})
	}
}

func TestBound(t *testing.T) {
	tests := []struct {
		name  string
		bound int
		setup func(*world)
		plan  wants
		want  map[string]string
		rules []string
	}{
		{"below", 3, func(w *world) { w.job(one("a", ""), on(0)); w.preempted("a", 2); w.job(one("b", ""), nil) },
			wants{"b": on(0)}, map[string]string{"b": "n0[0]"}, nil},
		{"reached", 2, func(w *world) { w.job(one("a", ""), on(0)); w.preempted("a", 2); w.job(one("b", ""), nil) },
			wants{"b": on(0)}, map[string]string{"a": "n0[0]"}, []string{"bound a"}},
		{"off", 0, func(w *world) { w.job(one("a", ""), on(0)); w.preempted("a", 9); w.job(one("b", ""), nil) },
			wants{"b": on(0)}, map[string]string{"b": "n0[0]"}, nil},
		{"a move is no preemption", 1, func(w *world) { w.job(one("a", ""), on(0)); w.preempted("a", 2) },
			wants{"a": on(1)}, map[string]string{"a": "n0[1]"}, nil},
		{"others still start", 1, func(w *world) {
			w.job(one("a", ""), on(0))
			w.preempted("a", 1)
			w.job(one("b", ""), nil)
			w.job(one("c", ""), nil)
		}, wants{"b": on(0), "c": on(1)}, map[string]string{"a": "n0[0]", "c": "n0[1]"}, []string{"bound a"}},
		{"a running job that was to move there stays, and who was to follow it waits", 1, func(w *world) {
			w.job(one("a", ""), on(0))
			w.preempted("a", 1)
			w.job(one("b", ""), on(1))
			w.job(one("c", ""), nil)
		}, wants{"b": on(0), "c": on(1)}, map[string]string{"a": "n0[0]", "b": "n0[1]"}, []string{"bound a"}},
		{"a victim whose taker waits now is not stopped for nobody", 1, func(w *world) {
			w.job(one("a", ""), on(0))
			w.preempted("a", 1)
			w.job(one("b", ""), on(1))
			w.job(sized("c", 2), nil)
		}, wants{"c": on(0, 1)}, map[string]string{"a": "n0[0]", "b": "n0[1]"}, []string{"bound a"}},
		{"its tenant's limit makes another wait", 1, func(w *world) {
			w.apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "t", Max: 1}})
			w.job(one("a", "t"), on(0))
			w.preempted("a", 1)
			w.job(one("b", "t"), nil)
		}, wants{"b": on(5)}, map[string]string{"a": "n0[0]"}, []string{"bound a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.setup(w)
			got, rules := w.decide(newGuard(t, guard.Config{Bound: test.bound}), test.plan)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.rules, rules); diff != "" {
				t.Errorf("vetoes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBoundCPUs: the kept job needs CPUs of its node that a new job elsewhere on
// the node was to get.
func TestBoundCPUs(t *testing.T) {
	w := newWorld(t, sched.Node{Name: "n0", GPUs: 4, CPUs: 4})
	a, b := one("a", ""), one("b", "")
	a.CPUs, b.CPUs = 3, 3
	w.job(b, nil) // before a, so that the judge finds a over the capacity
	w.job(a, on(0))
	w.preempted("a", 1)
	got, rules := w.decide(newGuard(t, guard.Config{Bound: 1}), wants{"b": on(1)})
	if diff := cmp.Diff(map[string]string{"a": "n0[0]"}, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bound a"}, rules); diff != "" {
		t.Errorf("vetoes (-want +got):\n%s", diff)
	}
}

// TestBoundWhatCan: a job on a node that is down cannot be kept; one on another
// node still is.
func TestBoundWhatCan(t *testing.T) {
	w := newWorld(t, sched.Node{Name: "n0", GPUs: 1}, sched.Node{Name: "n1", GPUs: 1})
	w.job(one("a", ""), on(0))
	w.job(one("b", ""), sched.Placement{{Node: 1, Milli: sched.WholeGPU, GPUs: 1}})
	w.preempted("a", 1)
	w.preempted("b", 1)
	w.apply(sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{Name: "n0", GPUs: 1, State: sched.Down}})
	got, rules := w.decide(newGuard(t, guard.Config{Bound: 1}), wants{})
	if diff := cmp.Diff(map[string]string{"b": "n1[0]"}, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bound b"}, rules); diff != "" {
		t.Errorf("vetoes (-want +got):\n%s", diff)
	}
}

func TestCycle(t *testing.T) {
	window := sched.Duration(time.Minute)
	// carry lets the world follow a plan.
	carry := func(w *world, stop, begin sched.JobID, at sched.Placement) {
		w.apply(sched.Event{Kind: sched.JobStopped, Job: stop})
		w.apply(sched.Event{Kind: sched.JobStarted, Job: begin, Placement: at})
	}
	tests := []struct {
		name  string
		after time.Duration
		third bool // through a third job
		same  bool // the guard is new in between: it has forgotten
		want  string
	}{
		{name: "direct", after: time.Second, want: "cycle"},
		{name: "at the end of the window", after: time.Minute, want: "cycle"},
		{name: "window over", after: time.Minute + time.Nanosecond},
		{name: "through a third job", after: time.Second, third: true, want: "cycle"},
		{name: "through a third job, window over", after: 2 * time.Minute, third: true},
		{name: "forgotten", after: time.Second, same: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, sched.Node{Name: "n0", GPUs: 1})
			g := newGuard(t, guard.Config{Window: window})
			w.job(one("a", ""), on(0))
			w.job(one("b", ""), nil)
			w.job(one("c", ""), nil)
			holder := sched.JobID("b")
			if got, rules := w.decide(g, wants{"b": on(0)}); got["b"] == "" || rules != nil {
				t.Fatalf("the first preemption: plan %v, vetoes %v; want b to run", got, rules)
			}
			carry(w, "a", "b", on(0))
			if test.third {
				if got, rules := w.decide(g, wants{"c": on(0)}); got["c"] == "" || rules != nil {
					t.Fatalf("the second preemption: plan %v, vetoes %v; want c to run", got, rules)
				}
				carry(w, "b", "c", on(0))
				holder = "c"
			}
			if test.same {
				g = newGuard(t, guard.Config{Window: window})
			}
			w.now = w.now.Add(test.after)
			got, rules := w.decide(g, wants{"a": on(0)})
			want, wantRules := map[string]string{"a": "n0[0]"}, []string(nil)
			if test.want != "" {
				want, wantRules = map[string]string{string(holder): "n0[0]"}, []string{test.want + " " + string(holder)}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantRules, rules); diff != "" {
				t.Errorf("vetoes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCycleOtherDirection: b got nothing of a, so it may lose its GPU to a.
func TestCycleOtherDirection(t *testing.T) {
	w := newWorld(t, sched.Node{Name: "n0", GPUs: 2})
	g := newGuard(t, guard.Config{Window: sched.Duration(time.Minute)})
	w.job(one("a", ""), on(0))
	w.job(one("b", ""), on(1))
	w.job(one("c", ""), nil)
	w.decide(g, wants{"c": on(0), "b": on(1)})
	w.apply(sched.Event{Kind: sched.JobStopped, Job: "a"})
	w.apply(sched.Event{Kind: sched.JobStarted, Job: "c", Placement: on(0)})
	got, rules := w.decide(g, wants{"c": on(0), "a": on(1)})
	if got["a"] != "n0[1]" || rules != nil {
		t.Errorf("plan %v, vetoes %v; want a on n0[1] and none", got, rules)
	}
}

func TestCheaperVictim(t *testing.T) {
	// v is dear: it runs for an hour. k is cheap: it has a checkpoint.
	tests := []struct {
		name    string
		v, k    sched.Spec
		atV     sched.Placement
		atK     sched.Placement
		taker   sched.Spec
		plan    func(wants) wants
		bound   int
		saved   time.Duration     // age of the checkpoint of k
		exist   map[string]string // nil: no exchange
		nodes   []sched.Node
		kPreems int
	}{
		{name: "alike", v: one("v", "t"), k: one("k", "t"), atV: on(0), atK: on(1), taker: one("n", "t"), saved: time.Minute,
			exist: map[string]string{"v": "n0[0]", "n": "n0[1]"}},
		{name: "not cheap enough", v: one("v", "t"), k: one("k", "t"), atV: on(0), atK: on(1), taker: one("n", "t"), saved: 31 * time.Minute},
		{name: "just cheap enough", v: one("v", "t"), k: one("k", "t"), atV: on(0), atK: on(1), taker: one("n", "t"), saved: 30 * time.Minute,
			exist: map[string]string{"v": "n0[0]", "n": "n0[1]"}},
		{name: "another tenant", v: one("v", "t"), k: one("k", "u"), atV: on(0), atK: on(1), taker: one("n", "t"), saved: time.Minute},
		{name: "another priority", v: one("v", "t"), k: sched.Spec{ID: "k", Tenant: "t", GPUs: 1, Priority: 1}, atV: on(0), atK: on(1), taker: one("n", "t"), saved: time.Minute},
		{name: "another size", v: one("v", "t"), k: sched.Spec{ID: "k", Tenant: "t", GPUs: 2}, atV: on(0), atK: on(1, 2), taker: one("n", "t"), saved: time.Minute},
		{name: "not preemptible", v: one("v", "t"), k: sched.Spec{ID: "k", Tenant: "t", GPUs: 1, NonPreemptible: true}, atV: on(0), atK: on(1), taker: one("n", "t"), saved: time.Minute},
		{name: "another node", v: one("v", "t"), k: one("k", "t"), atV: on(0), atK: sched.Placement{{Node: 1, Milli: 1000, GPUs: 1}}, taker: one("n", "t"), saved: time.Minute,
			nodes: []sched.Node{{Name: "n0", GPUs: 4}, {Name: "n1", GPUs: 4}}},
		{name: "at the bound", v: one("v", "t"), k: one("k", "t"), atV: on(0), atK: on(1), taker: one("n", "t"), saved: time.Minute, bound: 1, kPreems: 1},
		{name: "several GPUs, partial overlap", v: sized("v", 3), k: sized("k", 3), atV: on(0, 2, 4), atK: on(1, 3, 5), taker: sized("n", 3), saved: time.Minute,
			plan:  func(p wants) wants { p["n"] = on(2, 4, 7); return p },
			exist: map[string]string{"v": "n0[0,2,4]", "n": "n0[3,5,7]"}},
		{name: "the exchange would leave the island", v: one("v", ""), k: one("k", ""), atV: on(0), atK: on(2), saved: time.Minute,
			nodes: []sched.Node{{Name: "n0", GPUs: 4, Islands: []sched.GPUSet{0b0011, 0b1100}}},
			taker: sched.Spec{ID: "n", GPUs: 2, MaxSpread: sched.SameSlot},
			plan:  func(p wants) wants { p["n"] = on(0, 1); return p }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.nodes...)
			w.job(test.v, test.atV)
			w.job(test.k, test.atK)
			w.preempted("k", test.kPreems)
			w.job(test.taker, nil)
			w.now = w.now.Add(time.Hour - test.saved)
			w.apply(sched.Event{Kind: sched.JobCheckpoint, Job: "k"})
			w.now = w.now.Add(test.saved)
			plan := wants{"k": test.atK, "n": test.atV}
			if test.plan != nil {
				plan = test.plan(plan)
			}
			want, wantRules := test.exist, []string{"cheaper-victim v"}
			if want == nil {
				s := w.state.Snapshot(w.now)
				want, wantRules = map[string]string{"k": test.atK.Text(s.Cluster), "n": plan["n"].Text(s.Cluster)}, nil
			}
			got, rules := w.decide(newGuard(t, guard.Config{Margin: 2, Bound: test.bound}), plan)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantRules, rules); diff != "" {
				t.Errorf("vetoes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIllegalExchangeKeepsTheBound: an exchange that breaks a rule must not take
// the veto of another rule down with it.
func TestIllegalExchangeKeepsTheBound(t *testing.T) {
	w := newWorld(t, sched.Node{Name: "n0", GPUs: 6, Islands: []sched.GPUSet{0b000011, 0b001100, 0b110000}})
	w.job(one("b", "other"), on(4)) // too different to be exchanged
	w.preempted("b", 1)
	w.job(sized("v", 1), on(0))
	w.job(sized("k", 1), on(2))
	w.job(sched.Spec{ID: "n", GPUs: 2, MaxSpread: sched.SameSlot}, nil)
	w.now = w.now.Add(time.Hour)
	w.apply(sched.Event{Kind: sched.JobCheckpoint, Job: "k"})
	got, rules := w.decide(newGuard(t, guard.Config{Margin: 2, Bound: 1}), wants{"k": on(2), "n": on(0, 1)})
	if diff := cmp.Diff(map[string]string{"b": "n0[4]", "k": "n0[2]", "n": "n0[0-1]"}, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bound b"}, rules); diff != "" {
		t.Errorf("vetoes (-want +got):\n%s", diff)
	}
}

// TestSmallDifferences: less than a minute of one GPU is not worth an exchange.
func TestSmallDifferences(t *testing.T) {
	for _, test := range []struct {
		age  time.Duration
		want string
	}{{59 * time.Second, ""}, {60 * time.Second, "cheaper-victim v"}} {
		w := newWorld(t)
		w.job(one("v", ""), on(0))
		w.job(one("k", ""), on(1))
		w.job(one("n", ""), nil)
		w.now = w.now.Add(test.age)
		w.apply(sched.Event{Kind: sched.JobCheckpoint, Job: "k"})
		_, rules := w.decide(newGuard(t, guard.Config{Margin: 2}), wants{"k": on(1), "n": on(0)})
		if got := strings.Join(rules, ","); got != test.want {
			t.Errorf("after %s: vetoes %q; want %q", test.age, got, test.want)
		}
	}
}

// TestBugOfPolicy: a plan that breaks a rule is passed on, so that Decide names it.
func TestBugOfPolicy(t *testing.T) {
	w := newWorld(t)
	w.job(one("a", ""), on(0))
	w.preempted("a", 1)
	w.job(one("b", ""), nil)
	w.job(one("c", ""), nil)
	g := newGuard(t, guard.Config{Bound: 1})
	_, _, err := sched.Decide(g.Over(wants{"b": on(0), "c": on(0)}), w.state.Snapshot(w.now))
	if err == nil || !strings.Contains(err.Error(), "guard_test.wants") || !strings.Contains(err.Error(), "capacity") {
		t.Errorf("Decide = %v; want an error that names the policy and the rule", err)
	}
	if v := g.Vetoes(); len(v) != 0 {
		t.Errorf("vetoes %v; want none", v)
	}
}
