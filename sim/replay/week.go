// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Wait is how long the jobs of one user waited while another held GPUs.
type Wait struct {
	User   string  `json:"user"`
	Holder string  `json:"holder"` // empty: nobody; no GPU was held
	Time   float64 `json:"seconds"`
}

// Failure is a reason for which attempts ended badly.
type Failure struct {
	Reason   string        `json:"reason"`
	Text     string        `json:"text"`
	Category string        `json:"category"`
	Attempts int           `json:"attempts"`
	Jobs     []sched.JobID `json:"jobs"`
	Users    []string      `json:"users"`
	Advice   string        `json:"advice,omitempty"`
}

// Within returns the records of a time, and before them those that say which nodes and
// tenants there were.
func Within(records []api.Record, from, to time.Time) []api.Record {
	var out []api.Record
	for _, r := range records {
		setting := r.Event != nil && (r.Event.Kind == sched.NodeJoined || r.Event.Kind == sched.TenantSet)
		if r.At.After(to) || r.At.Before(from) && !setting {
			continue
		}
		out = append(out, r)
	}
	return out
}

// Waits returns who waited for whom from one time to another, longest first. The time
// that a job waits is divided among the users who hold GPUs meanwhile, in proportion to
// the GPUs; pauses do not count.
func Waits(records []api.Record, from, to time.Time) []Wait {
	type job struct {
		user  string
		gpus  int // that it holds
		waits bool
	}
	jobs := map[sched.JobID]*job{}
	waiting, holding, held := map[string]int{}, map[string]int{}, 0
	type pair struct{ user, holder string }
	sums := map[pair]float64{}
	last := from
	set := func(j *job, waits bool, gpus int) {
		if j.waits {
			waiting[j.user]--
		}
		if waits {
			waiting[j.user]++
		}
		holding[j.user] += gpus - j.gpus
		held += gpus - j.gpus
		j.waits, j.gpus = waits, gpus
	}
	pass := func(now time.Time) {
		if now.After(to) {
			now = to
		}
		s := now.Sub(last).Seconds()
		if s <= 0 {
			return
		}
		last = now
		for user, n := range waiting {
			if n == 0 {
				continue
			}
			if held == 0 {
				sums[pair{user, ""}] += s * float64(n)
				continue
			}
			for holder, gpus := range holding {
				if gpus > 0 {
					sums[pair{user, holder}] += s * float64(n) * float64(gpus) / float64(held)
				}
			}
		}
	}
	for i := range records {
		r := &records[i]
		e := r.Event
		if e == nil {
			continue
		}
		pass(r.At)
		if e.Kind == sched.JobSubmitted && e.Spec != nil {
			j := &job{user: cmp.Or(e.Spec.User, string(e.Spec.Tenant), "-")}
			jobs[e.Spec.ID] = j
			set(j, true, 0)
			continue
		}
		j := jobs[e.Job]
		if j == nil {
			continue
		}
		switch e.Kind {
		case sched.JobStarted:
			set(j, false, e.Placement.GPUs())
		case sched.JobStopped, sched.JobFailed:
			set(j, true, 0)
		case sched.JobHeld:
			set(j, !e.Paused, 0)
		case sched.JobEnded:
			set(j, false, 0)
			delete(jobs, e.Job)
		}
	}
	pass(to)
	var out []Wait
	for p, s := range sums {
		out = append(out, Wait{User: p.user, Holder: p.holder, Time: s})
	}
	slices.SortFunc(out, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.User, b.User), cmp.Compare(a.Holder, b.Holder))
	})
	return out
}

// Failures returns why attempts and jobs ended badly from one time to another, most
// attempts first.
func Failures(records []api.Record, from, to time.Time) []Failure {
	users := map[sched.JobID]string{}
	var out []Failure
	at := map[string]int{}
	explained := map[sched.JobID]bool{} // by how its last attempt ended
	for i := range records {
		r := &records[i]
		if r.Event != nil && r.Event.Spec != nil {
			users[r.Event.Spec.ID] = r.Event.Spec.User
		}
		if r.Event != nil && r.Event.Kind == sched.JobStarted {
			delete(explained, r.Event.Job)
		}
		if r.At.Before(from) || r.At.After(to) {
			continue
		}
		var f Failure
		var job sched.JobID
		switch {
		case r.Exit != nil && r.Exit.Finding != nil:
			found := r.Exit.Finding
			f, job = Failure{Reason: found.Reason, Text: found.Text, Category: string(found.Category), Advice: found.Retry.Say}, r.Exit.Job
			if r.Exit.Cause() == "" && r.Exit.Code != 0 {
				f.Text = fmt.Sprintf("exit code %d, and %s", r.Exit.Code, f.Text)
			}
			explained[job] = true
		case r.Event != nil && r.Event.Kind == sched.JobEnded && r.Event.Phase == sched.Failed && !explained[r.Event.Job]: // by a time limit, say
			f, job = Failure{Reason: r.Event.Text, Text: r.Event.Text}, r.Event.Job
		default:
			continue
		}
		// One reason has several texts: which module is missing, say.
		k, known := at[f.Text]
		if !known {
			k = len(out)
			at[f.Text] = k
			out = append(out, f)
		}
		o := &out[k]
		o.Attempts++
		if !slices.Contains(o.Jobs, job) {
			o.Jobs = append(o.Jobs, job)
		}
		if u := users[job]; u != "" && !slices.Contains(o.Users, u) {
			o.Users = append(o.Users, u)
		}
	}
	slices.SortStableFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Text, b.Text))
	})
	return out
}
