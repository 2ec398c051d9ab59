// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
)

// firstSeen is a policy that keeps the first estimate and rate of each job.
type firstSeen struct {
	sched.Policy
	estimate map[sched.JobID]time.Duration
	rates    *[]float64 // of jobs that run, where nothing has been measured yet
}

func (s firstSeen) Schedule(snap *sched.Snapshot) sched.Plan {
	for _, j := range snap.Jobs {
		if _, ok := s.estimate[j.ID]; !ok {
			s.estimate[j.ID] = j.Estimate.D()
		}
		if j.Phase == sched.Running && snap.Now.Before(j.ReportedAt) {
			*s.rates = append(*s.rates, j.Rate)
		}
	}
	return s.Policy.Schedule(snap)
}

func estimates(t *testing.T, c sim.Config, work ...sim.Work) (map[sched.JobID]time.Duration, *sim.Result) {
	t.Helper()
	watch := firstSeen{c.Policy, map[sched.JobID]time.Duration{}, new([]float64)}
	c.Policy = watch
	return watch.estimate, run(t, c, work...)
}

// TestEstimates: each mode gives policies exactly the estimates that it promises.
func TestEstimates(t *testing.T) {
	of := func(w sim.Work, user string) sim.Work {
		w.User = user
		return w
	}
	work := []sim.Work{
		of(job("first", 1, 0, 10*time.Minute), "ann"),
		of(job("second", 1, 20*time.Minute, 30*time.Minute), "ann"),
		of(job("other", 1, 30*time.Minute, time.Minute), "bob"),
		of(job("third", 1, 2*time.Hour, 40*time.Minute), "ann"),
		of(job("said", 1, 3*time.Hour, 50*time.Minute), "ann"),
	}
	work[4].Estimate = sched.Duration(2 * time.Hour)
	for _, w := range []struct {
		mode sim.Estimates
		want [5]time.Duration // -1: anything that the run time allows
	}{
		{sim.Exact, [5]time.Duration{10 * time.Minute, 30 * time.Minute, time.Minute, 40 * time.Minute, 50 * time.Minute}},
		{sim.None, [5]time.Duration{}},
		{sim.History, [5]time.Duration{0, 10 * time.Minute, 0, 20 * time.Minute, 2 * time.Hour}},
		{"", [5]time.Duration{0, 10 * time.Minute, 0, 20 * time.Minute, 2 * time.Hour}},
		{sim.User, [5]time.Duration{-1, -1, -1, -1, 2 * time.Hour}},
	} {
		c := config(t, "1x4", "srtf")
		c.Estimates, c.UsesEstimates = w.mode, true
		got, res := estimates(t, c, work...)
		for i, want := range w.want {
			id := work[i].ID
			if least := work[i].RunTime.D(); want < 0 && got[id] < least || want >= 0 && got[id] != want {
				t.Errorf("%q: policies get the estimate %s of %s; want %s", w.mode, got[id], id, want)
			}
		}
		if res.Oracle != (w.mode == sim.Exact) || (w.mode != "" && res.Estimates != w.mode) {
			t.Errorf("%q: the result says oracle %t and estimates %q", w.mode, res.Oracle, res.Estimates)
		}
	}
	c := config(t, "1x4", "srtf")
	c.Estimates = "guess"
	if _, _, err := sim.Run(c, &sim.Workload{Start: start}); err == nil {
		t.Error("estimates = guess is accepted")
	}
}

// TestOracleIsMarked: a policy that ignores estimates is no oracle with exact ones,
// and one that asks for the truth is one with any.
func TestOracleIsMarked(t *testing.T) {
	c := config(t, "1x4", "fifo")
	c.Estimates = sim.Exact
	if res := run(t, c, job("a", 1, 0, time.Minute)); res.Oracle || res.Label() != "fifo" {
		t.Errorf("fifo is %q", res.Label())
	}
	c = config(t, "1x4", "optimus")
	c.Oracle = true
	if res := run(t, c, job("a", 1, 0, time.Minute)); !res.Oracle || res.Label() != "optimus (oracle)" {
		t.Errorf("optimus is %q", res.Label())
	}
}

// TestUserEstimates: users say round numbers and too much, by the factors that
// studies found; who says what depends on the seed and the job alone.
func TestUserEstimates(t *testing.T) {
	const n = 4000
	c := config(t, "1x8", "fifo:greedy")
	c.Estimates, c.Until, c.Seed = sim.User, time.Hour, 7
	var work []sim.Work
	for i := range n {
		work = append(work, job(fmt.Sprint("j", i), 1, 0, 47*time.Minute))
	}
	got, _ := estimates(t, c, work...)
	values := map[time.Duration]int{}
	var parts []float64
	for _, said := range got {
		values[said]++
		parts = append(parts, (47*time.Minute).Seconds()/said.Seconds())
	}
	slices.Sort(parts)
	if len(got) != n || len(values) > 20 || parts[n-1] > 1 {
		t.Errorf("%d jobs have %d different estimates, the lowest %.2f of the run time; want %d, at most 20, no less than it", len(got), len(values), 1/parts[n-1], n)
	}
	// Even from 0 to 1 with a peak at 1; round numbers move it down.
	if median := parts[n/2]; median < 0.3 || median > 0.55 {
		t.Errorf("the run time is %.2f of the estimate for the median job; want about half", median)
	}
	sum := 0.0
	for said, count := range values {
		odds := sim.GuessOdds(said, 47*time.Minute)
		sum += odds
		if share := float64(count) / n; math.Abs(share-odds) > 0.03 {
			t.Errorf("%.2f of the users say %s; the odds are %.2f", share, said, odds)
		}
	}
	if math.Abs(sum-1) > 0.02 || sim.GuessOdds(30*time.Minute, 47*time.Minute) != 0 {
		t.Errorf("the odds of all that users say add up to %.2f; want 1, and 0 for less than the run time", sum)
	}
	again, _ := estimates(t, c, slices.Concat(work[n/2:], work[:n/2])...)
	for id, said := range got {
		if again[id] != said {
			t.Fatalf("%s is said to take %s, and %s when jobs come in another order", id, said, again[id])
		}
	}
}

// TestNoSpeedBeforeAStep: until a job has loaded, policies do not know how fast it is
// there; with exact estimates they do.
func TestNoSpeedBeforeAStep(t *testing.T) {
	for _, mode := range []sim.Estimates{sim.History, sim.Exact} {
		c := config(t, "1x4", "las:lease=3m")
		c.Estimates, c.Interval, c.Until = mode, 10*time.Second, time.Hour
		rates := new([]float64)
		c.Policy = firstSeen{c.Policy, map[sched.JobID]time.Duration{}, rates}
		work := []sim.Work{job("a", 4, 0, 10*time.Minute), job("b", 4, time.Second, 10*time.Minute)}
		for i := range 60 { // too large for the cluster: they only make the policy look
			work = append(work, job(fmt.Sprint("large", i), 8, time.Duration(i+1)*20*time.Second, time.Minute))
		}
		run(t, c, work...)
		if len(*rates) == 0 {
			t.Fatalf("%s: nobody looked at a job that was starting", mode)
		}
		for _, rate := range *rates {
			if (rate > 0) != (mode == sim.Exact) {
				t.Fatalf("%s: a job that is starting has rate %g", mode, rate)
			}
		}
	}
}

// speeds is a policy that keeps the first and the last report of every job.
type speeds struct {
	sched.Policy
	first, last map[sched.JobID]*goodput.Report
}

func (s speeds) Schedule(snap *sched.Snapshot) sched.Plan {
	for _, j := range snap.Jobs {
		if s.first[j.ID] == nil {
			s.first[j.ID] = j.Perf
		}
		s.last[j.ID] = j.Perf
	}
	return s.Policy.Schedule(snap)
}

// TestBorrowedSpeeds: before a job has run on a type of GPU, its speed there is
// what other models say, whatever its own; where it has run it is its own.
func TestBorrowedSpeeds(t *testing.T) {
	c := config(t, "1x2:t4+1x2:a100", "gavel")
	c.CoAdapt, c.Losses, c.Agent, c.Interval = true, true, 30*time.Second, time.Minute
	watch := speeds{c.Policy, map[sched.JobID]*goodput.Report{}, map[sched.JobID]*goodput.Report{}}
	c.Policy = watch
	m, _ := c.Zoo.Model("deepspeech") // much less faster on the A100 than others
	slow, _ := m.StepTimeOn("t4")
	fast, _ := m.StepTimeOn("a100")
	res := run(t, c,
		sim.Work{Spec: sched.Spec{ID: "a", GPUs: 2, Model: "deepspeech", Submitted: start}, RunTime: sched.Duration(3 * time.Hour)},
		sim.Work{Spec: sched.Spec{ID: "end", GPUs: 2, Model: "deepspeech", Submitted: start.Add(2 * time.Minute), GPUTypes: []sched.GPUType{"t4"}}, RunTime: sched.Duration(time.Minute)})
	if res.Oracle {
		t.Error("a run with borrowed speeds is marked as an oracle's")
	}
	ratio := func(r *goodput.Report) float64 { return r.StepTimes[0].Time / r.StepTimes[1].Time }
	first := watch.first["a"]
	if len(first.StepTimes) != 2 || !first.StepTimes[0].Borrowed || !first.StepTimes[1].Borrowed {
		t.Fatalf("before it ran: %+v; want two borrowed times", first.StepTimes)
	}
	if got, own := ratio(first), slow/fast; got < 1.5*own || math.IsInf(got, 0) {
		t.Errorf("before it ran the A100 is taken to be %.2f times as fast; want what others say, well above its own %.2f", got, own)
	}
	last := watch.last["a"].StepTimes
	own := slices.IndexFunc(last, func(s goodput.StepTime) bool { return !s.Borrowed })
	if len(last) != 2 || own < 0 || !last[1-own].Borrowed {
		t.Fatalf("after it ran: %+v; want its own time on one type and a borrowed one on the other", last)
	}
	if got := ratio(watch.last["a"]); math.Abs(got/ratio(first)-1) > 1e-9 {
		t.Errorf("after it ran on one type the ratio of the types is %.3f; want still %.3f", got, ratio(first))
	}
	if want := map[string]float64{"t4": 1, "a100": fast / slow}[last[own].Type]; math.Abs(last[own].Time/want-1) > 1e-9 {
		t.Errorf("after it ran on %s a step takes %g s; want %g", last[own].Type, last[own].Time, want)
	}
}
