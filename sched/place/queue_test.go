// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// job is a job of a test: it waits, or runs where it says.
type job struct {
	sched.Spec
	runs sched.Placement
}

func (j job) on(node int32, gpus sched.GPUSet) job {
	j.runs = append(j.runs, sched.Slice{Node: node, Milli: sched.WholeGPU, GPUs: gpus})
	return j
}

func gpus(n int) job { return job{Spec: sched.Spec{GPUs: n}} }

// snapshot returns two nodes of four GPUs with the given jobs, named a, b, ...
func snapshot(t *testing.T, jobs ...job) (*policytest.World, *sched.Snapshot) {
	t.Helper()
	return snapshotOf(t, []sched.Node{{Name: "n0", GPUs: 4}, {Name: "n1", GPUs: 4}}, jobs...)
}

func snapshotOf(t *testing.T, nodes []sched.Node, jobs ...job) (*policytest.World, *sched.Snapshot) {
	t.Helper()
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "two", Quota: 2}}))
	must(w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "wide", Weight: 2}}))
	for i, j := range jobs {
		j.ID = sched.JobID(rune('a' + i))
		must(w.Submit(j.Spec, 0))
		if j.runs != nil {
			must(w.Apply(sched.Event{Kind: sched.JobStarted, Job: j.ID, Placement: j.runs}))
		}
	}
	return w, w.State.Snapshot(w.Now)
}

// text prints a plan: where each job runs or why it does not.
func text(s *sched.Snapshot, plan sched.Plan) string {
	var out []string
	for i, j := range s.Jobs {
		what := plan.Want[i].Text(s.Cluster)
		if len(plan.Want[i]) == 0 {
			what = plan.Why[i].Code.String()
		}
		out = append(out, fmt.Sprintf("%s:%s", j.ID, what))
	}
	return strings.Join(out, " ")
}

func inOrder(s *sched.Snapshot) []int {
	return place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 })
}

func TestQueue(t *testing.T) {
	pinned := job{Spec: sched.Spec{GPUs: 4, NonPreemptible: true}}
	near := func(n int) job { return job{Spec: sched.Spec{GPUs: n, MaxSpread: sched.SameMachine}} }
	ofTwo := func(n int) job { return job{Spec: sched.Spec{GPUs: n, Tenant: "two"}} }
	for _, c := range []struct {
		name  string
		queue place.Queue
		jobs  []job
		want  string
	}{
		{"all fit", place.Queue{}, []job{gpus(4), gpus(2)}, "a:n0[0-3] b:n1[0-1]"},
		{"overtakes", place.Queue{}, []job{gpus(6), gpus(4), gpus(2)}, "a:n0[0-3] n1[0-1] b:full c:n1[2-3]"},
		{"strict", place.Queue{Strict: true}, []job{gpus(6), gpus(4), gpus(2)}, "a:n0[0-3] n1[0-1] b:full c:behind"},
		{"strict, behind what is impossible", place.Queue{Strict: true}, []job{gpus(9), gpus(4)}, "a:impossible b:n0[0-3]"},
		{"strict, behind a quota", place.Queue{Strict: true}, []job{ofTwo(3), gpus(4)}, "a:over-quota b:n0[0-3]"},
		{"strict, no place near enough", place.Queue{Strict: true}, []job{gpus(2).on(0, 0b11), gpus(2).on(1, 0b11), near(3), gpus(1)},
			"a:n0[0-1] b:n1[0-1] c:fragmented d:behind"},

		{"running jobs stay", place.Queue{}, []job{gpus(8), gpus(1).on(1, 0b10)}, "a:full b:n1[1]"},
		{"running jobs give way", place.Queue{Preempt: true}, []job{gpus(8), gpus(1).on(1, 0b10)}, "a:n0[0-3] n1[0-3] b:behind"},
		{"only as many as needed", place.Queue{Preempt: true}, []job{gpus(4), gpus(4).on(0, 0b1111), gpus(2).on(1, 0b11), gpus(1)},
			"a:n1[0-3] b:n0[0-3] c:behind d:behind"},
		{"not the pinned ones", place.Queue{Preempt: true}, []job{gpus(8), pinned.on(1, 0b1111), gpus(4)}, "a:behind b:n1[0-3] c:n0[0-3]"},
		{"not those to keep", place.Queue{Preempt: true, Keep: func(j *sched.Job) bool { return j.ID == "b" }},
			[]job{gpus(8), gpus(1).on(0, 0b1), gpus(1).on(0, 0b10)}, "a:behind b:n0[0] c:n0[1]"},
		{"nobody stops for one that finds no place", place.Queue{Preempt: true},
			[]job{gpus(2).on(0, 0b11), gpus(2).on(1, 0b11), near(3), gpus(1).on(0, 0b100)},
			"a:n0[0-1] b:n1[0-1] c:fragmented d:n0[2]"},

		{"quota", place.Queue{}, []job{ofTwo(1), ofTwo(2), ofTwo(1)}, "a:n0[0] b:over-quota c:n0[1]"},
		{"quota, with preemption", place.Queue{Preempt: true}, []job{ofTwo(2), ofTwo(1).on(0, 0b1)}, "a:n0[0-1] b:over-quota"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s := snapshot(t, c.jobs...)
			plan := c.queue.Plan(s, inOrder(s), place.NewFree(s.Cluster))
			if v := sched.Check(s, plan); len(v) > 0 {
				t.Errorf("the plan breaks %v", v)
			}
			if got := text(s, plan); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestQueueBackOff(t *testing.T) {
	w, _ := snapshot(t, gpus(4).on(0, 0b1111), gpus(4))
	until := w.Now.Add(time.Minute)
	if err := w.Apply(sched.Event{Kind: sched.JobFailed, Job: "a", Until: until}); err != nil {
		t.Fatal(err)
	}
	for _, strict := range []bool{false, true} {
		s := w.State.Snapshot(w.Now)
		plan := place.Queue{Strict: strict}.Plan(s, inOrder(s), place.NewFree(s.Cluster))
		if got, want := text(s, plan), "a:back-off b:n0[0-3]"; got != want || !plan.Why[0].Until.Equal(until) {
			t.Errorf("strict %t: %s until %s; want %s until %s", strict, got, plan.Why[0].Until, want, until)
		}
	}
}

// TestQueueLevel: the reason names what the placement insists on.
func TestQueueLevel(t *testing.T) {
	_, s := snapshot(t, gpus(2).on(0, 0b11), gpus(2).on(1, 0b11), job{Spec: sched.Spec{GPUs: 3, Consolidate: true}})
	q := place.Queue{
		Place: place.Skew(place.MostFree),
		Level: func(*sched.Job) sched.Level { return sched.SameMachine },
	}
	plan := q.Plan(s, inOrder(s), place.NewFree(s.Cluster))
	if got, want := plan.Why[2].Text(s.Cluster), "needs 3 GPUs in one node; node n0 has 2 free"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestOrderBy(t *testing.T) {
	_, s := snapshot(t, gpus(3), gpus(1), gpus(2), gpus(1), gpus(1))
	priority := map[sched.JobID]float64{"b": 2, "d": 1, "e": 1}
	got := ""
	for _, i := range place.OrderBy(s, func(j *sched.Job) (a, b float64) { return float64(j.GPUs), priority[j.ID] }) {
		got += string(s.Jobs[i].ID)
	}
	if want := "debca"; got != want { // by GPUs, then priority, then submission
		t.Errorf("order %s; want %s", got, want)
	}
}

func TestQuota(t *testing.T) {
	two, nobody, free := job{Spec: sched.Spec{GPUs: 1, Tenant: "two"}}, job{Spec: sched.Spec{GPUs: 1, Tenant: "nobody"}}, job{Spec: sched.Spec{GPUs: 1, Tenant: "wide"}}
	_, s := snapshot(t, two, nobody, gpus(1), free)
	q := place.NewQuota(s)
	q.Add(s.Jobs[0], 3)
	for _, j := range s.Jobs[1:] {
		if q.Add(j, 100); q.Left(j) < 1<<30 || !q.FitsMilli(j, 1<<30) {
			t.Errorf("the tenant %q may take %d GPUs; want any number", j.Tenant, q.Left(j))
		}
	}
	if q.Left(s.Jobs[0]) != -1 || q.Used(0) != 3 {
		t.Errorf("left %d, used %d; want -1, 3", q.Left(s.Jobs[0]), q.Used(0))
	}
	if got, want := q.Why(s.Jobs[0], 1), (sched.Reason{Code: sched.OverQuota, Need: 1, Have: -1}); got != want {
		t.Errorf("why = %+v; want %+v", got, want)
	}
	if q.Clear(); q.Left(s.Jobs[0]) != 2 {
		t.Errorf("after Clear %d are left; want 2", q.Left(s.Jobs[0]))
	}
}

func TestSeconds(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		want    time.Duration
	}{
		{0, 0}, {-1, 0}, {math.NaN(), 0}, {1, time.Second}, {1e-12, 1}, {0.1, 100 * time.Millisecond},
		{1.0000000001, time.Second + 1}, {math.Inf(1), 100 * 365 * 24 * time.Hour}, {1e30, 100 * 365 * 24 * time.Hour},
	} {
		if got := place.Seconds(c.seconds); got != c.want {
			t.Errorf("Seconds(%g) = %d; want %d", c.seconds, got, c.want)
		}
	}
}

// part is a running job of one GPU that it shares.
func part(node int32, gpu sched.GPUSet, priority int) job {
	j := job{Spec: sched.Spec{GPUs: 1, Shareable: true, Priority: priority}}
	j.runs = sched.Placement{{Node: node, Milli: 500, GPUs: gpu}}
	return j
}

// A GPU that two share counts once: with room left, nobody is stopped for a job
// that comes, and without it two that share a GPU are, not more.
func TestQueueSharers(t *testing.T) {
	jobs := []job{gpus(3).on(0, 0b111), gpus(3).on(1, 0b111), part(0, 0b1000, 0), part(0, 0b1000, 0), part(1, 0b1000, 0), part(1, 0b1000, 0)}
	late := gpus(1)
	late.Priority = 1
	_, s := snapshot(t, append(jobs, late)...)
	order := place.OrderBy(s, func(j *sched.Job) (a, b float64) { return -float64(j.Priority), 0 })
	plan := place.Queue{Preempt: true}.Plan(s, order, place.NewFree(s.Cluster))
	const want = "n0[0-2] n1[0-2] n0[3]x0.5 n0[3]x0.5 behind behind n1[3]"
	var got []string
	for i := range s.Jobs {
		what := plan.Want[i].Text(s.Cluster)
		if len(plan.Want[i]) == 0 {
			what = plan.Why[i].Code.String()
		}
		got = append(got, what)
	}
	if text := strings.Join(got, " "); text != want {
		t.Errorf("plan %s; want %s", text, want)
	}
}

// Seats of half a GPU use half a GPU of the quota.
func TestQuotaParts(t *testing.T) {
	_, s := snapshot(t, job{Spec: sched.Spec{GPUs: 1, Tenant: "two"}})
	q, j := place.NewQuota(s), s.Jobs[0]
	half := sched.Placement{{Milli: 500, GPUs: 1}}
	for n := range 4 {
		if !q.Fits(j, half) {
			t.Fatalf("half a GPU does not fit after %d of them; the quota is 2", n)
		}
		q.AddMilli(j, half.Milli())
	}
	if q.Fits(j, half) || q.Left(j) != 0 || q.Used(0) != 2 {
		t.Errorf("after 4 halves: fits %t, left %d, used %d; want false, 0 and 2", q.Fits(j, half), q.Left(j), q.Used(0))
	}
	q.AddMilli(j, 1)
	if q.Left(j) != -1 || q.Used(0) != 3 {
		t.Errorf("a little above: left %d, used %d; want -1 and 3", q.Left(j), q.Used(0))
	}
}
