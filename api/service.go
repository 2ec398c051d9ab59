// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// The services are what the API, and through it every client, can ask for. The
// journal of one machine and the objects of a Kubernetes cluster implement them
// alike. Every method checks that the identity may do what it asks, and returns
// *Error with code Unknown for things of other tenants.

// Command is what a user can tell a job.
type Command string

// The commands.
const (
	Cancel Command = "cancel"
	Pause  Command = "pause"
	Resume Command = "resume"
)

// JobFilter selects jobs. Zero fields select everything.
type JobFilter struct {
	States []string // any of these
	Tenant sched.TenantID
	App    sched.AppID
	User   string
	Search string // part of the id or the name
	Sort   string // one of JobOrders; empty: the newest first
	// After continues a listing behind the job with that id.
	After sched.JobID
	Limit int // 0: DefaultPage
	// Fold lists an array as one job: see Job.Members.
	Fold bool
}

// JobOrders are the ways to sort jobs, with - before them the other way round.
func JobOrders() []string {
	names := []string{"submitted", "name", "user", "tenant", "state", "gpus", "gpu_hours"}
	for _, n := range names {
		names = append(names, "-"+n)
	}
	return names
}

// The sizes of a page.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// PageSize returns the size of a page that a client asks for; 0: the default.
func PageSize(limit int) (int, error) {
	if limit < 0 || limit > MaxPage {
		return 0, Errorf(Invalid, "is %d", limit).On("limit").Try(fmt.Sprintf("use 1 to %d", MaxPage))
	}
	return cmp.Or(limit, DefaultPage), nil
}

// JobPage is a part of a listing, newest first.
type JobPage struct {
	Jobs []Job `json:"jobs"`
	// Next is the After of the next page; empty on the last.
	Next  sched.JobID `json:"next,omitempty"`
	Total int         `json:"total"` // of all pages
}

// Jobs is the service of jobs and apps.
type Jobs interface {
	// Submit takes all of the jobs or none.
	Submit(context.Context, Identity, []Submission) ([]Job, error)
	// Preview says what submitting a job would do. It changes nothing.
	Preview(context.Context, Identity, Submission) (Preview, error)
	// Submission returns what to submit for another job like this one, here or on another
	// cluster: without its key, its secrets' values and what it depends on. The code of the
	// error is Conflict if a submission cannot say all of it.
	Submission(context.Context, Identity, sched.JobID) (Submission, error)
	Command(context.Context, Identity, sched.JobID, Command) (Job, error)
	CommandApp(context.Context, Identity, sched.AppID, Command) ([]Job, error)
	// HandOver ends a job that has never started, for one of another cluster. Asked again
	// for the same one, it does nothing; for another one it refuses.
	HandOver(context.Context, Identity, sched.JobID, Handover) (Job, error)
	Job(Identity, sched.JobID) (Job, error)
	List(Identity, JobFilter) (JobPage, error)
	Explain(Identity, sched.JobID) (Explanation, error)
	Points(Identity, sched.JobID) ([]Point, error)
	// Metrics returns the metrics with these names, or all of them.
	Metrics(who Identity, id sched.JobID, names []string) (MetricList, error)
	Apps(Identity) ([]AppView, error)
	// Usage returns what jobs used; also of jobs that are no longer kept.
	Usage(Identity, UsageQuery) (Usage, error)
}

// RecordFilter selects records of the journal.
type RecordFilter struct {
	After uint64      // sequence number
	Job   sched.JobID // or array, by its id
	App   sched.AppID
	Kind  string
	Limit int
}

// RecordPage is a part of the journal, oldest first.
type RecordPage struct {
	Records []Record `json:"records"`
	Next    uint64   `json:"next"` // the After of the next page
	// Oldest is the first sequence number that can still be asked for.
	Oldest uint64 `json:"oldest"`
}

// Feed is the service of what happens.
type Feed interface {
	Records(Identity, RecordFilter) (RecordPage, error)
	// Watch calls send with every record after a sequence number, as they
	// happen, until the context ends or send fails.
	Watch(ctx context.Context, who Identity, f RecordFilter, send func(Record) error) error
	History(Identity) ([]Sample, error)
}

// Build is what a program was built from.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the sources; empty: they were in no repository
	Modified bool   `json:"modified,omitempty"` // the sources had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Overview is the state of the whole at one moment.
type Overview struct {
	Version string    `json:"version,omitempty"` // of the daemon
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"`
	Policy  string    `json:"policy"`
	GPUs    int       `json:"gpus"`
	Held    int       `json:"held"`
	// CPUSlots says that no node has a GPU: its CPU slots count as GPUs.
	CPUSlots bool `json:"cpu_slots,omitempty"`

	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// WaitingFor counts the jobs that wait by the code of the reason.
	WaitingFor map[string]int `json:"waiting_for,omitempty"`
	// Reporting are the GPUs of running jobs whose agents say how much of the work
	// counts; Useful is so much of them.
	Reporting int     `json:"reporting,omitempty"`
	Useful    float64 `json:"useful,omitempty"`
	Paused    int     `json:"paused"`
	Finished  int     `json:"finished"` // since the daemon's first start
	Failed    int     `json:"failed"`
	// FailedDay are the jobs that failed within the last 24 hours, of those that are kept.
	FailedDay int     `json:"failed_24h"`
	Cancelled int     `json:"killed"`
	Decisions uint64  `json:"decisions"`
	LastMS    float64 `json:"last_decision_ms"`
	Seq       uint64  `json:"seq"` // of the last record
	// Problem says what keeps the daemon from working as it should; empty: nothing.
	Problem string `json:"problem,omitempty"`
	// StartingPaused says why no job is started now, such as a full disk; empty: jobs
	// are started.
	StartingPaused string `json:"starting_paused,omitempty"`
	// Damages are the losses of records that nobody has acknowledged.
	Damages []Damage `json:"damages,omitempty"`
	// Warnings are about settings that are not safe; everything works.
	Warnings []string `json:"warnings,omitempty"`
	// Deliveries is how the targets of notifications take them. Only admins see it.
	Deliveries []Delivery `json:"deliveries,omitempty"`
}

// Cluster is the service of machines, tenants and the policy.
type Cluster interface {
	Overview(Identity) (Overview, error)
	Nodes(Identity) ([]Node, error)
	// SetNode cordons a node or takes it back.
	SetNode(ctx context.Context, who Identity, name string, state sched.NodeState) (Node, error)
	// AcknowledgeDamage ends the warning about what the journal has lost, and
	// returns what that was.
	AcknowledgeDamage(context.Context, Identity) ([]Damage, error)
	Tenants(Identity) ([]TenantView, error)
	SetTenant(context.Context, Identity, sched.Tenant) (TenantView, error)
	Policy(Identity) (string, error)
	// SetPolicy switches, or with dryRun says what switching would do.
	SetPolicy(ctx context.Context, who Identity, spec string, dryRun bool) (PolicyChange, error)
}

// Access is the service of credentials.
type Access interface {
	Tokens(Identity) ([]Token, error)
	// CreateToken returns the token and its secret, which nobody will see again.
	CreateToken(context.Context, Identity, Token) (Token, string, error)
	RevokeToken(ctx context.Context, who Identity, id string) error
	// Authenticate returns whose secret it is.
	Authenticate(secret string) (Identity, error)
}

// Agents is the service of the agents inside jobs.
type Agents interface {
	// Report takes a report of the attempt whose secret it is.
	Report(ctx context.Context, secret string, r AgentReport) (AgentAnswer, error)
}

// LogQuery selects a part of a log.
type LogQuery struct {
	Attempt int    // 0: the last one
	Rank    int    // process of the gang
	Stream  string // "stdout", "stderr"; empty: both, which are one file in the order written
	Tail    int    // only the last lines; 0: all that is kept
	Follow  bool   // go on until the job ends or the context does
	// Since leaves out what was printed before, to within 10 seconds; zero: nothing.
	Since time.Time

	// What follows is for the server, which asks the service for one log after another.

	AllRanks    bool   // every process of the gang; a line begins with its rank
	AllAttempts bool   // the first attempt to the last
	Grep        string // only lines that match this regular expression
	Collapse    bool   // of a line that rewrites itself, such as a progress bar, only the last state
}

// LogFile is what is kept of one process of one attempt.
type LogFile struct {
	Attempt int   `json:"attempt"`
	Rank    int   `json:"rank"`
	Bytes   int64 `json:"bytes,omitempty"`   // 0: not known, or empty
	Dropped int64 `json:"dropped,omitempty"` // lines at its beginning that are no longer kept
	Ended   bool  `json:"ended,omitempty"`   // nothing will be added
}

// Logs is the service of what jobs print.
type Logs interface {
	// CopyLog writes the log to w as it grows.
	CopyLog(ctx context.Context, id sched.JobID, q LogQuery, w io.Writer) error
	// LogFiles returns what CopyLog can copy, by attempt and rank.
	LogFiles(id sched.JobID) ([]LogFile, error)
}
