// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// Record is one line of the journal: one thing that happened or was decided.
// The sum of the records is all that the daemon knows.
type Record struct {
	Seq   uint64       `json:"seq"`
	At    time.Time    `json:"at"`
	Actor string       `json:"actor,omitempty"` // who caused it: a user, "scheduler", "machine", "agent"
	Text  string       `json:"text,omitempty"`  // for people
	Event *sched.Event `json:"event,omitempty"` // a change of the scheduler's state

	// Accepted is a job that does not queue for GPUs yet: it waits for other jobs.
	// job-submitted follows when they have ended.
	Accepted *sched.Spec `json:"accepted,omitempty"`

	Task     *Task     `json:"task,omitempty"`     // with job-submitted and job-accepted: what to run
	Owner    *Owner    `json:"owner,omitempty"`    // with them: as whom
	Key      string    `json:"key,omitempty"`      // with them: the client's key
	MovedTo  string    `json:"moved_to,omitempty"` // of a job that ends because another cluster has it
	Exit     *Exit     `json:"exit,omitempty"`     // an attempt ended
	Point    *Point    `json:"point,omitempty"`    // with job-reported: for the plots
	Links    []Link    `json:"links,omitempty"`    // with job-reported: its runs in other tools, when they have changed
	Series   []Series  `json:"series,omitempty"`   // with job-reported: its metrics since the report before
	Training *Training `json:"training,omitempty"` // with job-reported: what was measured
	Restored *float64  `json:"restored,omitempty"` // with the first job-reported of an attempt: what it found in a checkpoint
	// Plan is set with job-started: the execution plan of the attempt, if its job has several.
	Plan *plan.Plan `json:"plan,omitempty"`
	// Resized is set with the first job-reported after a change in place.
	Resized *Resized `json:"resized,omitempty"`
	// SaveFailed is set with job-reported when the agent says that it cannot save.
	SaveFailed string `json:"save_failed,omitempty"`
	// Warning is a word to the owner of a job.
	Warning string `json:"warning,omitempty"`
	// Slow is set with a warning about ranks that are slower than their peers, and when
	// they have caught up.
	Slow *SlowRanks `json:"slow,omitempty"`
	// Complete is set with job-reported when the agent said the work is over.
	Complete bool   `json:"complete,omitempty"`
	Policy   string `json:"policy,omitempty"` // the policy from now on
	Token    *Token `json:"token,omitempty"`  // created or changed
	// Search is a step of a search for hyper-parameters.
	Search *SearchRecord `json:"search,omitempty"`
	// Bidder is a program that bids for an app, from now on or no longer.
	Bidder *Bidder `json:"bidder,omitempty"`
	// Epoch begins an epoch of the journal; with job-started it is the one of an
	// attempt that was found on disk.
	Epoch *Epoch `json:"epoch,omitempty"`
	// Damage is what the journal has lost; with no text, all damage is acknowledged.
	Damage *Damage `json:"damage,omitempty"`
	// SetBack is by how much times after the record's own are to be set back, in all
	// records before it: the clock was ahead.
	SetBack sched.Duration `json:"set_back,omitempty"`
	// Quarantine is what was decided about a node on which jobs fail.
	Quarantine *diagnose.NodeChange `json:"quarantine,omitempty"`
	// Decision numbers the decision that caused the record, from 1; 0: none did.
	Decision uint64 `json:"decision,omitempty"`
	// Basis is set on the first record of a decision.
	Basis *Basis `json:"basis,omitempty"`
}

// Epoch is a stretch of the journal's life during which it lost nothing. Its ID is
// random. The names of jobs and the numbers of attempts are unique within an epoch.
type Epoch struct {
	ID   string `json:"id"`
	Jobs int    `json:"jobs,omitempty"` // the highest number that a job may have had before
}

// Damage is a loss of records that nobody has acknowledged yet.
type Damage struct {
	At   time.Time `json:"at,omitzero"`
	Text string    `json:"text,omitempty"`
}

// Basis is what a decision was taken on: enough to take it again. Others may
// have added records between Seen and the decision's own.
type Basis struct {
	Policy string    `json:"policy"`
	Now    time.Time `json:"now"`            // of the snapshot
	Seen   uint64    `json:"seen,omitempty"` // the last record in the snapshot; 0: not known
}

// Kinds returns all that Kind can return: the kinds of events, and those of the
// records that are no event or more than that.
func Kinds() []string {
	return append(sched.EventKinds(), "job-accepted", "save-failed", "job-warned", "attempt-ended", "policy-set", "token-set", "bidder-set",
		"search-submitted", "search-stepped", "search-ended", "node-quarantined", "node-released", "node-withheld",
		"journal-damaged", "damage-acknowledged", "epoch-begun", "clock-set", "note")
}

// Kind names what the record is about, for filters; "note" is a word to the operator.
func (r *Record) Kind() string {
	switch {
	case r.Quarantine != nil && r.Quarantine.State == diagnose.InUse:
		return "node-released"
	case r.Quarantine != nil:
		return "node-" + string(r.Quarantine.State)
	case r.Warning != "":
		return "job-warned"
	case r.SaveFailed != "":
		return "save-failed"
	case r.Event != nil:
		return r.Event.Kind.String()
	case r.Accepted != nil:
		return "job-accepted"
	case r.Exit != nil:
		return "attempt-ended"
	case r.Policy != "":
		return "policy-set"
	case r.Token != nil:
		return "token-set"
	case r.Bidder != nil:
		return "bidder-set"
	case r.Search != nil && r.Search.Spec != nil:
		return "search-submitted"
	case r.Search != nil && r.Search.State != "":
		return "search-ended"
	case r.Search != nil:
		return "search-stepped"
	case r.Damage != nil && r.Damage.Text == "":
		return "damage-acknowledged"
	case r.Damage != nil:
		return "journal-damaged"
	case r.Epoch != nil:
		return "epoch-begun"
	case r.SetBack > 0:
		return "clock-set"
	}
	return "note"
}

// Job returns the job the record is about; empty if none.
func (r *Record) Job() sched.JobID {
	switch {
	case r.Event != nil && r.Event.Spec != nil:
		return r.Event.Spec.ID
	case r.Event != nil:
		return r.Event.Job
	case r.Accepted != nil:
		return r.Accepted.ID
	case r.Exit != nil:
		return r.Exit.Job
	}
	return ""
}
