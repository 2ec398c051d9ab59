// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestPlans lets the policy decide in random worlds whose jobs have agents.
func TestPlans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := policytest.Random(rt)
		c := usual()
		c.P = rapid.SampledFrom([]float64{-1, -1, 1, 0, -10}).Draw(rt, "p")
		c.Apart = rapid.Bool().Draw(rt, "apart")
		if rapid.IntRange(1, 4).Draw(rt, "search") == 1 {
			c.Search = Genetic(1, 10, 10)
		}
		p := policyOf(c)
		for range rapid.IntRange(1, 4).Draw(rt, "decisions") {
			for range rapid.IntRange(1, 4).Draw(rt, "events") {
				w.Stir(rt)
			}
			talk(rt, w)
			s := w.State.Snapshot(w.Now)
			plan := p.Schedule(s)
			for _, v := range sched.Check(s, plan) {
				rt.Errorf("%s", v)
			}
			checkApart(rt, c, s, plan)
			checkPure(rt, policyOf(c), s, plan)
			if _, _, err := w.Decide(p); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// talk lets the agents of some jobs report.
func talk(t *rapid.T, w *policytest.World) {
	names := slices.Sorted(maps.Keys(models))
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		if j.Phase != sched.Running || !rapid.Bool().Draw(t, "reports") {
			continue
		}
		r := models[rapid.SampledFrom(names).Draw(t, "model")]
		r.MostGPUs = 2 * j.MostGPUs
		p := r.Params["t4"]
		r.Params = map[string]goodput.Params{}
		for _, kind := range rapid.SampledFrom([][]string{{}, {"t4"}, {"t4", "h200"}}).Draw(t, "types") {
			r.Params[kind] = p
		}
		if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: &r}); err != nil {
			t.Fatal(err)
		}
	}
}

// checkApart looks for nodes with two jobs that span several nodes.
func checkApart(t *rapid.T, c config, s *sched.Snapshot, plan sched.Plan) {
	spanning := map[int32][]sched.JobID{}
	for i, want := range plan.Want {
		if len(want) < 2 || s.Jobs[i].NonPreemptible {
			continue
		}
		for _, slice := range want {
			spanning[slice.Node] = append(spanning[slice.Node], s.Jobs[i].ID)
		}
	}
	for n, jobs := range spanning {
		if c.Apart && len(jobs) > 1 {
			t.Errorf("node %d hosts jobs %v, which all Span several nodes", n, jobs)
		}
	}
}

// checkPure asks another value of the policy about the jobs in another order.
func checkPure(t *rapid.T, p *policy, s *sched.Snapshot, plan sched.Plan) {
	shuffled, index := policytest.Shuffled(t, s)
	other := p.Schedule(shuffled)
	for i, from := range index {
		if !other.Want[i].Equal(plan.Want[from]) || other.Why[i] != plan.Why[from] {
			t.Errorf("job %s: another order of jobs gives %v %v; want %v %v",
				s.Jobs[from].ID, other.Want[i], other.Why[i], plan.Want[from], plan.Why[from])
		}
	}
}

// decided prints what a plan gives each job, by number of GPUs on each node.
func decided(p *policy, s *scene) []string {
	plan := p.Schedule(s.Snapshot)
	var out []string
	for i, want := range plan.Want {
		line := want.Text(s.Cluster)
		if len(want) == 0 {
			line = plan.Why[i].Code.String()
		}
		out = append(out, line)
	}
	return out
}

// TestDecisions shows what the policy does, one situation at a time.
func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes int
		jobs  []spec
		want  []string
	}{
		{
			"a job that scales grows to what its report allows", 2,
			[]spec{{model: "imagenet", most: 4, age: time.Hour, held: row{{0, 2}}}},
			[]string{"n0[0-3]"},
		},
		{
			"a job may not grow beyond its report", 2,
			[]spec{{model: "imagenet", most: 2, age: time.Hour, held: row{{0, 2}}}},
			[]string{"n0[0-1]"},
		},
		{
			"a job that was just restarted is left alone", 2,
			[]spec{{model: "imagenet", most: 4, age: 95 * time.Second, restarts: 3, held: row{{0, 2}}}},
			[]string{"n0[0-1]"},
		},
		{
			"a newcomer gets an idle GPU at once", 1,
			[]spec{{model: "imagenet", most: 2, age: time.Hour, held: row{{0, 2}}}, {}},
			[]string{"n0[0-1]", "n0[2]"},
		},
		{
			"a newcomer in a full cluster waits until it is worth something", 1,
			[]spec{{model: "imagenet", most: 4, age: time.Hour, held: row{{0, 4}}}, {}},
			[]string{"n0[0-3]", "behind"},
		},
		{
			"and then others make room", 1,
			[]spec{{model: "imagenet", most: 4, age: time.Hour, held: row{{0, 4}}}, {age: time.Minute}},
			[]string{"n0[0-2]", "n0[3]"},
		},
		{
			"a job of fixed size gets all or nothing", 1,
			[]spec{{rigid: 3, age: time.Minute}, {rigid: 3, age: 2 * time.Minute}},
			[]string{"behind", "n0[0-2]"},
		},
		{
			"a job shrinks to one node for one that needs several", 3,
			[]spec{{model: "imagenet", most: 6, age: time.Hour, held: row{{0, 4}, {1, 2}}}, {rigid: 6, age: time.Hour}},
			[]string{"n0[0-3]", "n1[0-3] n2[0-1]"},
		},
	} {
		s := cluster(t, c.nodes, 4)
		for _, x := range c.jobs {
			s.add(x)
		}
		if diff := cmp.Diff(c.want, decided(policyOf(usual()), s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestApart: with interference avoidance, jobs that span nodes share none.
func TestApart(t *testing.T) {
	for apart, want := range map[bool][]string{
		true:  {"n0[0-3] n1[0-1]", "behind"},
		false: {"n0[0-3] n1[0-1]", "n2[0-3] n1[2-3]"},
	} {
		s := cluster(t, 3, 4)
		s.add(spec{rigid: 6, age: time.Hour, held: row{{0, 4}, {1, 2}}})
		s.add(spec{rigid: 6, age: time.Hour})
		c := usual()
		c.Apart = apart
		if diff := cmp.Diff(want, decided(policyOf(c), s)); diff != "" {
			t.Errorf("apart = %t (-want +got):\n%s", apart, diff)
		}
	}
}

// TestNothing: there may be nothing to divide, or nobody to divide it among.
func TestNothing(t *testing.T) {
	for _, search := range []Search{Fast(1), Genetic(1, 100, 100)} {
		c := usual()
		c.Search = search
		empty := nodes(t)
		empty.add(spec{model: "bert", most: 4, age: time.Hour})
		down := nodes(t, sched.Node{GPUs: 4, Type: "t4", State: sched.Down}, sched.Node{GPUs: 0, Type: "t4"})
		down.add(spec{age: time.Hour})
		// It has no size that it could run at.
		never := cluster(t, 2, 4)
		never.add(spec{age: time.Hour, min: 2, max: 7, sizes: []int{1, 8}})
		for name, x := range map[string]struct {
			s    *scene
			want []string
		}{
			"no nodes": {empty, []string{"impossible"}}, "no GPUs": {down, []string{"impossible"}},
			"no jobs": {cluster(t, 2, 4), nil}, "no size": {never, []string{"impossible"}},
		} {
			if diff := cmp.Diff(x.want, decided(policyOf(c), x.s)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", search, name, diff)
			}
		}
	}
}

// TestSizes: a job with useful sizes runs at one of them, whatever it is worth.
func TestSizes(t *testing.T) {
	s := cluster(t, 4, 4)
	for range 3 {
		s.add(spec{model: "bert", most: 16, max: 16, sizes: []int{2, 4, 8}, age: time.Hour})
	}
	plan := policyOf(usual()).Schedule(s.Snapshot)
	for _, v := range sched.Check(s.Snapshot, plan) {
		t.Error(v)
	}
	for i, want := range plan.Want {
		if n := want.GPUs(); n != 4 && n != 8 {
			t.Errorf("job %d has %d GPUs; want 4 or 8 of the 16 for each of three", i, n)
		}
	}
}

// TestSharedBefore: a job that another policy had put on shared GPUs gets whole
// ones, unless it may not be moved.
func TestSharedBefore(t *testing.T) {
	s := cluster(t, 1, 4)
	for range 2 {
		j := s.add(spec{age: time.Hour})
		j.Shareable, j.Phase, j.Starts, j.MostGPUs = true, sched.Running, 1, 1
		j.Placement = sched.Placement{{Node: 0, Milli: 500, GPUs: 1}}
	}
	s.Jobs[1].NonPreemptible = true
	plan := policyOf(usual()).Schedule(s.Snapshot)
	for _, v := range sched.Check(s.Snapshot, plan) {
		t.Error(v)
	}
	if got := plan.Want[0]; got.Shared() || len(got) == 0 {
		t.Errorf("the first job has %s; want whole GPUs", got.Text(s.Cluster))
	}
	if got := plan.Want[1]; !got.Equal(s.Jobs[1].Placement) {
		t.Errorf("the pinned job moved to %s", got.Text(s.Cluster))
	}
}
