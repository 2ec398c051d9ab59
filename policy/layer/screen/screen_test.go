// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package screen_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// table is shared by the tests, none of which changes it.
var table = policy.Builtin()

func build(t testing.TB, spec string) sched.Policy {
	p, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// specs are what the layer is tested with: other knobs and layers, and every policy.
func specs() []string {
	out := []string{
		"fifo@screen", "tiresias@screen:least=2", "philly@screen:spare=1", "drf@screen:gpus=2", "las@screen:patience=5m:most=0.3",
		"fifo@share@screen:idle=0", "fifo@screen:idle=0@share", "fifo@share@reserve@defrag@screen",
		"fifo@screen:idle=0:pool=m0", "tiresias@screen:idle=0:pool=m1:least=2",
	}
	for _, name := range table.Names() {
		out = append(out, name+"@screen:idle=0")
	}
	return out
}

func screenTime(t *rapid.T) sched.Duration {
	return sched.Duration(rapid.SampledFrom([]time.Duration{0, 5 * time.Minute, 5 * time.Minute, 20 * time.Minute}).Draw(t, "screen"))
}

// stir lets something random happen, sometimes the arrival of a new job that is
// to be screened.
func stir(t *rapid.T, w *policytest.World) {
	if rapid.Bool().Draw(t, "new") {
		spec := policytest.DrawJob(t, sched.JobID(fmt.Sprint("new", len(w.Length))))
		spec.Screen = screenTime(t)
		if err := w.Submit(spec, time.Hour); err != nil {
			t.Fatal(err)
		}
		return
	}
	w.Stir(t)
}

// In random worlds the layer keeps the plans of every policy legal and its own
// promises: the pool is bounded, only new jobs are screened, and only with less
// than they ask for; the same snapshot gives the same plan.
func TestProperties(t *testing.T) {
	for _, spec := range specs() {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				p := build(t, spec)
				for range rapid.IntRange(1, 8).Draw(rt, "decisions") {
					for range rapid.IntRange(1, 3).Draw(rt, "events") {
						stir(rt, w)
					}
					s := w.State.Snapshot(w.Now)
					plan := p.Schedule(s)
					for _, v := range sched.Check(s, plan) {
						rt.Errorf("%s", v)
					}
					// Defragmentation remembers when it last looked.
					if again := build(t, spec).Schedule(s); !strings.Contains(spec, "@defrag") && !reflect.DeepEqual(plan, again) {
						rt.Errorf("the same snapshot gave another plan (-first +second):\n%s", cmp.Diff(plan, again))
					}
					checkScreenings(rt, s, plan)
					if _, _, err := w.Decide(p); err != nil {
						rt.Fatal(err)
					}
				}
			})
		})
	}
}

func checkScreenings(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	for i, j := range s.Jobs {
		n := plan.Want[i].GPUs()
		if plan.Screening != nil && plan.Screening[i] {
			if j.Screen == 0 || j.ProbationPassed || n == 0 || n >= j.GPUs {
				t.Errorf("job %s (%d GPUs, screen %s, proven %v) is screened on %d GPUs", j.ID, j.GPUs, j.Screen, j.ProbationPassed, n)
			}
		}
		if plan.Why[i].Code == sched.ScreenWait && (j.Screen == 0 || j.ProbationPassed || j.Phase != sched.Pending) {
			t.Errorf("job %s (screen %s, proven %v, %s) waits for the pool", j.ID, j.Screen, j.ProbationPassed, j.Phase)
		}
		if j.Phase == sched.Running && j.Screening && j.OnProbation(s.Now) && !plan.Want[i].Equal(j.Placement) {
			t.Errorf("job %s is taken out of its screening", j.ID)
		}
	}
}

// The pool is never larger than it may be, but for a single screening.
func TestPoolIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]sched.Node, rapid.IntRange(1, 30).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 8}
		}
		w, err := policytest.NewWorld(nodes)
		if err != nil {
			t.Fatal(err)
		}
		at := policytest.Start.Add(time.Second)
		for i := range rapid.IntRange(1, 60).Draw(t, "jobs") {
			spec := sched.Spec{
				ID: sched.JobID(fmt.Sprint("j", i)), GPUs: rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus"),
				Screen: screenTime(t), Submitted: at,
			}
			if spec.GPUs == 8 && rapid.Bool().Draw(t, "tasks") {
				spec.TaskGPUs = 4
			}
			at = at.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
			w.Arrivals = append(w.Arrivals, spec)
			w.Length[spec.ID] = time.Duration(rapid.IntRange(1, 120).Draw(t, "minutes")) * time.Minute
		}
		most := max(1, 8*len(nodes)*5/100)
		p, err := table.New("fifo:greedy@screen:idle=0")
		if err != nil {
			t.Fatal(err)
		}
		err = w.Play(p, at.Add(30*24*time.Hour), func(seen policytest.Seen) {
			pool, screenings := 0, 0
			for i, on := range seen.Plan.Screening {
				if on {
					pool += seen.Plan.Want[i].GPUs()
					screenings++
				}
			}
			if pool > most && screenings > 1 {
				t.Errorf("at %s %d jobs are screened on %d GPUs; the pool has at most %d", seen.At.Sub(policytest.Start), screenings, pool, most)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := w.State.Jobs(); n > 0 {
			t.Errorf("%d jobs have not ended", n)
		}
	})
}

// Every job that an empty cluster could host comes to its end, whoever is new.
func TestEveryJobRuns(t *testing.T) {
	for _, spec := range []string{"fifo@screen:idle=0", "tiresias@screen:least=1", "philly@screen", "gandiva@screen:idle=0", "drf@screen:idle=0"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				for i, n := range w.State.Cluster().Nodes {
					if n.State == sched.Cordoned {
						if err := w.SetNode(i, sched.Ready); err != nil {
							rt.Fatal(err)
						}
					}
				}
				bound := policytest.Start
				for i := range rapid.IntRange(1, 15).Draw(rt, "jobs") {
					job := policytest.DrawJob(rt, sched.JobID(fmt.Sprint("j", i)))
					job.Screen = screenTime(rt)
					length := time.Duration(rapid.IntRange(1, 90).Draw(rt, "minutes")) * time.Minute
					job.Submitted = policytest.Start.Add(time.Duration(i+1) * time.Minute)
					w.Arrivals = append(w.Arrivals, job)
					w.Length[job.ID] = length
					bound = bound.Add(length + 2*job.Screen.D())
				}
				if err := w.Play(build(t, spec), bound.Add(3*time.Hour), nil); err != nil {
					rt.Fatal(err)
				}
				s := w.State.Snapshot(w.Now)
				empty, quota := place.NewFree(s.Cluster), place.NewQuota(s)
				for _, j := range s.Jobs {
					_, ok := place.Consolidated(empty.For(s.Cluster), j, j.GPUs)
					if ok && quota.Left(j) >= j.GPUs {
						rt.Errorf("job %s (%d GPUs) is %s, proven %v, %d starts; an empty cluster would host it", j.ID, j.GPUs, j.Phase, j.ProbationPassed, j.Starts)
					}
				}
			})
		})
	}
}

// A stream of new gangs must not keep a gang as large as the cluster from ever
// running, nor be starved itself.
func TestNobodyStarves(t *testing.T) {
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 8}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Submit(sched.Spec{ID: "gang", GPUs: 8}, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		id := sched.JobID(fmt.Sprint("new", i))
		w.Length[id] = 10 * time.Minute
		w.Arrivals = append(w.Arrivals, sched.Spec{
			ID: id, GPUs: 2, Screen: sched.Duration(5 * time.Minute),
			Submitted: policytest.Start.Add(time.Duration(i+1) * 3 * time.Minute),
		})
	}
	// A job that is there first fills the cluster for a while.
	if err := w.Apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "first", GPUs: 1, Submitted: w.Now, Priority: 1}}); err != nil {
		t.Fatal(err)
	}
	w.Length["first"] = time.Hour
	if err := w.Play(build(t, "fifo@screen:idle=0"), policytest.Start.Add(3*time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if j, ok := w.State.Job("gang"); ok {
		t.Errorf("the gang is %s after three hours, %d starts", j.Phase, j.Starts)
	}
	if err := w.Play(build(t, "fifo@screen:idle=0"), policytest.Start.Add(24*time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if n := w.State.Jobs(); n > 0 {
		t.Errorf("%d jobs have not ended after a day", n)
	}
}

func TestSpec(t *testing.T) {
	for _, spec := range []string{"fifo@screen", "tiresias:thresholds=1h@screen:gpus=2:patience=10m"} {
		if got := fmt.Sprint(build(t, spec)); got != spec {
			t.Errorf("%s prints itself as %s", spec, got)
		}
	}
	for _, spec := range []string{"fifo@screen:gpus=0", "fifo@screen:most=0", "fifo@screen:idle=2", "fifo@screen:patience=0s", "fifo@screen:above=-1", "fifo@screen:least=-1", "fifo@screen:spare=-1"} {
		if _, err := table.New(spec); err == nil {
			t.Errorf("%s: no error", spec)
		}
	}
}

// BenchmarkSchedule is what the layer costs at 10,000 GPUs and 10,000 jobs: with
// nobody new, and with a hundred new jobs that wait.
func BenchmarkSchedule(b *testing.B) {
	for _, fresh := range []int{0, 100} {
		b.Run(fmt.Sprintf("new=%d", fresh), func(b *testing.B) {
			nodes := make([]sched.Node, 1250)
			for i := range nodes {
				nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, Rack: fmt.Sprint("r", i/32)}
			}
			w, err := policytest.NewWorld(nodes)
			if err != nil {
				b.Fatal(err)
			}
			for i := range 10_000 {
				spec := sched.Spec{ID: sched.JobID(fmt.Sprint("j", i)), GPUs: 2}
				if i >= 10_000-fresh {
					spec.Screen = sched.Duration(5 * time.Minute)
				}
				if err := w.Submit(spec, 0); err != nil {
					b.Fatal(err)
				}
			}
			if _, _, err := w.Decide(build(b, "fifo")); err != nil {
				b.Fatal(err)
			}
			for _, spec := range []string{"fifo", "fifo@screen"} {
				b.Run(spec, func(b *testing.B) {
					p := build(b, spec)
					for b.Loop() {
						p.Schedule(w.State.Snapshot(w.Now))
					}
				})
			}
		})
	}
}

// TestPoolOfNodes: where the pool is named, jobs are screened on its nodes and nowhere
// else; without such a node nobody is.
func TestPoolOfNodes(t *testing.T) {
	for _, c := range []struct {
		name, pool, needs string
		kept              bool
		want              string // where the new job is
	}{
		{"in the pool", "screening", "", false, "n1[0]"},
		{"no such pool", "gold", "", false, "n0[0-3]"},
		{"a job that may be there", "screening", "big", false, "n1[0]"},
		{"a job that may not be there", "screening", "other", false, "-"},
		{"nodes that are kept for others", "screening", "", true, "-"},
	} {
		w, err := policytest.NewWorld([]sched.Node{
			{Name: "n0", GPUs: 8, Labels: []string{"other"}}, {Name: "n1", GPUs: 8, Labels: []string{"big", "screening"}, Dedicated: c.kept},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Submit(sched.Spec{ID: "j", GPUs: 4, Selector: c.needs, Screen: sched.Duration(5 * time.Minute)}, time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.Decide(build(t, "fifo@screen:idle=0:pool="+c.pool)); err != nil {
			t.Fatal(err)
		}
		if j, _ := w.State.Job("j"); j.Placement.Text(w.State.Cluster()) != c.want {
			t.Errorf("%s: the job is on %s; want %s", c.name, j.Placement.Text(w.State.Cluster()), c.want)
		}
	}
}
