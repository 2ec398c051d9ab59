// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sched/place"
	"github.com/fairway-gpu/fairway/tune"
	"github.com/fairway-gpu/fairway/tune/search"
)

// SearchConfig adds an app with a hyper-parameter search to the workload: its jobs
// are trials, and the end of one starts the next. Trials train the same model; their
// step times and their quality after each epoch follow from their hyper-parameters, by
// the search problem, and the quality does not depend on the schedule. Schedulers
// differ in the time of the search, and in its outcome only by the order in which
// trials report and end.
type SearchConfig struct {
	App    sched.AppID
	Start  time.Duration // when the first trials are submitted, since the start of the workload
	Trials int
	AtOnce int // trials pending or running at the same time
	// Trial is what every trial trains and asks for. ID, App and Submitted are filled
	// in.
	Trial   Work
	Problem search.Problem
	Method  tune.Method // how trials are sampled
	// Stopping says which trials stop early. Iterations are epochs; Goal and, if 0, Max
	// are filled in.
	Stopping tune.Config
	Seed     uint64
}

// DefaultSearch returns the search of the Pollux paper: a hundred trials of ResNet-18
// on CIFAR-10 by TPE, four at a time, on four GPUs each unless the policy chooses the
// number, and each to its end.
func DefaultSearch(seed uint64) SearchConfig {
	return SearchConfig{
		App: "search", Trials: 100, AtOnce: 4,
		Trial: Work{
			Spec: sched.Spec{
				Model: "cifar10", GPUs: 4, MinGPUs: 1, MaxGPUs: 128,
				Batch: sched.Batch{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 1024, Adapt: true},
			},
			BatchSize: 512,
		},
		Problem: search.CIFAR10(), Method: tune.TPE, Stopping: tune.Config{Rule: tune.None}, Seed: seed,
	}
}

// SearchSummary is the result of a search, and how long it took.
type SearchSummary struct {
	App     sched.AppID `json:"app"`
	Trials  int         `json:"trials"`            // that ended
	Stopped int         `json:"stopped,omitempty"` // of these, early
	Best    float64     `json:"best_quality"`
	// Top and TopSpread are mean and standard deviation of the best five.
	Top        float64 `json:"top5_quality"`
	TopSpread  float64 `json:"top5_spread"`
	Params     string  `json:"best_params"`
	MeanTrial  float64 `json:"mean_trial_s"` // submission to end
	Makespan   float64 `json:"makespan_s"`   // first submission to last end
	GPUSeconds float64 `json:"gpu_seconds"`  // of all trials
}

// TrialResult is one trial of a search, in the order of submission.
type TrialResult struct {
	Job     sched.JobID `json:"job"`
	Params  string      `json:"params"`
	Quality float64     `json:"quality"`           // percent, the best of all epochs it was read after; 0: none
	Stopped string      `json:"stopped,omitempty"` // why it was stopped early
}

func (s *SearchConfig) check() error {
	if s == nil {
		return nil
	}
	switch {
	case s.App == "":
		return fmt.Errorf("simulate: search: app is empty; want a name")
	case s.Start < 0:
		return fmt.Errorf("simulate: search: start = %s; want 0 or more", s.Start)
	case s.Trials < 1 || s.Trials > maxTrials:
		return fmt.Errorf("simulate: search: trials = %d; want 1 to %d", s.Trials, maxTrials)
	case s.AtOnce < 1:
		return fmt.Errorf("simulate: search: trials at once = %d; want 1 or more", s.AtOnce)
	case s.Problem == nil:
		return fmt.Errorf("simulate: search: problem is missing")
	}
	if p, ok := s.Problem.(interface{ Validate() error }); ok {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("simulate: search: %w", err)
		}
	}
	return nil
}

// maxTrials bounds a search; every suggestion considers all earlier trials.
const maxTrials = 100_000

// searchApp is a search in progress.
type searchApp struct {
	SearchConfig
	tuner  *tune.Tuner
	source tune.Source
	start  func(search.Params) search.Trial
	truth  truth       // about a trial of normal speed
	empty  *place.Free // to compute how long a trial takes alone
	trials []trial     // by number
	number map[*job]int
	wanted int // trials that there will be: a grid may have fewer
}

// trial is one trial. Its readings are those of the epochs that it has completed.
type trial struct {
	search.Trial
	job     *job
	state   tune.State
	rung    int
	curve   []tune.Reading
	quality float64 // the best reading
	why     string  // it was stopped
}

// openSearch suggests the first trials and adds them to the jobs.
func (r *run) openSearch(empty *place.Free) error {
	c := r.Search
	if c == nil {
		return nil
	}
	for _, j := range r.jobs {
		if j.work.App == c.App || (j.work.App == "" && j.work.ID == sched.JobID(c.App)) {
			return fmt.Errorf("search: app = %q; job %s of the workload has that app, want another name", c.App, j.work.ID)
		}
	}
	s := &searchApp{SearchConfig: *c, empty: empty, number: map[*job]int{}, start: c.Problem.Open(c.Seed)}
	if err := s.open(); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	usual := c.Trial
	usual.ID = "trial"
	err := usual.Validate()
	if err == nil {
		s.truth, err = r.truthOf(&usual)
	}
	if err != nil {
		return fmt.Errorf("search: %w", err)
	}
	begin := r.start.Add(c.Start)
	var jobs []*job
	for len(jobs) < min(c.AtOnce, s.wanted) {
		j, err := s.suggest(begin)
		if err != nil {
			return fmt.Errorf("search: %w", err)
		}
		jobs = append(jobs, j)
	}
	at := 0
	for at < len(r.jobs) && !r.jobs[at].work.Submitted.After(begin) {
		at++
	}
	r.jobs = slices.Insert(r.jobs, at, jobs...)
	for i, j := range r.jobs {
		j.result = i
		r.byID[j.work.ID] = j
	}
	r.search = s
	return nil
}

// open makes the tuner and the source.
func (s *searchApp) open() (err error) {
	stopping := s.Stopping
	if stopping.Goal = tune.Maximise; stopping.Max == 0 {
		stopping.Max = float64(s.Problem.Length())
	}
	if s.tuner, err = tune.New(stopping); err != nil {
		return err
	}
	source := tune.SourceConfig{Method: s.Method, Space: s.Problem.Dimensions(), Goal: tune.Maximise, Seed: s.Seed, Trials: s.Trials}
	s.wanted = s.Trials
	if s.Method == tune.Grid {
		s.wanted = tune.GridSize(source, s.Trials)
	}
	s.source, err = tune.NewSource(source)
	return err
}

// suggest returns the job of the next trial.
func (s *searchApp) suggest(at time.Time) (*job, error) {
	w := s.Trial
	w.ID = sched.JobID(fmt.Sprintf("%s-%04d", s.App, len(s.trials)+1))
	w.App, w.Submitted = s.App, at
	p, ok := s.source.Next(len(s.trials), s.seen())
	if !ok {
		return nil, fmt.Errorf("there is no trial %d", len(s.trials))
	}
	t := trial{Trial: s.start(p)}
	j := &job{work: &w, truth: s.paceOf(t.Pace)}
	t.job = j
	var err error
	j.alone, err = alone(j.truth, &w, s.empty, w.GPUs)
	s.number[j] = len(s.trials)
	s.trials = append(s.trials, t)
	return j, err
}

// seen returns the outcomes of the trials that have ended.
func (s *searchApp) seen() []tune.Outcome {
	var out []tune.Outcome
	for i := range s.trials {
		if t := &s.trials[i]; t.state == tune.Finished || t.state == tune.Stopped {
			out = append(out, tune.Outcome{Params: t.Params, Value: t.quality})
		}
	}
	return out
}

// registerSearch tells the recorder the final size of the app: at most AtOnce trials
// ask for GPUs at the same time.
func (r *run) registerSearch() {
	if s := r.search; s != nil {
		a := r.record.apps[s.App]
		a.jobs, a.Most = s.wanted, min(s.AtOnce, s.wanted)*s.SearchConfig.Trial.GPUs
	}
}

// reportSearch adds the result of the search.
func (r *run) reportSearch(res *Result) {
	s := r.search
	if s == nil {
		return
	}
	sum := &SearchSummary{App: s.App}
	var reached, times []float64
	first, last := math.Inf(1), 0.0
	space := s.Problem.Dimensions()
	for _, t := range s.trials {
		res.Trials = append(res.Trials, TrialResult{Job: t.job.work.ID, Params: space.Text(t.Params), Quality: t.quality, Stopped: t.why})
		j := &res.Jobs[t.job.result]
		first = min(first, j.Submit)
		sum.GPUSeconds += j.GPUSeconds
		if t.state == tune.Active {
			continue
		}
		sum.Trials++
		if t.state == tune.Stopped {
			sum.Stopped++
		}
		last = max(last, j.End)
		times = append(times, j.JCT)
		if t.quality > 0 {
			reached = append(reached, t.quality)
		}
		if t.quality > sum.Best {
			sum.Best, sum.Params = t.quality, space.Text(t.Params)
		}
	}
	sum.MeanTrial = num.Mean(times)
	if last > 0 {
		sum.Makespan = last - first
	}
	slices.Sort(reached)
	top := reached[max(0, len(reached)-5):]
	sum.Top = num.Mean(top)
	for _, q := range top {
		sum.TopSpread += (q - sum.Top) * (q - sum.Top)
	}
	if len(top) > 1 {
		sum.TopSpread = math.Sqrt(sum.TopSpread / float64(len(top)-1))
	}
	res.Search = sum
}
