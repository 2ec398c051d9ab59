// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/autoscale"
)

// scaled returns a configuration with a cloud of 4-GPU nodes that looks once a
// minute, takes two minutes to start a node, and charges 2 for a node-hour.
func scaled(t *testing.T, spec string, least, most int) sim.Config {
	t.Helper()
	c := config(t, fmt.Sprintf("%dx4", most), spec)
	a := sim.DefaultAutoscale(least, most)
	a.Price = 2
	a.Window = 1
	c.Autoscale = &a
	return c
}

func TestCostByHand(t *testing.T) {
	c := scaled(t, "fifo", 1, 4)
	two := []sim.Work{job("a", 4, 0, time.Hour), job("b", 4, 0, time.Hour)}
	res := run(t, c, two...)
	// The look at 60 s finds one node full and another wanted. It takes work at
	// 180 s, when b starts. Half of the GPUs in use is within the band.
	within(t, "b start", res.Jobs[1].Start, 180)
	within(t, "makespan", res.Makespan, 3780)
	want := []sim.NodePoint{{T: 0, Ready: 1}, {T: 60, Ready: 1, Starting: 1}, {T: 180, Ready: 2}}
	if diff := cmp.Diff(want, res.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	within(t, "node-hours", res.Autoscale.NodeHours, (3780+3720)/3600.0)
	within(t, "cost", res.Autoscale.Cost, 2*(3780+3720)/3600.0)
	// GPU time held by GPU time of nodes that take work.
	within(t, "allocation", res.Allocation, 2*4*3600/(4.0*(3780+3600)))

	// A band from 0.55 up: a ends at 3600, and the look at 3660 gives its node,
	// which is idle, back.
	c.Autoscale.Low = 0.55
	res = run(t, c, two...)
	if last := res.Nodes[len(res.Nodes)-1]; last != (sim.NodePoint{T: 3660, Ready: 1}) {
		t.Errorf("last change of nodes %+v, want 1 ready from 3660 on", last)
	}
	within(t, "makespan", res.Makespan, 3780)
	within(t, "cost", res.Autoscale.Cost, 2*(3660+3720)/3600.0)
	if got := res.Autoscale; got.Outs != 1 || got.Ins != 1 || got.Most != 2 {
		t.Errorf("%d times out, %d times in, at most %d nodes; want 1, 1, 2", got.Outs, got.Ins, got.Most)
	}
}

// An order is taken back when what it was for is gone; it is paid for until
// then.
func TestOrdersAreCancelled(t *testing.T) {
	c := scaled(t, "fifo", 1, 4)
	c.Autoscale.Delay = 10 * time.Minute
	res := run(t, c, job("a", 4, 0, 90*time.Second), job("b", 1, 0, time.Hour))
	want := []sim.NodePoint{{T: 0, Ready: 1}, {T: 60, Ready: 1, Starting: 1}, {T: 120, Ready: 1}}
	if diff := cmp.Diff(want, res.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	within(t, "node-hours", res.Autoscale.NodeHours, (90+3600+60)/3600.0)
}

// spread is a policy that keeps what runs and puts others on the emptiest
// node; a job that no node can hold gets whole nodes.
type spread struct{}

func (spread) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	free := place.NewFree(s.Cluster)
	for i, j := range s.Jobs {
		if j.Phase == sched.Running {
			free.Take(j, j.Placement)
			plan.Want[i] = j.Placement
		}
	}
	for i, j := range s.Jobs {
		if j.Phase == sched.Running {
			continue
		}
		p, ok := place.MostFree(free, j, j.GPUs)
		if !ok {
			plan.Why[i] = sched.Reason{Code: sched.Full, Need: j.GPUs}
			continue
		}
		plan.Want[i] = p
	}
	return plan
}

func TestScaleInMovesJobs(t *testing.T) {
	c := scaled(t, "fifo", 1, 3)
	c.Policy = spread{}
	var log []sim.LogEntry
	c.Log = func(e sim.LogEntry) { log = append(log, e) }
	work := []sim.Work{job("wide", 12, 0, 10*time.Minute)}
	for _, id := range []string{"x", "y", "z"} {
		work = append(work, job(id, 1, 5*time.Minute, time.Hour))
	}
	pinned := slices.Clone(work)
	res := run(t, c, work...)
	// No node but the third makes a place for wide: all are ordered at the first
	// look, and it runs from 180 s to 780 s. Then the others start, on a node
	// each. At 840 s their utility is 3/12, and one node holds them all.
	within(t, "wide start", res.Jobs[0].Start, 180)
	want := []sim.NodePoint{{T: 0, Ready: 1}, {T: 60, Ready: 1, Starting: 2}, {T: 180, Ready: 3}, {T: 840, Ready: 1}}
	if diff := cmp.Diff(want, res.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	moved := 0
	for _, j := range res.Jobs[1:] {
		within(t, string(j.ID)+" start", j.Start, 780)
		end := 780 + 3600.0
		if j.Preemptions == 1 {
			moved++
			end += 62 // a restart
		}
		within(t, string(j.ID)+" end", j.End, end)
	}
	// The two nodes that went were ordered at 60 s.
	within(t, "node-hours", res.Autoscale.NodeHours, (780+3600+62+2*(840-60))/3600.0)
	if moved != 2 {
		t.Errorf("%d jobs were moved, want 2", moved)
	}
	if !slices.ContainsFunc(log, func(e sim.LogEntry) bool {
		return e.T == 840 && e.Verb == "stop" && strings.Contains(e.Why, "given back")
	}) {
		t.Error("the log does not say that a job stopped because its node was given back")
	}

	// Jobs that may not be stopped keep their nodes until they end.
	for i := range pinned {
		pinned[i].NonPreemptible = true
	}
	res = run(t, c, pinned...)
	if got := nodesAt(res, 4000); got != 3 {
		t.Errorf("%d nodes, want the 3 with jobs that may not be stopped", got)
	}
}

// Many small jobs come and go: the cluster follows them, and the utility stays
// near its band most of the time.
func TestManyJobsStayInTheBand(t *testing.T) {
	c := scaled(t, "fifo", 1, 16)
	c.Interval = time.Minute
	c.Autoscale.Window = 5
	var work []sim.Work
	for i := range 120 { // 40 one-GPU jobs at once in the busy hours, 10 before and after
		gap := 6 * time.Minute
		if i >= 20 && i < 100 {
			gap = 90 * time.Second
		}
		at := time.Duration(0)
		if i > 0 {
			at = work[i-1].Submitted.Sub(start) + gap
		}
		work = append(work, job(fmt.Sprint("j", i), 1, at, time.Hour))
	}
	res := run(t, c, work...)
	busy := nodesAt(res, work[99].Submitted.Sub(start).Seconds())
	calm := nodesAt(res, work[19].Submitted.Sub(start).Seconds())
	if res.Unfinished != 0 || calm > 8 || busy < 10 {
		t.Errorf("%d unfinished; %d nodes with about 10 jobs of a GPU, %d with about 40; want at most 8 and at least 10", res.Unfinished, calm, busy)
	}
	if last := nodesAt(res, res.Makespan-60); last >= busy {
		t.Errorf("%d nodes in the end, want fewer than the %d of the busy hours", last, busy)
	}
	if res.Allocation < 0.35 || res.Allocation > 0.8 {
		t.Errorf("%.2f of the GPU time was used, want it to be near the band of 0.35 to 0.65", res.Allocation)
	}
	t.Logf("nodes %v; allocation %.2f, wait %.0f s", res.Nodes, res.Allocation, res.AvgWait)
}

// nodesAt returns the nodes that took work at a time.
func nodesAt(res *sim.Result, at float64) int {
	n := 0
	for _, p := range res.Nodes {
		if p.T <= at {
			n = p.Ready
		}
	}
	return n
}

// greedy is a policy for one elastic job: it gets all GPUs that there are and
// that its agent can use.
type greedy struct{}

func (greedy) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		most := min(max(1, 2*j.MostGPUs), j.MaxGPUs)
		if j.Perf != nil {
			most = min(most, j.Perf.MostGPUs)
		}
		most = min(most, s.Cluster.GPUs())
		if j.Phase == sched.Running && j.Placement.GPUs() >= most {
			plan.Want[i], plan.Wake = j.Placement, s.Now.Add(time.Minute)
			continue
		}
		p, ok := place.MostFree(place.NewFree(s.Cluster), j, most)
		if !ok {
			plan.Why[i] = sched.Reason{Code: sched.Full, Need: 1}
			continue
		}
		plan.Want[i] = p
		plan.Wake = s.Now.Add(time.Minute)
	}
	return plan
}

func bigJob(t *testing.T, rule autoscale.Rule) *sim.Result {
	t.Helper()
	c := scaled(t, "fifo", 1, 16)
	c.Policy, c.Interval = greedy{}, time.Minute
	c.Autoscale.Rule, c.CoAdapt, c.Agent = rule, true, 30*time.Second
	return run(t, c, sim.Work{Spec: sched.Spec{
		ID: "big", Model: "imagenet", GPUs: 1, MinGPUs: 1, MaxGPUs: 64, Submitted: start,
		Batch: sched.Batch{Initial: 200, Max: 12800, LocalMin: 20, LocalMax: 200, Adapt: true},
	}})
}

// One large job: by goodput the cluster grows as training goes on, by
// throughput it is large from the start; the first is cheaper and takes longer.
func TestOneBigJobGrowsTheCluster(t *testing.T) {
	byGoodput, byThroughput := bigJob(t, autoscale.Goodput), bigJob(t, autoscale.Throughput)
	for _, res := range []*sim.Result{byGoodput, byThroughput} {
		t.Logf("%s: %.1f h, %.0f node-hours, cost %.0f, nodes %v", res.Autoscale.Rule, res.Makespan/3600, res.Autoscale.NodeHours, res.Autoscale.Cost, res.Nodes)
	}
	early, late := nodesAt(byGoodput, 0.1*byGoodput.Makespan), nodesAt(byGoodput, 0.9*byGoodput.Makespan)
	if early >= late || late < 6 {
		t.Errorf("by goodput: %d nodes after a tenth of the time and %d before the last; want the cluster to grow", early, late)
	}
	if got := nodesAt(byThroughput, 3600); got != 16 {
		t.Errorf("by throughput: %d nodes after an hour, want all 16", got)
	}
	cost := byGoodput.Autoscale.Cost / byThroughput.Autoscale.Cost
	span := byGoodput.Makespan / byThroughput.Makespan
	if cost > 0.9 || span < 1 {
		t.Errorf("by goodput the job costs %.2f and takes %.2f of what it does by throughput; want it to be cheaper and slower", cost, span)
	}
}

// Jobs that can never run do not keep the scaler looking for ever.
func TestHopelessJobsEndTheRun(t *testing.T) {
	res := run(t, scaled(t, "fifo", 1, 4), job("huge", 17, 0, time.Hour), job("a", 4, 0, time.Hour))
	if res.Unfinished != 1 {
		t.Errorf("%d unfinished, want the one that is too large", res.Unfinished)
	}
	if res.Autoscale.NodeHours > 4*1.5 {
		t.Errorf("%.1f node-hours for a job of one hour", res.Autoscale.NodeHours)
	}
}

func TestAutoscaledRunIsDeterministic(t *testing.T) {
	once := func() []byte {
		b, err := json.Marshal(bigJob(t, autoscale.Goodput))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if a, b := once(), once(); !bytes.Equal(a, b) {
		t.Error("two runs differ")
	}
}

func TestBadAutoscale(t *testing.T) {
	for _, tc := range []struct {
		edit func(*sim.Config)
		want string
	}{
		{func(c *sim.Config) { c.Autoscale.Max = 5 }, "max = 5"},
		{func(c *sim.Config) { c.Autoscale.Min = 0 }, "min = 0"},
		{func(c *sim.Config) { c.Autoscale.Delay = -1 }, "delay"},
		{func(c *sim.Config) { c.Autoscale.Price = -1 }, "price = -1"},
		{func(c *sim.Config) {
			c.Cluster, _ = sim.ParseCluster("2x4+2x8", "t4")
		}, "one kind"},
	} {
		c := scaled(t, "fifo", 1, 4)
		tc.edit(&c)
		if _, _, err := sim.Run(c, &sim.Workload{Name: "w", Start: start}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one about %q", err, tc.want)
		}
	}
}

// Without the cloud and without a search, a result has no word about them.
func TestPlainResultsStayPlain(t *testing.T) {
	b, err := json.Marshal(run(t, config(t, "1x4", "fifo"), job("a", 4, 0, time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"autoscale", "node_hours", "search", "trials", `"nodes":[`} {
		if bytes.Contains(b, []byte(word)) {
			t.Errorf("the result says %q: %s", word, b)
		}
	}
}
