// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/tune/search"
)

// searching returns a configuration with a search of n trials.
func searching(t *testing.T, cluster, spec string, n int) sim.Config {
	t.Helper()
	c := config(t, cluster, spec)
	s := sim.DefaultSearch(7)
	s.Trials = n
	c.Search = &s
	return c
}

// Twenty trials of equal length on four GPUs each, four at once on 16 GPUs: five
// rounds of the time that one takes alone.
func TestStaticSearch(t *testing.T) {
	c := searching(t, "2x8", "fifo", 20)
	problem := search.CIFAR10()
	problem.Pace = nil
	c.Search.Problem = problem
	res := run(t, c)
	alone := aloneAt(t, 1)

	s := res.Search
	if s == nil || s.Trials != 20 || res.Jobs[19].ID != "search-0020" || res.Unfinished != 0 || len(res.Trials) != 20 {
		t.Fatalf("search %+v, %d jobs, %d unfinished; want 20 trials to the end", s, len(res.Jobs), res.Unfinished)
	}
	near(t, "mean trial", s.MeanTrial, alone)
	near(t, "makespan", s.Makespan, 5*alone)
	for i, j := range res.Jobs {
		near(t, string(j.ID)+" comes", j.Submit, float64(i/4)*alone)
	}
	best := 0.0
	for i, trial := range res.Trials {
		if trial.Job != res.Jobs[i].ID || trial.Quality < 10 || !strings.Contains(trial.Params, "lr=") {
			t.Errorf("trial %+v; want the job %s, a quality and parameters", trial, res.Jobs[i].ID)
		}
		best = max(best, trial.Quality)
	}
	if s.Best != best || s.Top > best || s.Top < best-2 || s.TopSpread <= 0 {
		t.Errorf("best %.2f, top five %.2f +- %.2f; the best trial has %.2f", s.Best, s.Top, s.TopSpread, best)
	}
	// The app has the cluster to itself, always: it ends when it would alone.
	if math.Abs(res.MaxRho-1) > 1e-6 {
		t.Errorf("rho %g, want 1", res.MaxRho)
	}
	t.Logf("mean trial %.1f min, makespan %.2f h, best %.2f %%, top five %.2f +- %.2f %%", s.MeanTrial/60, s.Makespan/3600, s.Best, s.Top, s.TopSpread)
}

// near checks a time to a millisecond: the end of every phase of a training is
// rounded up to a whole nanosecond.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3 {
		t.Errorf("%s: %.3f s, want %.3f s", what, got, want)
	}
}

// aloneAt returns the time of a training whose steps take that much longer.
func aloneAt(t *testing.T, pace float64) float64 {
	t.Helper()
	return pace * run(t, config(t, "1x8", "fifo"), sim.Work{
		Spec: sched.Spec{ID: "a", GPUs: 4, Model: "cifar10", Submitted: start}, BatchSize: 512,
	}).Jobs[0].JCT
}

// A trial takes as long as its hyper-parameters say, and the next one comes
// when any of those that run ends.
func TestTrialsOfDifferentLength(t *testing.T) {
	c := searching(t, "2x8", "fifo", 20)
	paces := map[sched.JobID]float64{}
	problem := search.CIFAR10()
	pace := problem.Pace
	problem.Pace = func(p search.Params) float64 {
		x := pace(p)
		paces[sched.JobID(fmt.Sprintf("search-%04d", len(paces)+1))] = x
		return x
	}
	c.Search.Problem = problem
	res := run(t, c)
	usual := aloneAt(t, 1)
	ends := []float64{0, 0, 0, 0} // of the trials that run
	work := 0.0
	for _, j := range res.Jobs {
		slices.Sort(ends)
		near(t, string(j.ID)+" comes", j.Submit, ends[0])
		near(t, string(j.ID)+" takes", j.JCT, paces[j.ID]*usual)
		ends[0] = j.End
		work += paces[j.ID] * usual / 4 // on a quarter of the cluster
	}
	within(t, "rho", res.MaxRho, res.Search.Makespan/work)
}

// What agents measure of a trial is what it does: with and without them, trials
// that do not adapt their batch take the same time.
func TestAgentsSeeThePaceOfTrials(t *testing.T) {
	times := func(agents bool) []float64 {
		c := searching(t, "2x8", "fifo", 8)
		c.CoAdapt, c.Agent = agents, 30*time.Second
		w := &c.Search.Trial
		w.GPUs, w.MinGPUs, w.MaxGPUs, w.Batch, w.BatchSize = 2, 0, 0, sched.Batch{}, 4096 // two gradients for each step
		var out []float64
		for _, j := range run(t, c).Jobs {
			out = append(out, math.Round(j.JCT*1000))
		}
		return out
	}
	if a, b := times(true), times(false); !slices.Equal(a, b) {
		t.Errorf("trials take %v ms with agents, %v ms without", a, b)
	}
}

func TestSearchIsDeterministic(t *testing.T) {
	once := func(seed uint64) []byte {
		c := searching(t, "2x8", "las", 30)
		c.Search.Seed, c.Interval = seed, time.Minute
		b, err := json.Marshal(run(t, c, job("other", 8, 20*time.Minute, 3*time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(once(1), once(1)) {
		t.Error("two runs differ")
	}
	if bytes.Equal(once(1), once(2)) {
		t.Error("two seeds give the same result")
	}
}

// Trials come between the jobs of a workload: results stay in the order of
// submission, and every result belongs to its job.
func TestTrialsAmongOtherJobs(t *testing.T) {
	c := searching(t, "4x8", "fifo", 12)
	c.Search.AtOnce, c.Search.Start = 2, 10*time.Minute
	var work []sim.Work
	for i := range 40 {
		work = append(work, job(fmt.Sprint("job", i), 1+i%3, time.Duration(i)*7*time.Minute, time.Duration(5+i)*time.Minute))
	}
	res := run(t, c, work...)
	if len(res.Jobs) != 52 || res.Unfinished != 0 || res.Search.Trials != 12 {
		t.Fatalf("%d jobs, %d unfinished, %d trials; want 52, 0, 12", len(res.Jobs), res.Unfinished, res.Search.Trials)
	}
	others, active := 0, 0
	for i, j := range res.Jobs {
		if i > 0 && j.Submit < res.Jobs[i-1].Submit {
			t.Errorf("%s comes at %g s, after %s at %g s", j.ID, j.Submit, res.Jobs[i-1].ID, res.Jobs[i-1].Submit)
		}
		if j.App == "search" {
			active++
			if j.Model != "cifar10" || j.GPUs != 4 {
				t.Errorf("trial %s trains %q on %d GPUs", j.ID, j.Model, j.GPUs)
			}
			continue
		}
		w := work[others]
		others++
		// The cluster is large enough for all: a job runs for as long as it takes.
		if j.ID != w.ID || j.GPUs != w.GPUs || math.Abs(j.JCT-w.RunTime.D().Seconds()) > 1e-6 {
			t.Errorf("result %d is of %s on %d GPUs for %g s; want %s on %d for %s", i, j.ID, j.GPUs, j.JCT, w.ID, w.GPUs, w.RunTime)
		}
	}
	if active != 12 {
		t.Errorf("%d trials among the results, want 12", active)
	}
	for i, trial := range res.Trials {
		if want := sched.JobID(fmt.Sprintf("search-%04d", i+1)); trial.Job != want {
			t.Errorf("trial %d is %s, want %s", i, trial.Job, want)
		}
	}
}

// watcher counts the active trials a policy sees.
type watcher struct {
	sched.Policy
	most   int
	births map[time.Time]bool // of the app
}

func (w *watcher) Schedule(s *sched.Snapshot) sched.Plan {
	n := 0
	for _, j := range s.Jobs {
		if j.App == "search" {
			n++
		}
	}
	w.most = max(w.most, n)
	if a, ok := s.App("search"); ok {
		w.births[a.Submitted] = true
	}
	return w.Policy.Schedule(s)
}

// To a policy the search is one app from its first trial to its last, with no
// more trials than may run at once.
func TestASearchIsOneApp(t *testing.T) {
	c := searching(t, "2x8", "fifo", 12)
	c.Search.AtOnce = 3
	w := &watcher{Policy: c.Policy, births: map[time.Time]bool{}}
	c.Policy = w
	run(t, c)
	if w.most != 3 || len(w.births) != 1 || !w.births[start] {
		t.Errorf("%d trials at once, app submitted at %v; want 3 and once, at the start", w.most, w.births)
	}
}

func TestCutOffSearch(t *testing.T) {
	c := searching(t, "2x8", "fifo", 100)
	c.Until = time.Hour
	res := run(t, c)
	if res.Search.Trials >= 100 || res.Unfinished != 4 || len(res.Trials) != len(res.Jobs) {
		t.Errorf("%d trials of 100 ended, %d unfinished, %d trials and %d jobs", res.Search.Trials, res.Unfinished, len(res.Trials), len(res.Jobs))
	}
}

func TestBadSearch(t *testing.T) {
	for _, tc := range []struct {
		edit func(*sim.SearchConfig)
		want string
	}{
		{func(s *sim.SearchConfig) { s.App = "" }, "app is empty"},
		{func(s *sim.SearchConfig) { s.App = "taken" }, "taken"},
		{func(s *sim.SearchConfig) { s.Trials = 0 }, "trials = 0"},
		{func(s *sim.SearchConfig) { s.AtOnce = 0 }, "at once = 0"},
		{func(s *sim.SearchConfig) { s.Start = -1 }, "start"},
		{func(s *sim.SearchConfig) { s.Problem = nil }, "problem is missing"},
		{func(s *sim.SearchConfig) { s.Problem = search.Surface{} }, "loss"},
		{func(s *sim.SearchConfig) { s.Method = "guess" }, "guess"},
		{func(s *sim.SearchConfig) { s.Stopping.Rule = "never" }, "never"},
		{func(s *sim.SearchConfig) { s.Trial.GPUs = 0 }, "gpus = 0"},
		{func(s *sim.SearchConfig) { s.Trial.Model = "unheard-of" }, "unheard-of"},
	} {
		c := searching(t, "2x8", "fifo", 20)
		tc.edit(c.Search)
		_, _, err := sim.Run(c, &sim.Workload{Name: "w", Start: start, Work: []sim.Work{job("taken", 1, 0, time.Hour)}})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one about %q", err, tc.want)
		}
	}
}
