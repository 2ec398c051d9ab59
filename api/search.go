// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// SearchSpec is a request to search for hyper-parameters: an app whose jobs, the
// trials, are chosen as it goes and stopped early when they are not worth it.
type SearchSpec struct {
	ID         sched.AppID          `json:"id"`               // of the app; a search keeps its name for good
	Parameters map[string]Parameter `json:"parameters"`       // by name
	Method     string               `json:"method,omitempty"` // random (the default), grid or tpe
	Metric     Metric               `json:"metric,omitzero"`
	Stopping   StopRule             `json:"stopping,omitzero"`
	Trials     int                  `json:"trials,omitempty"`  // 0: a grid's all
	AtOnce     int                  `json:"at_once,omitempty"` // trials that run or wait for GPUs at a time; 0: 1
	Seed       uint64               `json:"seed,omitempty"`
	// Key makes creating idempotent, as that of a submission does.
	Key string `json:"key,omitempty"`
	// Trial is what each trial runs. {name} in its command and its variables
	// stands for the value of a parameter, which is in the variable
	// FAIRWAY_PARAM_NAME too.
	Trial Submission `json:"trial"`
}

// Parameter is what a hyper-parameter may be: a range, or a list of values.
type Parameter struct {
	Min   *float64 `json:"min,omitempty"`
	Max   *float64 `json:"max,omitempty"`
	Log   bool     `json:"log,omitempty"`   // search in the logarithm
	Int   bool     `json:"int,omitempty"`   // whole numbers
	Steps int      `json:"steps,omitempty"` // values of the range that a grid tries; 0: 3
	// Values are taken as they stand.
	Values []string `json:"values,omitempty"`
}

// Metric is what trials are compared by.
type Metric struct {
	Name string `json:"name,omitempty"` // as the job reports it; empty: loss
	Goal string `json:"goal,omitempty"` // minimise (the default) or maximise
}

// Of returns the metric of a measurement; ok is false if it is not in there.
func (m Metric) Of(p *Point) (value float64, ok bool) {
	if p == nil {
		return 0, false
	}
	if (m.Name == "" || m.Name == lossName) && p.Loss != nil {
		return *p.Loss, true
	}
	value, ok = p.Metrics[m.Name]
	return value, ok
}

const lossName = "loss"

// Maximises reports whether more is better.
func (m Metric) Maximises() bool { return m.Goal == Maximise }

// The goals of a metric.
const (
	Minimise = "minimise"
	Maximise = "maximise"
)

// StopRule says when a trial is not worth going on with. Min and Max count work,
// in the unit the job reports as done.
type StopRule struct {
	Rule   string   `json:"rule,omitempty"`   // none (the default), median, halving, hyperband, asha or pop
	Min    float64  `json:"min,omitempty"`    // none is stopped before; the first rung; 0: 1
	Max    float64  `json:"max,omitempty"`    // of a whole trial; 0: its work
	Eta    float64  `json:"eta,omitempty"`    // one trial of so many goes on at a rung; 0: 3
	Target *float64 `json:"target,omitempty"` // a value of the metric that is good enough
}

// The states of a search; those of jobs that fit.
const (
	SearchRunning = Running
	SearchPaused  = Paused
)

// Search is a search as people and programs see it.
type Search struct {
	ID        sched.AppID    `json:"id"`
	Tenant    sched.TenantID `json:"tenant,omitempty"`
	User      string         `json:"user,omitempty"`
	State     string         `json:"state"` // running, paused, finished, failed, killed
	Why       string         `json:"why,omitempty"`
	PausedBy  string         `json:"paused_by,omitempty"`
	Submitted time.Time      `json:"submitted"`
	Ended     time.Time      `json:"ended,omitzero"`
	Spec      SearchSpec     `json:"spec"`
	Trials    []Trial        `json:"trials"`         // by number, from 0
	Best      *int           `json:"best,omitempty"` // number of the best trial so far
}

// Over reports whether the search has ended.
func (s *Search) Over() bool { return !s.Ended.IsZero() }

// Trial is one trial of a search.
type Trial struct {
	Number int               `json:"number"`
	Params map[string]string `json:"params"`
	Job    sched.JobID       `json:"job,omitempty"` // empty: not submitted yet
	State  string            `json:"state"`         // of the job
	// Why says why it was stopped early, or how it failed.
	Why   string   `json:"why,omitempty"`
	Early bool     `json:"early,omitempty"` // the search stopped it
	Held  bool     `json:"held,omitempty"`  // the search paused it: others have to come as far
	Rung  int      `json:"rung,omitempty"`  // comparisons it has passed
	Value *float64 `json:"value,omitempty"` // best of the metric
	Done  float64  `json:"done,omitempty"`  // work done at the last reading
	// Curve is the metric over the work done; a listing of searches leaves it out.
	Curve []CurvePoint `json:"curve,omitempty"`
}

// CurvePoint is one reading of the metric.
type CurvePoint struct {
	Done  float64 `json:"done"`
	Value float64 `json:"value"`
}

// SearchList is all searches.
type SearchList struct {
	Searches []Search `json:"searches"`
}

// SearchRecord is the part of a record that is about a search. The zero values of
// its fields say nothing.
type SearchRecord struct {
	ID     sched.AppID    `json:"id"`
	Tenant sched.TenantID `json:"tenant,omitempty"`
	Spec   *SearchSpec    `json:"spec,omitempty"`  // it was created
	Owner  *Owner         `json:"owner,omitempty"` // with Spec: as whom its trials run

	Propose []Proposal  `json:"propose,omitempty"` // trials to submit
	Promote []Promotion `json:"promote,omitempty"`
	Stop    []TrialStop `json:"stop,omitempty"`
	Command Command     `json:"command,omitempty"` // pause or resume, by the actor
	State   string      `json:"state,omitempty"`   // it has ended: finished, failed or killed
	Why     string      `json:"why,omitempty"`     // with State
}

// Proposal is a trial to submit: its number is the next one.
type Proposal struct {
	Number int               `json:"number"`
	Params map[string]string `json:"params"`
}

// Promotion lets a trial go on after a comparison.
type Promotion struct {
	Trial int `json:"trial"`
	Rung  int `json:"rung"`
}

// TrialStop ends a trial early.
type TrialStop struct {
	Trial  int    `json:"trial"`
	Why    string `json:"why"`
	Failed bool   `json:"failed,omitempty"` // it cannot be run
}

// Searches is the service of searches. They are cancelled, paused and resumed as
// the apps they are.
type Searches interface {
	CreateSearch(context.Context, Identity, SearchSpec) (Search, error)
	Search(Identity, sched.AppID) (Search, error)
	// Searches returns all, newest first, without their curves.
	Searches(Identity) ([]Search, error)
}

// SearchLedger is what runs searches works from. What it decides is durable
// before it is acted on.
type SearchLedger interface {
	// OpenSearches returns the searches that have not ended, oldest first.
	OpenSearches() []OpenSearch
	// Searched yields a value when something about them may have changed.
	Searched() <-chan struct{}
	// NoteSearch makes decisions about a search durable. Those that do not fit the
	// search as it is now (it has ended; the trial is not the next) are refused.
	NoteSearch(context.Context, SearchRecord) error
	// NoteStages tells the policy what is left of a search that has jobs.
	NoteStages(context.Context, sched.AppID, []Stage) error
}

// Stage is a part of what is left of a search.
type Stage = sched.Stage

// OpenSearch is a search that goes on, with whom its trials run as.
type OpenSearch struct {
	Search
	Owner  Owner
	Stages []Stage // what the policy knows of what is left
}

// ParamPrefix begins the names of the variables that hold parameters.
const ParamPrefix = "FAIRWAY_PARAM_"

// ParamVariable returns the variable of a parameter.
func ParamVariable(name string) string { return ParamPrefix + strings.ToUpper(name) }

// Submission returns the job of a trial.
func (s *SearchSpec) Submission(p Proposal) Submission {
	pairs := make([]string, 0, 2*len(p.Params))
	for name, value := range p.Params {
		pairs = append(pairs, "{"+name+"}", value) // no name in braces begins another
	}
	replace := strings.NewReplacer(pairs...)
	out := s.Trial
	out.App, out.Key = s.ID, s.TrialKey(p.Number)
	if out.Name == "" {
		out.Name = string(s.ID)
	}
	out.Command = make([]string, len(s.Trial.Command))
	for i, a := range s.Trial.Command {
		out.Command[i] = replace.Replace(a)
	}
	out.Env = make(map[string]string, len(s.Trial.Env)+len(p.Params))
	for k, v := range s.Trial.Env {
		out.Env[k] = replace.Replace(v)
	}
	for name, value := range p.Params {
		out.Env[ParamVariable(name)] = value
	}
	return out
}
