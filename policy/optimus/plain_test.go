// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/place"
)

// drawSteps draws step times: such as a job could have, or any.
func drawSteps(t *rapid.T) []float64 {
	n := rapid.IntRange(1, 12).Draw(t, "sizes")
	if rapid.Bool().Draw(t, "smooth") {
		draw := rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.5, 2})
		return curve(n, draw.Draw(t, "compute"), draw.Draw(t, "fixed"), draw.Draw(t, "sync"))
	}
	return rapid.SliceOfN(rapid.Float64Range(0.1, 2), n, n).Draw(t, "steps")
}

func drawReport(t *rapid.T) *goodput.Report {
	steps := drawSteps(t)
	r := measured(steps, rapid.SliceOfN(rapid.IntRange(1, len(steps)), 0, 4).Draw(t, "measured")...)
	r.Steps = steps
	r.Left = rapid.SampledFrom([]float64{0, 10, 500, 501, 1e5}).Draw(t, "left")
	r.MostGPUs = rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "most")
	r.Losses, r.Stop = losing(1+r.Left, 0.3)
	r.Losses = r.Losses[:rapid.IntRange(0, len(r.Losses)).Draw(t, "losses")]
	return r
}

// plainShares is the rule of the paper, for jobs without any wishes, as plainly
// as it can be put: it looks at all jobs for every GPU.
func plainShares(jobs []*sched.Job, gpus int) []int {
	shares := make([]int, len(jobs))
	for i := range jobs {
		if gpus > 0 {
			shares[i] = 1
			gpus--
		}
	}
	for ; gpus > 0; gpus-- {
		best, most := -1, 0.0
		for i, j := range jobs {
			if n := shares[i]; n > 0 && n < limit(j) {
				if g := (j.Perf.Steps[n-1] - j.Perf.Steps[n]) * max(1, j.Perf.Left); g > most {
					best, most = i, g
				}
			}
		}
		if best < 0 {
			break
		}
		shares[best]++
	}
	return shares
}

func limit(j *sched.Job) int {
	if j.Perf.MostGPUs > 0 {
		return min(len(j.Perf.Steps), j.Perf.MostGPUs)
	}
	return len(j.Perf.Steps)
}

// plainPlaces places shares, as GPUs by node.
func plainPlaces(c *sched.Cluster, jobs []*sched.Job, shares []int) [][]int {
	free := make([]int, len(c.Nodes))
	for i, n := range c.Nodes {
		free[i] = n.GPUs
	}
	out := make([][]int, len(jobs))
	var moves []int
	for i, j := range jobs {
		out[i] = make([]int, len(free))
		if shares[i] != j.Placement.GPUs() {
			moves = append(moves, i)
			continue
		}
		for _, s := range j.Placement {
			out[i][s.Node] = s.GPUs.Len()
			free[s.Node] -= s.GPUs.Len()
		}
	}
	slices.SortStableFunc(moves, func(a, b int) int { return shares[a] - shares[b] })
	for _, i := range moves {
		for left := shares[i]; left > 0; {
			node := slices.Index(free, slices.Max(free))
			n := min(left, free[node])
			out[i][node] += n
			free[node] -= n
			left -= n
		}
	}
	return out
}

// TestAgainstPlainRule plays random jobs without wishes, and compares every
// decision with the plain rule.
func TestAgainstPlainRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rapid.SliceOfN(rapid.IntRange(1, 8), 1, 5).Draw(rt, "nodes")...)
		p := mustBuild(t, "optimus")
		next := 0
		for range rapid.IntRange(1, 8).Draw(rt, "decisions") {
			for range rapid.IntRange(0, 4).Draw(rt, "arrivals") {
				w.submit(sched.Spec{ID: sched.JobID(fmt.Sprint("j", next))}, drawReport(rt))
				next++
			}
			if jobs := w.State.Snapshot(w.Now).Jobs; len(jobs) > 0 {
				j := rapid.SampledFrom(jobs).Draw(rt, "job")
				if rapid.Bool().Draw(rt, "ends") {
					w.apply(sched.Event{Kind: sched.JobEnded, Job: j.ID, Phase: sched.Finished})
				} else {
					w.apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: drawReport(rt)})
				}
			}
			s := w.State.Snapshot(w.Now)
			want := plainPlaces(s.Cluster, s.Jobs, plainShares(s.Jobs, s.Cluster.GPUs()))
			_, plan, err := w.Decide(p)
			if err != nil {
				rt.Fatal(err)
			}
			got := make([][]int, len(s.Jobs))
			for i := range got {
				got[i] = make([]int, len(s.Cluster.Nodes))
				for _, slice := range plan.Want[i] {
					got[i][slice.Node] = slice.GPUs.Len()
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("GPUs of jobs by node (-plain +policy):\n%s", diff)
			}
		}
	})
}

// TestLeastRemainingTime compares the sum of remaining times with the best of
// all shares, for jobs whose step times are convex.
func TestLeastRemainingTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		gpus := rapid.IntRange(1, 9).Draw(rt, "gpus")
		w := newWorld(t, gpus)
		jobs := rapid.IntRange(1, min(4, gpus)).Draw(rt, "jobs")
		for i := range jobs {
			draw := rapid.Float64Range(0, 2)
			w.submit(sched.Spec{ID: sched.JobID(fmt.Sprint("j", i))}, &goodput.Report{
				Steps: curve(gpus, draw.Draw(rt, "compute"), draw.Draw(rt, "fixed"), draw.Draw(rt, "sync")),
				Left:  rapid.Float64Range(1, 1000).Draw(rt, "left"),
			})
		}
		s := w.State.Snapshot(w.Now)
		plan := mustBuild(t, "optimus").Schedule(s)
		got := 0.0
		for i, j := range s.Jobs {
			if n := plan.Want[i].GPUs(); n == 0 {
				rt.Fatalf("job %s has no GPU of %d", j.ID, gpus)
			} else {
				got += j.Perf.Steps[n-1] * j.Perf.Left
			}
		}
		if want := leastTime(s.Jobs, gpus); got > want*(1+1e-9) {
			rt.Errorf("the remaining times sum to %g; the best shares give %g", got, want)
		}
	})
}

// leastTime tries all shares.
func leastTime(jobs []*sched.Job, gpus int) float64 {
	if len(jobs) == 0 {
		return 0
	}
	best := math.Inf(1)
	for n := 1; n <= gpus-len(jobs)+1; n++ {
		best = min(best, jobs[0].Perf.Steps[n-1]*jobs[0].Perf.Left+leastTime(jobs[1:], gpus-n))
	}
	return best
}

// TestRandomWorlds lets random things happen in random clusters. No plan may be
// refused, and neither the order of the jobs nor what a policy value has seen
// before may change it.
func TestRandomWorlds(t *testing.T) {
	for _, spec := range []string{"optimus", "optimus:form=original:every=1m"} {
		t.Run(spec, rapid.MakeCheck(func(t *rapid.T) {
			w := policytest.Random(t)
			p := &twice{t: t, spec: spec}
			for range rapid.IntRange(1, 20).Draw(t, "steps") {
				w.Stir(t)
				if rapid.IntRange(0, 3).Draw(t, "sizes") == 0 {
					spec := policytest.DrawJob(t, sched.JobID(fmt.Sprint("s", len(w.Length))))
					spec.GPUs, spec.MinGPUs, spec.MaxGPUs, spec.TaskGPUs = 4, 2, 8, rapid.IntRange(1, 2).Draw(t, "task")
					spec.Sizes = rapid.SampledFrom([][]int{nil, {1, 2, 4, 8}, {4, 6, 7}}).Draw(t, "which")
					if err := w.Submit(spec, time.Hour); err != nil {
						t.Fatal(err)
					}
				}
				for _, j := range w.State.Snapshot(w.Now).Jobs {
					if rapid.IntRange(0, 2).Draw(t, "reports") == 0 {
						e := sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: drawReport(t)}
						if err := w.Apply(e); err != nil {
							t.Fatal(err)
						}
					}
				}
				if _, _, err := w.Decide(p); err != nil {
					t.Fatal(err)
				}
			}
		}))
	}
}

// twice asks a policy, and another of the same spec that has no caches and gets
// the jobs in reverse order: both must say the same. It also looks for jobs
// that wait without need.
type twice struct {
	t    *rapid.T
	spec string
	sched.Policy
}

func (p *twice) Schedule(s *sched.Snapshot) sched.Plan {
	if p.Policy == nil {
		p.Policy = p.build()
	}
	plan := p.Policy.Schedule(s)
	other := *s
	other.Jobs = slices.Clone(s.Jobs)
	slices.Reverse(other.Jobs)
	again := p.build().Schedule(&other)
	slices.Reverse(again.Want)
	slices.Reverse(again.Why)
	if diff := cmp.Diff(plan, again); diff != "" {
		p.t.Fatalf("the jobs in reverse order give another plan (-this +other):\n%s", diff)
	}
	p.checkConserves(s, plan)
	return plan
}

func (p *twice) build() sched.Policy {
	policy, err := build(p.spec)
	if err != nil {
		p.t.Fatal(err)
	}
	return policy
}

// checkConserves looks for a job that waits although its smallest size is free.
func (p *twice) checkConserves(s *sched.Snapshot, plan sched.Plan) {
	free, quota := place.NewFree(s.Cluster), place.NewQuota(s)
	for i, j := range s.Jobs {
		free.Take(j, plan.Want[i])
		quota.Add(j, plan.Want[i].GPUs())
	}
	for i, j := range s.Jobs {
		n := j.NextSize(0)
		if len(plan.Want[i]) > 0 || !j.Ready(s.Now) || j.NonPreemptible || quota.Left(j) < n {
			continue
		}
		if got, ok := place.Consolidated(free, j, n); ok {
			p.t.Fatalf("job %s waits (%s) and could run on %s", j.ID, plan.Why[i].Text(s.Cluster), got.Text(s.Cluster))
		}
	}
}
