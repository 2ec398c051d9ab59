// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// AttemptID names one run of a job. Number counts the starts of the job from 1.
type AttemptID struct {
	Job    sched.JobID `json:"job"`
	Number int         `json:"number"`
}

func (a AttemptID) String() string { return fmt.Sprintf("%s.%d", a.Job, a.Number) }

// Attempt is one run of a job that should be going on now.
type Attempt struct {
	AttemptID
	// Epoch is the journal's when the attempt was started; empty: that of version 0.1.
	Epoch     string          `json:"epoch,omitempty"`
	Spec      sched.Spec      `json:"spec"`
	Task      Task            `json:"task"`
	Owner     Owner           `json:"owner"`
	Placement sched.Placement `json:"placement"`
	GPUType   sched.GPUType   `json:"gpu_type,omitempty"`
	// Screening says that it runs on fewer GPUs than it asks for, to see whether
	// it works at all.
	Screening bool `json:"screening,omitempty"`
	// BatchScale is the part of its batch that it should train with on each GPU,
	// because the whole did not fit; 0: the whole.
	BatchScale float64 `json:"batch_scale,omitempty"`
	// Plan is the execution plan that it runs under; nil: its job has one way to train.
	Plan *plan.Plan `json:"plan,omitempty"`
	// Pinned says that, as far as was known at its start, its work is lost if it is
	// stopped.
	Pinned bool `json:"pinned,omitempty"`
	// Suspended says that it should hold no GPU now: it keeps its processes, frozen,
	// and goes on later.
	Suspended bool `json:"suspended,omitempty"`
	// Token lets the job's agent speak for this attempt, and for nothing else.
	Token string `json:"token"`
}

// Suspended is what an executor reports about the suspension of an attempt.
type Suspended struct {
	AttemptID
	sched.Suspension
}

// Owner is the operating-system user a job runs as.
type Owner struct {
	Name string `json:"name,omitempty"`
	UID  int    `json:"uid"` // -1: whoever the daemon runs as
	GID  int    `json:"gid"`
}

// Exit is how an attempt ended.
type Exit struct {
	AttemptID
	At     time.Time `json:"at"`
	Code   int       `json:"code"`             // of the first process that ended badly, or 0
	Signal string    `json:"signal,omitempty"` // what killed it, such as "SIGKILL"
	Rank   int       `json:"rank,omitempty"`   // of that process
	// Yielded says that the job left because it was asked to, with the exit code
	// that says that it saved its work.
	Yielded bool `json:"yielded,omitempty"`
	// Unsaved is the work that its agent had reported and no checkpoint holds.
	Unsaved float64 `json:"unsaved,omitempty"`
	// Noticed says that the job had been asked to stop before it ended.
	Noticed bool `json:"noticed,omitempty"`
	// Lost says that the machine, not the job, is at fault: a reboot, a
	// supervisor that was killed, a program that could not be started because a
	// disk was full.
	Lost bool `json:"lost,omitempty"`
	// Why is for people: the last line of the error, or what the machine saw.
	Why string `json:"why,omitempty"`
	// Missing says what is missing from the log; empty: nothing.
	Missing string `json:"missing,omitempty"`
	// Host is what the machine saw that no log tells, such as its out-of-memory
	// killer.
	Host []diagnose.Event `json:"host,omitempty"`
	// Tails are the ends of the logs of an attempt that ended badly. They are
	// looked at once and not kept.
	Tails []diagnose.Log `json:"-"`

	// Finding is why it failed; nil: it did not, or nobody looked.
	Finding *diagnose.Finding `json:"finding,omitempty"`
	// Advice is what the failures of the job so far say about another attempt,
	// and Next what was decided.
	Advice *diagnose.Advice `json:"advice,omitempty"`
	Next   string           `json:"next,omitempty"`
	// Use is what the attempt used of its GPUs while it had them for itself; nil:
	// not measured.
	Use *Use `json:"use,omitempty"`
}

// Use is what a job uses of each of its GPUs, as measured.
type Use struct {
	Util    float64 `json:"util"`             // mean, 0 to 1
	Memory  int64   `json:"memory,omitempty"` // most, in bytes
	Samples int     `json:"samples"`
}

// HostRestarted is the kind of the event that the machine was restarted under
// an attempt.
const HostRestarted = "node-reboot"

// HostOutOfMemory is the kind of the event that the kernel killed a process of
// an attempt because memory ran out.
const HostOutOfMemory = "oom-kill"

// HostRefused is the kind of the event that an attempt was not started, and never will
// be as it is: why says who refuses it.
const HostRefused = "refused"

// HostHeldBack is the kind of the event that an attempt was not started because
// something that will pass stands in its way, such as a quota on pods.
const HostHeldBack = "held-back"

// HostUnfit is the kind of the host event that a node is none that the job
// accepts, for reasons that the scheduler does not look at. The job's next attempts
// stay away from it where they can.
const HostUnfit = "node-unfit"

// YieldCode is the exit code of a process that has saved its work and leaves
// because it was asked to (EX_TEMPFAIL of sysexits.h: try again later).
const YieldCode = 75

// OK reports whether the job did all it had to do. A process that ends with 0
// after it was asked to stop may have cut its work short: it counts as stopped
// and is started again, unless its agent said that the work is complete.
func (e Exit) OK() bool { return e.Code == 0 && e.Signal == "" && !e.Noticed && !e.Lost && !e.Yielded }

// Saw reports whether the machine saw an event of a kind.
func (e Exit) Saw(kind string) bool {
	return slices.ContainsFunc(e.Host, func(h diagnose.Event) bool { return h.Kind == kind })
}

// Text prints the exit for a person.
func (e Exit) Text() string {
	var s string
	switch {
	case e.Saw(HostRefused) || e.Saw(HostHeldBack):
		s = "could not be started"
	case e.Lost:
		s = "lost by the machine"
	case e.Yielded && e.Unsaved > 0:
		s = "left when asked, without a checkpoint of its last work"
	case e.Yielded:
		s = "saved its work and made room"
	case e.Signal != "":
		s = fmt.Sprintf("rank %d was killed by %s", e.Rank, e.Signal)
	case e.Code != 0:
		s = fmt.Sprintf("rank %d exited with code %d", e.Rank, e.Code)
	default:
		s = "exited with code 0"
	}
	if e.Why != "" {
		s += ": " + e.Why
	}
	if e.Unsaved > 0 {
		s += fmt.Sprintf("; lost %.6g of the work it had reported", e.Unsaved)
	}
	return s
}

// Cause prints why the attempt failed, in a few words; empty: nobody knows.
func (e Exit) Cause() string {
	if e.Finding == nil || e.Finding.Reason == diagnose.ReasonUnknown {
		return ""
	}
	return fmt.Sprintf("%s (%s)", e.Finding.Text, e.Finding.Category)
}
