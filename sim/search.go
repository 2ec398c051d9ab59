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
	"github.com/fairway-gpu/fairway/tune/search"
)

// SearchConfig adds an app with a hyper-parameter search to the workload: its jobs
// are trials, and the end of one starts the next. All trials train the same model to
// the end. Their step times and final quality follow from their hyper-parameters by
// an analytic surface; the quality does not depend on the schedule. Schedulers differ
// in the time of the search, and in its outcome only by the order in which trials
// end.
type SearchConfig struct {
	App    sched.AppID
	Start  time.Duration // when the first trials are submitted, since the start of the workload
	Trials int
	AtOnce int // trials pending or running at the same time
	// Trial is what every trial trains and asks for. ID, App and Submitted are filled
	// in.
	Trial   Work
	Surface search.Surface
	Tuner   search.Config
}

// DefaultSearch returns the search of the Pollux paper: a hundred trials of ResNet-18
// on CIFAR-10, four at a time, on four GPUs each unless the policy chooses the
// number.
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
		Surface: search.CIFAR10(),
		Tuner:   search.Default(seed),
	}
}

// SearchSummary is the result of a search, and how long it took.
type SearchSummary struct {
	App    sched.AppID `json:"app"`
	Trials int         `json:"trials"` // that ended
	Best   float64     `json:"best_quality"`
	// Top and TopSpread are mean and standard deviation of the best five.
	Top       float64 `json:"top5_quality"`
	TopSpread float64 `json:"top5_spread"`
	Params    string  `json:"best_params"`
	MeanTrial float64 `json:"mean_trial_s"` // submission to end
	Makespan  float64 `json:"makespan_s"`   // first submission to last end
}

// TrialResult is one trial of a search, in the order of submission.
type TrialResult struct {
	Job     sched.JobID `json:"job"`
	Params  string      `json:"params"`
	Quality float64     `json:"quality"` // percent; 0: it has not ended
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
	}
	if err := s.Surface.Validate(); err != nil {
		return fmt.Errorf("simulate: search: %w", err)
	}
	return nil
}

// maxTrials bounds a search; every suggestion considers all earlier trials.
const maxTrials = 100_000

// searchApp is a search in progress.
type searchApp struct {
	SearchConfig
	tuner  *search.TPE
	truth  truth       // about a trial of normal speed
	empty  *place.Free // to compute how long a trial takes alone
	trials []trial     // by number
	number map[*job]int
}

type trial struct {
	params  search.Params
	job     *job
	ended   bool
	quality float64
}

// openSearch suggests the first trials and adds them to the jobs.
func (r *run) openSearch(empty *place.Free) error {
	c := r.Search
	if c == nil {
		return nil
	}
	s := &searchApp{SearchConfig: *c, empty: empty, number: map[*job]int{}}
	var err error
	if s.tuner, err = search.New(c.Surface.Space, c.Tuner); err != nil {
		return err
	}
	for _, j := range r.jobs {
		if j.work.App == c.App || (j.work.App == "" && j.work.ID == sched.JobID(c.App)) {
			return fmt.Errorf("search: app = %q; job %s of the workload has that app, want another name", c.App, j.work.ID)
		}
	}
	usual := c.Trial
	usual.ID = "trial"
	if err := usual.Validate(); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	if s.truth, err = r.truthOf(&usual); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	begin := r.start.Add(c.Start)
	var jobs []*job
	for len(jobs) < min(c.AtOnce, c.Trials) {
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

// suggest returns the job of the next trial.
func (s *searchApp) suggest(at time.Time) (*job, error) {
	w := s.Trial
	w.ID = sched.JobID(fmt.Sprintf("%s-%04d", s.App, len(s.trials)+1))
	w.App, w.Submitted = s.App, at
	p := s.tuner.Suggest()
	j := &job{work: &w, truth: s.truth}
	if s.Surface.Pace != nil {
		j.truth = paceOf(s.truth, s.Surface.Pace(p))
	}
	var err error
	j.alone, err = alone(j.truth, &w, s.empty, w.GPUs)
	s.number[j] = len(s.trials)
	s.trials = append(s.trials, trial{params: p, job: j})
	return j, err
}

// paceOf returns the truth of a job that is slower by a factor.
func paceOf(t truth, pace float64) truth {
	if tr, ok := t.(trainer); ok {
		return &slowerTrainer{tr, pace}
	}
	return &slower{t, pace}
}

type slower struct {
	truth
	pace float64
}

func (s *slower) rate(done float64, at setting) (rate, until float64, err error) {
	rate, until, err = s.truth.rate(done, at)
	return rate / s.pace, until, err
}

type slowerTrainer struct {
	trainer
	pace float64
}

func (s *slowerTrainer) rate(done float64, at setting) (rate, until float64, err error) {
	rate, until, err = s.trainer.rate(done, at)
	return rate / s.pace, until, err
}

func (s *slowerTrainer) observe(done float64, at setting) (observation, error) {
	o, err := s.trainer.observe(done, at)
	o.step *= s.pace
	o.sync *= s.pace
	return o, err
}

// registerSearch tells the recorder the final size of the app: at most AtOnce trials
// ask for GPUs at the same time.
func (r *run) registerSearch() {
	if s := r.search; s != nil {
		a := r.record.apps[s.App]
		a.jobs, a.Most = s.Trials, min(s.AtOnce, s.Trials)*s.Trial.GPUs
	}
}

// trialEnds records the quality of a trial and submits the next one. The ended trial
// is still in the state, so that the app does not end between two trials.
func (r *run) trialEnds(j *job, phase sched.Phase) error {
	s := r.search
	if s == nil {
		return nil
	}
	n, ok := s.number[j]
	if !ok {
		return nil
	}
	t := &s.trials[n]
	t.ended = true
	if phase != sched.Failed {
		t.quality = s.Surface.Quality(t.params, s.Tuner.Seed, uint64(n))
		if err := s.tuner.Observe(t.params, 100-t.quality); err != nil {
			return fmt.Errorf("trial %s: %w", j.work.ID, err)
		}
	}
	if len(s.trials) == s.Trials {
		return nil
	}
	next, err := s.suggest(r.start.Add(r.now))
	if err != nil {
		return err
	}
	if _, taken := r.byID[next.work.ID]; taken {
		return fmt.Errorf("trial %s: a job of the workload has that id; ids must differ", next.work.ID)
	}
	// The state numbers jobs by arrival, as r.jobs and the results do: the trial goes
	// before jobs that have not arrived.
	r.jobs = slices.Insert(r.jobs, r.arrived, next)
	for i := r.arrived; i < len(r.jobs); i++ {
		r.jobs[i].result = i
	}
	r.byID[next.work.ID] = next
	r.record.jobs = slices.Insert(r.record.jobs, r.arrived, r.blankResult(r.arrived))
	a := r.record.apps[s.App]
	a.Jobs = append(a.Jobs, r.factsOf(next))
	r.arrived++
	return r.submit(next)
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
	for _, t := range s.trials {
		res.Trials = append(res.Trials, TrialResult{Job: t.job.work.ID, Params: s.Surface.Space.Text(t.params), Quality: t.quality})
		j := &res.Jobs[t.job.result]
		first = min(first, j.Submit)
		if !t.ended {
			continue
		}
		sum.Trials++
		last = max(last, j.End)
		times = append(times, j.JCT)
		if t.quality > 0 {
			reached = append(reached, t.quality)
		}
		if t.quality > sum.Best {
			sum.Best, sum.Params = t.quality, s.Surface.Space.Text(t.params)
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
