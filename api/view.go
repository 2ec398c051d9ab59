// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// The states of a job that people see. A phase says what should be, a state
// also what is.
const (
	Waiting   = "waiting"
	Starting  = "starting" // has GPUs; its processes are not up, or an earlier holder still leaves
	Running   = "running"
	Paused    = "paused" // by its user
	Stopping  = "stopping"
	Finished  = "finished"
	Cancelled = "killed"
	Failed    = "failed"
)

// HasEnded reports whether a job in a state will never run again.
func HasEnded(state string) bool { return state == Finished || state == Cancelled || state == Failed }

// Job is a job as people and programs see it.
type Job struct {
	sched.Spec
	Task
	Status    sched.Status `json:"status"`
	State     string       `json:"state"`
	Held      []Held       `json:"held,omitempty"`
	HeldRoles []int        `json:"held_roles,omitempty"` // how many of the GPUs that it holds each of its roles has
	Reason    *Reason      `json:"reason,omitempty"`     // why it does not run
	Ended     time.Time    `json:"ended,omitzero"`
	Exit      *Exit        `json:"exit,omitempty"` // of the last attempt that ended
	Why       string       `json:"why,omitempty"`  // why it failed, if no attempt ended by itself
	PausedBy  string       `json:"paused_by,omitempty"`
	MovedTo   string       `json:"moved_to,omitempty"`   // the job of another cluster that it was handed over to, as CLUSTER/JOB
	Rho       float64      `json:"rho,omitempty"`        // finish-time fairness of its app, as expected now: 1 is fair, more is late; 0: unknown
	FairShare float64      `json:"fair_share,omitempty"` // GPUs it would have if all active apps shared equally
	Left      float64      `json:"left_s,omitempty"`     // expected seconds to its end at the present rate; 0: unknown
	Last      *Point       `json:"last,omitempty"`       // its agent's last measurement
	Agent     bool         `json:"agent,omitempty"`      // an agent has reported
	Links     []Link       `json:"links,omitempty"`      // its runs in other tools, as its agent found them
	Plan      *plan.Plan   `json:"plan,omitempty"`       // the execution plan of its last attempt, if it has several
	// Warning is what looks wrong about its running attempt, for its owner.
	Warning string `json:"warning,omitempty"`
	// SaveFailed is why its last save failed; empty: it did not.
	SaveFailed string `json:"save_failed,omitempty"`
	// Accepted is when the job was sent, if it had to wait for others before it was
	// submitted to the queue; zero: it did not.
	Accepted time.Time `json:"accepted,omitzero"`
	// Members counts the jobs of an array by their states, if this stands for the whole
	// array: its ID is then that of the array, and the rest is of the job of it that is
	// furthest from its end.
	Members map[string]int `json:"members,omitempty"`
}

// Kept says, for people, why nobody may take the GPUs of a job, or only while it is
// suspended, and at which size it stays; empty: it may be stopped and resized.
func (j *Job) Kept() string {
	why := "no Fairway agent in its script has reported yet"
	switch {
	case j.Status.Phase.Ended():
		return ""
	case j.NonPreemptible:
		return "is never preempted: it is non-preemptible"
	case !j.Protected:
		return ""
	case j.Status.SaveFailed:
		why = "it could not save its work, and no save has worked since"
	case j.Status.Can != sched.Unproven:
		return ""
	}
	keeps := "keeps its GPUs until it ends"
	if j.Status.SaveFailed {
		keeps = "keeps its GPUs"
	}
	if j.Status.Suspends || (&sched.Job{Spec: j.Spec, Status: j.Status}).Bound() {
		keeps = "is suspended in place while others have its GPUs, and goes on only there"
	}
	if j.Status.Can == sched.Unproven && j.MaxGPUs > j.MinGPUs {
		gpus := "1 GPU"
		if j.GPUs != 1 {
			gpus = fmt.Sprintf("%d GPUs", j.GPUs)
		}
		keeps = "starts on " + gpus + " and stays at that size; it " + keeps
	}
	return keeps + ": " + why + ` (docs/job-file.md, "What stops a job")`
}

// Held is what a job holds on one node.
type Held struct {
	Node  string `json:"node"`
	GPUs  []int  `json:"gpus"`
	Milli int32  `json:"milli"` // thousandths of each
}

// HeldGPUs returns how many GPUs a job holds.
func (j *Job) HeldGPUs() (n int) {
	for _, h := range j.Held {
		n += len(h.GPUs)
	}
	return n
}

// Reason is why a job does not run, for programs and for people.
type Reason struct {
	Code  string    `json:"code"`
	Text  string    `json:"text"`
	Until time.Time `json:"until,omitzero"` // expected start; zero: unknown
	// Earliest and Latest enclose the start in 9 of 10 cases; zero: unknown.
	Earliest time.Time `json:"earliest,omitzero"`
	Latest   time.Time `json:"latest,omitzero"`
	Unknown  string    `json:"unknown,omitempty"` // why there is no expected start
	// Promised is when the policy will have started the job at the latest, if no node is
	// lost; zero: it promises nothing.
	Promised time.Time `json:"promised,omitzero"`
	Rough    string    `json:"rough,omitempty"` // why Until is only a rough estimate, not an expected start
}

// The codes of the reasons of jobs that do not queue for GPUs yet.
const (
	WaitsForJobs  = "dependency"
	WaitsForArray = "array-limit"
)

// RunTime is how long a job is expected to run in all, at the size it asks for.
type RunTime struct {
	Expected sched.Duration `json:"expected"`
	// Basis is what that is based on: what its agent "reports", its user's "estimate"
	// as such estimates proved before, "similar" jobs, or "all" jobs that have ended.
	Basis string `json:"basis"`
	Jobs  int    `json:"jobs,omitempty"` // ended jobs that are like it
}

// Text says it for people.
func (r RunTime) Text() string {
	about, jobs := "about "+sched.Brief(r.Expected.D()), fmt.Sprintf("%d jobs", r.Jobs)
	if r.Jobs == 1 {
		jobs = "1 job"
	}
	switch {
	case r.Basis == "reports":
		return about + ", by what its agent reports"
	case r.Basis == "similar":
		return fmt.Sprintf("%s, estimated from %s like it", about, jobs)
	case r.Basis == "all":
		return fmt.Sprintf("%s, estimated from all %s that have ended: none of them is like it", about, jobs)
	case r.Jobs > 0:
		return fmt.Sprintf("%s, from its user's estimate and %s like it", about, jobs)
	}
	return about + ", from its user's estimate and what such estimates are worth"
}

// Preview is what submitting a job would do.
type Preview struct {
	Now    time.Time     `json:"now"`
	Policy string        `json:"policy"`
	Size   SizePreview   `json:"size"`             // as submitted
	Sooner []SizePreview `json:"sooner,omitempty"` // smaller sizes that would start earlier
	// RunTime is how long the job is expected to run; nil: nothing is known.
	RunTime *RunTime `json:"run_time,omitempty"`
	Cut     string   `json:"cut,omitempty"` // what was left out because it would have taken too long
	// Known is the job that was submitted with the same key; empty: there is none.
	Known sched.JobID `json:"known,omitempty"`
}

// SizePreview is what submitting a job at one size would do.
type SizePreview struct {
	GPUs    int      `json:"gpus"`
	Starts  bool     `json:"starts"`            // at once
	Reason  *Reason  `json:"reason,omitempty"`  // why it would wait, and how long
	Victims []Victim `json:"victims,omitempty"` // who would make room
}

// Victim is a running job that would have to make room for another.
type Victim struct {
	Job    sched.JobID    `json:"job"`
	Tenant sched.TenantID `json:"tenant,omitempty"`
	GPUs   int            `json:"gpus"`    // that it has
	To     int            `json:"to_gpus"` // that it would go on with; 0: it would wait
	LostS  float64        `json:"lost_s"`  // GPU-seconds since its last checkpoint: lost if it cannot save in time
}

// Explanation answers why a job waits, or why it runs where it runs.
type Explanation struct {
	Job     Job       `json:"job"`
	Now     time.Time `json:"now"`
	Policy  string    `json:"policy"`
	Summary string    `json:"summary"` // one sentence
	// Ahead are the waiting jobs that go before it: by the policy's Order, or, where
	// the policy has none, those that were submitted earlier.
	Ahead int    `json:"ahead"`
	Order string `json:"order,omitempty"`
	// Before names some of the jobs that go before it, with the reason: first those
	// that hold GPUs it could use, then those that wait.
	Before []Rival `json:"before,omitempty"`
	// RunTime is how long the job is expected to run; nil: nothing is known, or it has
	// ended.
	RunTime *RunTime `json:"run_time,omitempty"`
	// Larger says why a running job does not get more GPUs than it has, if it could
	// use more. For a job that keeps its GPUs (Job.Kept) the reason is the same.
	Larger string `json:"larger,omitempty"`
	// Plans says how fast the execution plan of its last attempt is, and others would be;
	// empty: it has one way to train, or has not started.
	Plans    string      `json:"plans,omitempty"`
	FreeGPUs int         `json:"free_gpus"`
	AllGPUs  int         `json:"all_gpus"`
	Holders  []Share     `json:"holders,omitempty"` // who holds the GPUs, most first
	Ledger   []Entry     `json:"ledger,omitempty"`  // what was given and taken, oldest first
	Price    LedgerTotal `json:"price"`
	// Use is the measured use of the GPUs by the last attempt, beside the expected one
	// (gpu_util and gpu_memory of the job); nil: not measured.
	Use *Use `json:"use,omitempty"`
}

// Rival is a job that goes before another.
type Rival struct {
	Job    sched.JobID    `json:"job"`
	Tenant sched.TenantID `json:"tenant,omitempty"`
	GPUs   int            `json:"gpus,omitempty"` // that it holds; 0: it waits
	Why    string         `json:"why"`
}

// Share is what one job holds.
type Share struct {
	Job    sched.JobID    `json:"job"`
	Tenant sched.TenantID `json:"tenant,omitempty"`
	GPUs   int            `json:"gpus"`
	Left   float64        `json:"left_s,omitempty"`
}

// Entry is one thing that the scheduler gave to a job or took from it.
type Entry struct {
	At   time.Time `json:"at"`
	Verb string    `json:"verb"` // start, preempt, move, recover, pause, fail, end
	// Attempt is the one that began or ended with it; of a move, the one that ended.
	Attempt int     `json:"attempt,omitempty"`
	From    int     `json:"from_gpus"`
	To      int     `json:"to_gpus"`
	Why     string  `json:"why,omitempty"`
	Lost    float64 `json:"lost,omitempty"`   // work that no checkpoint held, in the job's unit
	LostS   float64 `json:"lost_s,omitempty"` // the same in GPU-seconds
	// Away is the seconds from there to its next step, or to its next start if it
	// reports no steps; Ongoing says that it is still away, and Away is so far.
	Away    float64 `json:"away_s,omitempty"`
	Ongoing bool    `json:"ongoing,omitempty"`
	InPlace bool    `json:"in_place,omitempty"` // the attempt went on
}

// LedgerTotal sums a ledger.
type LedgerTotal struct {
	Preemptions int     `json:"preemptions"`
	Moves       int     `json:"moves"`
	LostS       float64 `json:"lost_s"` // GPU-seconds
	AwayS       float64 `json:"away_s"`
}

// Node is a machine as people see it.
type Node struct {
	sched.Node
	Up    bool      `json:"up"`
	Slots []GPUSlot `json:"slots"`
	// Quarantine is why the node is out of use for a while, or why it should be
	// and is not (withheld); nil: nothing is held against it.
	Quarantine *diagnose.NodeChange `json:"quarantine,omitempty"`
	// NoSuspend is why jobs cannot be suspended in place there; empty: they can, or
	// nobody looked.
	NoSuspend string `json:"no_suspend,omitempty"`
	// Containers is what runs jobs with an image there, such as "podman 5.4.2";
	// NoContainers is why nothing does. Both are empty on Kubernetes.
	Containers   string `json:"containers,omitempty"`
	NoContainers string `json:"no_containers,omitempty"`
	// Failures is how often attempts fail there because of the infrastructure.
	Failures diagnose.FailureRate `json:"failure_rate"`
	// Warm is what waits there to start jobs quickly; nil: such starts are off.
	Warm *Warm `json:"warm,omitempty"`
}

// Warm counts the interpreters that have imported torch and wait to become the
// processes of a job.
type Warm struct {
	Ready  int   `json:"ready"`
	Most   int   `json:"most"`
	Memory int64 `json:"memory"` // bytes that they use
}

// GPUSlot is one GPU, or one CPU slot, of a node.
type GPUSlot struct {
	Index int           `json:"index"`
	UUID  string        `json:"uuid,omitempty"`
	Jobs  []sched.JobID `json:"jobs,omitempty"` // that hold it
	Since time.Time     `json:"since,omitzero"` // of the first of them
	Use   *GPUUse       `json:"use,omitempty"`  // as measured; nil: not measured
}

// GPUUse is what a GPU does, as measured.
type GPUUse struct {
	At          time.Time    `json:"at"`
	Util        float64      `json:"util"` // 0 to 1
	MemoryUsed  int64        `json:"memory_used"`
	MemoryTotal int64        `json:"memory_total"`
	PowerW      float64      `json:"power_w,omitempty"`
	TempC       float64      `json:"temp_c,omitempty"`
	ClockMHz    float64      `json:"clock_mhz,omitempty"` // of its processors
	MaxClockMHz float64      `json:"max_clock_mhz,omitempty"`
	Processes   []GPUProcess `json:"processes,omitempty"`
}

// GPUProcess is a process that uses a GPU.
type GPUProcess struct {
	PID    int         `json:"pid"`
	Job    sched.JobID `json:"job,omitempty"` // empty: not one of ours
	Memory int64       `json:"memory"`
	Util   float64     `json:"util,omitempty"`
}

// TenantView is a tenant and what it has.
type TenantView struct {
	sched.Tenant
	GPUs    int     `json:"gpus"` // held now
	Running int     `json:"running"`
	Waiting int     `json:"waiting"`
	Share   float64 `json:"share"`         // of all GPUs, by weight among tenants with jobs, in GPUs
	Rho     float64 `json:"rho,omitempty"` // worst of its apps
	GPUTime float64 `json:"gpu_s"`         // GPU-seconds used since the daemon's first start
	// Of tenants with a parent: its name with those above it, such as research/vision, and
	// what it has of its parent's, in words.
	Path     string `json:"path,omitempty"`
	Standing string `json:"standing,omitempty"`
	Below    int    `json:"gpus_below,omitempty"` // held by tenants below it
	// Borrowed are the GPUs that it and those below it hold beyond what belongs to them; 0
	// if nothing does.
	Borrowed int `json:"borrowed,omitempty"`
}

// AppView is an app: jobs that belong together.
type AppView struct {
	ID        sched.AppID    `json:"id"`
	Tenant    sched.TenantID `json:"tenant,omitempty"`
	Submitted time.Time      `json:"submitted"`
	Jobs      int            `json:"jobs"`
	Running   int            `json:"running"`
	Waiting   int            `json:"waiting"`
	Finished  int            `json:"finished"`
	Failed    int            `json:"failed"`
	Killed    int            `json:"killed"`
	GPUs      int            `json:"gpus"`
	Rho       float64        `json:"rho,omitempty"`
}

// Sample is the cluster at one moment, for plots over time.
type Sample struct {
	At      time.Time      `json:"at"`
	GPUs    int            `json:"gpus"`
	Held    int            `json:"held"`
	Running int            `json:"running"`
	Waiting int            `json:"waiting"`
	Util    float64        `json:"util,omitempty"` // mean of the GPUs, as measured
	Tenants []TenantSample `json:"tenants,omitempty"`
	Apps    []AppSample    `json:"apps,omitempty"`
}

// TenantSample is a tenant at one moment.
type TenantSample struct {
	ID   sched.TenantID `json:"id"`
	GPUs int            `json:"gpus"`
	Rho  float64        `json:"rho,omitempty"`
}

// AppSample is an app at one moment.
type AppSample struct {
	ID     sched.AppID    `json:"id"`
	Tenant sched.TenantID `json:"tenant,omitempty"`
	GPUs   int            `json:"gpus"`
	Rho    float64        `json:"rho,omitempty"`
}

// PolicyChange is what switching to another policy would do right now.
type PolicyChange struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	DryRun  bool     `json:"dry_run"`
	Actions []string `json:"actions"` // what it would do first, for people
	Starts  int      `json:"starts"`
	Stops   int      `json:"stops"`
	Moves   int      `json:"moves"`
}
