// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// LogEntry is one line of the decision log.
type LogEntry struct {
	T        float64     `json:"t_s"` // since the start of the workload
	Decision int         `json:"decision"`
	Verb     string      `json:"verb"` // start, stop, wait, end, fail
	Job      sched.JobID `json:"job"`
	GPUs     int         `json:"gpus,omitempty"`
	Where    string      `json:"where,omitempty"`
	Why      string      `json:"why,omitempty"`
}

// forecastJobs is the largest number of active jobs for which the log says until when
// a job is expected to wait; the forecast costs a trial placement for each running
// job.
const forecastJobs = 500

// logDecision logs the actions of a decision, and for every waiting job the reason if
// it has changed.
func (r *run) logDecision(s *sched.Snapshot, actions []sched.Action, plan sched.Plan) {
	if r.Log == nil {
		return
	}
	t := r.now.Seconds()
	for _, a := range actions {
		e := LogEntry{T: t, Decision: r.decisions, Verb: a.Verb.String(), Job: a.Job.ID}
		if a.Verb == sched.Start {
			e.GPUs, e.Where = a.To.GPUs(), a.To.Text(s.Cluster)
		} else {
			e.GPUs, e.Where = a.From.GPUs(), a.From.Text(s.Cluster)
			e.Why = "moves"
			if !a.Moving {
				e.Why = a.Why.Text(s.Cluster)
			}
		}
		r.Log(e)
	}
	for i, j := range s.Jobs {
		why := plan.Why[i]
		if why.Code == sched.Ok || why.Code == r.logged[j.ID] {
			continue
		}
		r.logged[j.ID] = why.Code
		if why.Until.IsZero() && why.Code != sched.Impossible && len(s.Jobs) <= forecastJobs {
			level := why.Level
			if level == sched.NoLevel {
				level = sched.CrossRack
			}
			why.Until = place.When(s, plan, j, level)
		}
		r.Log(LogEntry{T: t, Decision: r.decisions, Verb: "wait", Job: j.ID, GPUs: j.GPUs, Why: why.Text(s.Cluster)})
	}
}

func (r *run) logEnd(verb string, j *job, why string) {
	if r.Log != nil {
		delete(r.logged, j.work.ID)
		r.Log(LogEntry{T: r.now.Seconds(), Decision: r.decisions, Verb: verb, Job: j.work.ID, Why: why})
	}
}
