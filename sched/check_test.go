// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
)

var start = time.Date(2026, time.March, 1, 8, 0, 0, 0, time.UTC)

// testNodes are five nodes: two alike in one rack, one of another type and
// rack with limits, one that is cordoned, one of which others hold a half.
func testNodes() []sched.Node {
	return []sched.Node{
		{Name: "a", GPUs: 4, Type: "t4", Rack: "r0", Islands: []sched.GPUSet{0b0011, 0b1100}},
		{Name: "b", GPUs: 4, Type: "t4", Rack: "r0"},
		{Name: "c", GPUs: 8, Type: "h200", Rack: "r1", CPUs: 16, Memory: 100, GPUMemory: 80},
		{Name: "d", GPUs: 4, Type: "t4", Rack: "r1", State: sched.Cordoned},
		{Name: "e", GPUs: 4, Type: "t4", Rack: "r1", Others: 0b0011, Seats: 2},
	}
}

// world is a state with a few jobs: fill submits them and may start some.
func world(t *testing.T, fill func(apply func(sched.Event))) *sched.State {
	t.Helper()
	c, err := sched.NewCluster(testNodes())
	if err != nil {
		t.Fatal(err)
	}
	st := sched.NewState(c)
	fill(func(e sched.Event) {
		t.Helper()
		if e.At.IsZero() {
			e.At = start
		}
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	})
	return st
}

func submit(spec sched.Spec) sched.Event {
	return sched.Event{Kind: sched.JobSubmitted, Spec: &spec}
}

func on(node int32, gpus sched.GPUSet) sched.Slice {
	return sched.Slice{Node: node, Milli: sched.WholeGPU, GPUs: gpus}
}

func part(node int32, gpus sched.GPUSet, milli int32) sched.Slice {
	return sched.Slice{Node: node, Milli: milli, GPUs: gpus}
}

type placement = sched.Placement

// TestCheck has for every rule of the house a plan that keeps it and plans that
// break it. The last job is the one at fault; "-" stands for no rule.
func TestCheck(t *testing.T) {
	type jobs []sched.Spec
	type wants []placement
	waits := sched.Reason{Code: sched.Full}
	for _, c := range []struct {
		name  string
		jobs  jobs
		wants wants
		rules string // in order
	}{
		{"one node", jobs{{GPUs: 4}}, wants{{on(0, 0b1111)}}, "-"},
		{"two nodes", jobs{{GPUs: 5}}, wants{{on(0, 0b1111), on(1, 0b1)}}, "-"},
		{"side by side", jobs{{GPUs: 2}, {GPUs: 2}}, wants{{on(0, 0b0011)}, {on(0, 0b1100)}}, "-"},

		{"node that does not exist", jobs{{GPUs: 1}}, wants{{on(9, 1)}}, "known"},
		{"negative node", jobs{{GPUs: 1}}, wants{{on(-1, 1)}}, "known"},
		{"GPU that does not exist", jobs{{GPUs: 1}}, wants{{on(0, 1<<4)}}, "known"},
		{"slice without GPUs", jobs{{GPUs: 1}}, wants{{on(0, 1), on(1, 0)}}, "known"},

		{"GPU held twice", jobs{{GPUs: 1}, {GPUs: 1}}, wants{{on(0, 1)}, {on(0, 1)}}, "capacity"},
		{"whole, then a part of it", jobs{{GPUs: 1}, {GPUs: 1, Shareable: true}}, wants{{on(0, 1)}, {part(0, 1, 500)}}, "capacity"},
		{"part, then the whole of it", jobs{{GPUs: 1, Shareable: true}, {GPUs: 1}}, wants{{part(0, 1, 500)}, {on(0, 1)}}, "capacity"},
		{"parts that fit", jobs{{GPUs: 1, MilliGPU: 400}, {GPUs: 1, MilliGPU: 600}}, wants{{part(0, 1, 400)}, {part(0, 1, 600)}}, "-"},
		{"parts that do not fit", jobs{{GPUs: 1, MilliGPU: 400}, {GPUs: 1, MilliGPU: 601}}, wants{{part(0, 1, 400)}, {part(0, 1, 601)}}, "capacity"},
		{"as many as there are seats", jobs{{GPUs: 1, MilliGPU: 100}, {GPUs: 1, MilliGPU: 100}}, wants{{part(4, 4, 100)}, {part(4, 4, 100)}}, "-"},
		{"more than there are seats", jobs{{GPUs: 1, MilliGPU: 100}, {GPUs: 1, MilliGPU: 100}, {GPUs: 1, MilliGPU: 100}}, wants{{part(4, 4, 100)}, {part(4, 4, 100)}, {part(4, 4, 100)}}, "capacity"},
		{"no part", jobs{{GPUs: 1, Shareable: true}}, wants{{part(0, 1, 0)}}, "capacity"},
		{"more than the whole", jobs{{GPUs: 1}}, wants{{part(0, 1, 1001)}}, "capacity"},
		{"CPUs", jobs{{GPUs: 2, CPUs: 8}}, wants{{on(2, 0b11)}}, "-"},
		{"too many CPUs", jobs{{GPUs: 1, CPUs: 8}, {GPUs: 1, CPUs: 9}}, wants{{on(2, 1)}, {on(2, 2)}}, "capacity"},
		{"too much memory", jobs{{GPUs: 1, Memory: 60}, {GPUs: 1, Memory: 41}}, wants{{on(2, 1)}, {on(2, 2)}}, "capacity"},
		{"limits that are unknown", jobs{{GPUs: 1, CPUs: 999, Memory: 999, GPUMemory: 999}}, wants{{on(0, 1)}}, "-"},

		{"beside others", jobs{{GPUs: 2}}, wants{{on(4, 0b1100)}}, "-"},
		{"GPU of others", jobs{{GPUs: 2}}, wants{{on(4, 0b0110)}}, "capacity"},
		{"part of a GPU of others", jobs{{GPUs: 1, MilliGPU: 400}}, wants{{part(4, 1, 400)}}, "capacity"},

		{"cordoned node", jobs{{GPUs: 1}}, wants{{on(3, 1)}}, "node"},

		{"too few GPUs", jobs{{GPUs: 3}}, wants{{on(0, 0b11)}}, "gang"},
		{"too many GPUs", jobs{{GPUs: 1}}, wants{{on(0, 0b11)}}, "gang"},
		{"elastic, in range", jobs{{GPUs: 1, MinGPUs: 1, MaxGPUs: 4}}, wants{{on(0, 0b111)}}, "-"},
		{"elastic, out of range", jobs{{GPUs: 1, MinGPUs: 1, MaxGPUs: 2}}, wants{{on(0, 0b111)}}, "gang"},
		{"elastic, not a useful size", jobs{{GPUs: 1, MinGPUs: 1, MaxGPUs: 4, Sizes: []int{1, 2, 4}}}, wants{{on(0, 0b111)}}, "gang"},
		{"tasks", jobs{{GPUs: 4, TaskGPUs: 2}}, wants{{on(0, 0b11), on(1, 0b11)}}, "-"},
		{"a task over two nodes", jobs{{GPUs: 4, TaskGPUs: 2}}, wants{{on(0, 0b111), on(1, 0b1)}}, "gang gang"},
		{"a node twice", jobs{{GPUs: 2}}, wants{{on(0, 1), on(0, 2)}}, "gang"},

		{"accepted type", jobs{{GPUs: 1, GPUTypes: []sched.GPUType{"v100", "h200"}}}, wants{{on(2, 1)}}, "-"},
		{"wrong type", jobs{{GPUs: 1, GPUTypes: []sched.GPUType{"h200"}}}, wants{{on(0, 1)}}, "fit"},
		{"GPU too small", jobs{{GPUs: 1, GPUMemory: 81}}, wants{{on(2, 1)}}, "fit"},
		{"one island", jobs{{GPUs: 2, MaxSpread: sched.SameSlot}}, wants{{on(0, 0b1100)}}, "-"},
		{"two islands", jobs{{GPUs: 2, MaxSpread: sched.SameSlot}}, wants{{on(0, 0b0110)}}, "fit"},
		{"two nodes, one wanted", jobs{{GPUs: 2, MaxSpread: sched.SameMachine}}, wants{{on(0, 1), on(1, 1)}}, "fit"},
		{"one rack", jobs{{GPUs: 2, MaxSpread: sched.SameRack}}, wants{{on(0, 1), on(1, 1)}}, "-"},
		{"two racks, one wanted", jobs{{GPUs: 2, MaxSpread: sched.SameRack}}, wants{{on(0, 1), on(2, 1)}}, "fit"},
		{"a level that no node is in", jobs{{GPUs: 2, Topology: []sched.Rule{{Required: "zone"}}}}, wants{{on(0, 1), on(1, 1)}}, "fit"},
		{"a level preferred", jobs{{GPUs: 2, Topology: []sched.Rule{{Preferred: "zone"}}}}, wants{{on(0, 1), on(1, 1)}}, "-"},
		{"whole segments", jobs{{GPUs: 4, Topology: []sched.Rule{{Segment: 2, Required: "machine"}}}}, wants{{on(0, 0b11), on(1, 0b11)}}, "-"},
		{"a segment on two nodes", jobs{{GPUs: 4, Topology: []sched.Rule{{Segment: 2, Required: "machine"}}}}, wants{{on(0, 0b111), on(1, 0b1)}}, "fit"},
		{"segments of racks", jobs{{GPUs: 4, Topology: []sched.Rule{{Segment: 2, Required: "rack"}}}}, wants{{on(0, 1), on(1, 1), on(2, 0b11)}}, "-"},
		{"a segment in two racks", jobs{{GPUs: 4, Topology: []sched.Rule{{Segment: 2, Required: "rack"}}}}, wants{{on(0, 1), on(2, 0b11), on(1, 1)}}, "fit"},
		{"a rule for the gang is its bound", jobs{{GPUs: 2, Topology: []sched.Rule{{Required: "machine"}}}}, wants{{on(0, 1), on(1, 1)}}, "fit"},
		{"squeezed against its will", jobs{{GPUs: 1}}, wants{{part(0, 1, 500)}}, "fit"},
		{"squeezed, as it allows", jobs{{GPUs: 1, Shareable: true}}, wants{{part(0, 1, 500)}}, "-"},

		{"within the limit", jobs{{GPUs: 2, Tenant: "two"}}, wants{{on(0, 0b11)}}, "-"},
		{"parts of GPUs within the limit", jobs{{GPUs: 3, Tenant: "two", Shareable: true}, {GPUs: 1, Tenant: "two", Shareable: true}}, wants{{part(0, 0b111, 500)}, {part(0, 1, 500)}}, "-"},
		{"parts of GPUs over the limit", jobs{{GPUs: 3, Tenant: "two", Shareable: true}, {GPUs: 1, Tenant: "two", Shareable: true}}, wants{{part(0, 0b111, 500)}, {part(1, 1, 501)}}, "quota"},
		{"over the limit", jobs{{GPUs: 1, Tenant: "two"}, {GPUs: 2, Tenant: "two"}}, wants{{on(0, 1)}, {on(1, 0b11)}}, "quota"},
		{"borrowed", jobs{{GPUs: 3, Tenant: "lender"}}, wants{{on(0, 0b111)}}, "-"},
		{"borrowed beyond the bound", jobs{{GPUs: 4, Tenant: "lender"}}, wants{{on(0, 0b1111)}}, "quota"},
		{"pinned, within the guarantee", jobs{{GPUs: 1, Tenant: "lender", Protected: true}, {GPUs: 2, Tenant: "lender"}}, wants{{on(0, 1)}, {on(0, 0b110)}}, "-"},
		{"pinned, borrowed", jobs{{GPUs: 1, Tenant: "lender", NonPreemptible: true}, {GPUs: 1, Tenant: "lender", Protected: true}}, wants{{on(0, 1)}, {on(0, 0b10)}}, "guarantee"},
		{"pinned, what no quota covers", jobs{{GPUs: 8, Protected: true}, {GPUs: 4, Tenant: "stranger", Protected: true}}, wants{{on(2, 0b11111111)}, {on(0, 0b1111)}}, "-"},
		{"protected, at the size it asks for", jobs{{GPUs: 2, MinGPUs: 1, MaxGPUs: 4, Protected: true}}, wants{{on(0, 0b11)}}, "-"},
		{"protected, at another size", jobs{{GPUs: 2, MinGPUs: 1, MaxGPUs: 4, Protected: true}}, wants{{on(0, 0b111)}}, "gang"},
		{"unknown tenant", jobs{{GPUs: 8, Tenant: "stranger"}}, wants{{on(2, 0b11111111)}}, "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := world(t, func(apply func(sched.Event)) {
				apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "two", Quota: 2}})
				apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "lender", Quota: 1, Borrow: true, Max: 3}})
				for i, spec := range c.jobs {
					spec.ID = sched.JobID(rune('p' + i))
					apply(submit(spec))
				}
			})
			plan := sched.Plan{Want: c.wants, Why: make([]sched.Reason, len(c.wants))}
			s := st.Snapshot(start)
			if got := rules(s, plan); got != c.rules {
				t.Errorf("breaks %s; want %s\n%v", got, c.rules, sched.Check(s, plan))
			}
			// What does not run breaks nothing.
			plan = sched.NewPlan(s)
			for i := range plan.Why {
				plan.Why[i] = waits
			}
			if got := rules(s, plan); got != "-" {
				t.Errorf("a plan in which nothing runs breaks %s", got)
			}
		})
	}
}

func rules(s *sched.Snapshot, plan sched.Plan) string {
	var names []string
	for _, v := range sched.Check(s, plan) {
		names = append(names, v.Rule)
	}
	if names == nil {
		return "-"
	}
	return strings.Join(names, " ")
}

// TestCheckRunning has the rules about jobs that run already.
func TestCheckRunning(t *testing.T) {
	waits := sched.Reason{Code: sched.Behind}
	for _, c := range []struct {
		name  string
		spec  sched.Spec
		runs  placement // before; none: it waits
		after func(apply func(sched.Event))
		want  placement
		why   sched.Reason
		rules string
	}{
		{"stays", sched.Spec{GPUs: 1}, placement{on(0, 1)}, nil, placement{on(0, 1)}, sched.Reason{}, "-"},
		{"stops", sched.Spec{GPUs: 1}, placement{on(0, 1)}, nil, nil, waits, "-"},
		{"moves", sched.Spec{GPUs: 1}, placement{on(0, 1)}, nil, placement{on(1, 1)}, sched.Reason{}, "-"},
		{"stops without a reason", sched.Spec{GPUs: 1}, placement{on(0, 1)}, nil, nil, sched.Reason{}, "reason"},
		{"runs with a reason", sched.Spec{GPUs: 1}, nil, nil, placement{on(0, 1)}, waits, "reason"},
		{"pinned stays", sched.Spec{GPUs: 1, NonPreemptible: true}, placement{on(0, 1)}, nil, placement{on(0, 1)}, sched.Reason{}, "-"},
		{"pinned stops", sched.Spec{GPUs: 1, NonPreemptible: true}, placement{on(0, 1)}, nil, nil, waits, "pinned"},
		{"pinned moves", sched.Spec{GPUs: 1, NonPreemptible: true}, placement{on(0, 1)}, nil, placement{on(0, 2)}, sched.Reason{}, "pinned"},
		{"pinned waits", sched.Spec{GPUs: 1, NonPreemptible: true}, nil, nil, nil, waits, "-"},
		{"protected stops", sched.Spec{GPUs: 1, Protected: true}, placement{on(0, 1)}, nil, nil, waits, "pinned"},
		{"protected moves", sched.Spec{GPUs: 1, Protected: true}, placement{on(0, 1)}, nil, placement{on(0, 2)}, sched.Reason{}, "pinned"},
		{"protected resizes", sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 2, Protected: true}, placement{on(0, 1)}, nil, placement{on(0, 3)}, sched.Reason{}, "pinned gang"},
		{"stops after it has shown that it saves", sched.Spec{GPUs: 1, Protected: true}, placement{on(0, 1)}, can(sched.Saves), nil, waits, "-"},
		{"resizes after it has shown that it saves", sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 2, Protected: true}, placement{on(0, 1)}, can(sched.Saves), placement{on(0, 3)}, sched.Reason{}, "gang"},
		{"resizes after it has shown that it can", sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 2, Protected: true}, placement{on(0, 1)}, can(sched.Resizes), placement{on(0, 3)}, sched.Reason{}, "-"},
		{"stays on a node that was cordoned", sched.Spec{GPUs: 1}, placement{on(0, 1)}, setState(0, sched.Cordoned), placement{on(0, 1)}, sched.Reason{}, "-"},
		{"takes more of a node that was cordoned", sched.Spec{GPUs: 2, MinGPUs: 1, MaxGPUs: 2}, placement{on(0, 1)}, setState(0, sched.Cordoned), placement{on(0, 3)}, sched.Reason{}, "node"},
		{"stays on a node that is down", sched.Spec{GPUs: 1}, placement{on(0, 1)}, setState(0, sched.Down), placement{on(0, 1)}, sched.Reason{}, "node"},
		{"keeps more than a lowered limit", sched.Spec{GPUs: 4, Tenant: "t"}, placement{on(0, 0b1111)}, limit(2), placement{on(0, 0b1111)}, sched.Reason{}, "-"},
		{"grows over a limit", sched.Spec{GPUs: 1, MinGPUs: 1, MaxGPUs: 4, Tenant: "t"}, placement{on(0, 0b11)}, limit(2), placement{on(0, 0b111)}, sched.Reason{}, "quota"},
		{"too early", sched.Spec{GPUs: 1}, placement{on(0, 1)}, failUntil(start.Add(time.Second)), placement{on(0, 1)}, sched.Reason{}, "back-off"},
		{"in time", sched.Spec{GPUs: 1}, placement{on(0, 1)}, failUntil(start), placement{on(0, 1)}, sched.Reason{}, "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.ID = "j"
			st := world(t, func(apply func(sched.Event)) {
				apply(submit(c.spec))
				if c.runs != nil {
					apply(sched.Event{Kind: sched.JobStarted, Job: "j", Placement: c.runs})
				}
				if c.after != nil {
					c.after(apply)
				}
			})
			plan := sched.Plan{Want: []placement{c.want}, Why: []sched.Reason{c.why}}
			s := st.Snapshot(start)
			if got := rules(s, plan); got != c.rules {
				t.Errorf("breaks %s; want %s\n%v", got, c.rules, sched.Check(s, plan))
			}
		})
	}
}

func can(a sched.Ability) func(func(sched.Event)) {
	return func(apply func(sched.Event)) { apply(sched.Event{Kind: sched.JobReported, Job: "j", Can: a}) }
}

func setState(node int, state sched.NodeState) func(func(sched.Event)) {
	n := testNodes()[node]
	n.State = state
	return func(apply func(sched.Event)) { apply(sched.Event{Kind: sched.NodeJoined, Node: &n}) }
}

func limit(gpus int) func(func(sched.Event)) {
	return func(apply func(sched.Event)) {
		apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "t", Quota: gpus}})
	}
}

func failUntil(until time.Time) func(func(sched.Event)) {
	return func(apply func(sched.Event)) { apply(sched.Event{Kind: sched.JobFailed, Job: "j", Until: until}) }
}

func TestCheckLengths(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) { apply(submit(sched.Spec{ID: "j", GPUs: 1})) })
	s := st.Snapshot(start)
	for name, plan := range map[string]sched.Plan{
		"no placements": {Why: make([]sched.Reason, 1)},
		"no reasons":    {Want: make([]placement, 1)},
		"too many":      {Want: make([]placement, 2), Why: make([]sched.Reason, 2)},
		"few notes":     {Want: make([]placement, 1), Why: []sched.Reason{{Code: sched.Full}}, Notes: []sched.Note{}},
	} {
		if got := rules(s, plan); got != "known" {
			t.Errorf("%s: breaks %s; want known", name, got)
		}
	}
}

// fixed is a policy that always has the same plan.
type fixed struct{ plan sched.Plan }

func (f fixed) Schedule(*sched.Snapshot) sched.Plan { return f.plan }
func (f fixed) String() string                      { return "fixed" }

func TestDecideRefuses(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		for _, id := range []sched.JobID{"1", "2", "3", "4", "5", "6", "7"} {
			apply(submit(sched.Spec{ID: id, GPUs: 1}))
		}
	})
	s := st.Snapshot(start)
	actions, _, err := sched.Decide(fixed{sched.NewPlan(s)}, s)
	want := "bug in policy fixed: its plan breaks 7 rule(s) and was not carried out" +
		"; reason: job 1: it does not run and the plan does not say why" +
		"; reason: job 2: it does not run and the plan does not say why" +
		"; reason: job 3: it does not run and the plan does not say why" +
		"; reason: job 4: it does not run and the plan does not say why" +
		"; reason: job 5: it does not run and the plan does not say why" +
		"; and 2 more"
	if err == nil || err.Error() != want {
		t.Errorf("Decide: %v; want %s", err, want)
	}
	if actions != nil {
		t.Errorf("Decide returned %v together with an error", actions)
	}
}

// TestDecideOrder: stops come before starts, each in order of submission,
// whatever the order of the jobs in the snapshot.
func TestDecideOrder(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		for i, id := range []sched.JobID{"stay", "stop", "move", "grow", "wait", "start"} {
			apply(submit(sched.Spec{ID: id, GPUs: 1, MinGPUs: 1, MaxGPUs: 2}))
			if i < 4 {
				apply(sched.Event{Kind: sched.JobStarted, Job: id, Placement: placement{on(0, 1<<i)}})
			}
		}
	})
	s := st.Snapshot(start)
	full := sched.Reason{Code: sched.Full, Need: 1}
	plan := sched.Plan{
		Want:    []placement{{on(0, 1)}, nil, {on(1, 1)}, {on(1, 0b110)}, nil, {on(0, 0b10)}},
		Why:     []sched.Reason{{}, full, {}, {}, full, {}},
		Suspend: true,
	}
	want := []string{
		"stop stop on a[1]: needs 1 GPU; 0 are free in the cluster",
		"stop move to move it off a[2]",
		"stop grow to move it off a[3]",
		"start move on b[0]",
		"start grow on b[1-2]",
		"start start on a[1]",
	}
	for range 2 {
		actions, _, err := sched.Decide(fixed{plan}, s)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range actions {
			got = append(got, a.Text(s.Cluster))
			if a.Suspend != (a.Job.ID == "stop") {
				t.Errorf("%s %s: suspend = %t; want it only for the job that waits", a.Verb, a.Job.ID, a.Suspend)
			}
			if a.Moving != (a.Job.ID == "move" || a.Job.ID == "grow") {
				t.Errorf("%s %s: moving = %t", a.Verb, a.Job.ID, a.Moving)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("actions (-want +got):\n%s", diff)
		}
		turn(s, &plan)
	}
}

// turn turns the jobs of a snapshot and a plan for it around.
func turn(s *sched.Snapshot, plan *sched.Plan) {
	jobs := make([]*sched.Job, len(s.Jobs))
	wants, whys := make([]placement, len(jobs)), make([]sched.Reason, len(jobs))
	for i := range jobs {
		last := len(jobs) - 1 - i
		jobs[i], wants[i], whys[i] = s.Jobs[last], plan.Want[last], plan.Why[last]
	}
	s.Jobs, plan.Want, plan.Why = jobs, wants, whys
}
