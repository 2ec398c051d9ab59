// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// EventKind says what happened.
type EventKind uint8

// The kinds of event.
const (
	NodeJoined    EventKind = iota // Node: a new node, or new facts about one known by that name
	TenantSet                      // Tenant: declared or changed
	JobSubmitted                   // Spec; Can, if jobs like it have shown it; Perf, if something is known before it runs
	JobStarted                     // Job, Placement, Screening, InPlace
	JobStopped                     // Job, Moving, InPlace, Suspend: by the scheduler
	JobFailed                      // Job, Until, Avoid, Memory, GPUMemory: an attempt ended with an error and may be tried again
	JobEnded                       // Job, Phase: for good
	JobReported                    // Job, Done, Rate: from At on, which may lie ahead (the end of a restart); SaveFailed; Perf, Slowdown and Can, if there is news
	JobCheckpoint                  // Job, Done: what the checkpoint holds
	JobNoted                       // Job, Note: the policy's memory
	JobHeld                        // Job, Until, Paused, Suspend, Avoid: taken off its GPUs, and not to be started before Until or while paused
	AppBid                         // App, Bid: from its own agent; nil takes it back
	AppStaged                      // App, Stages: what is left of its search
	JobSuspension                  // Job, Suspension: what is known about suspending it; nil: its suspended state is lost
)

var eventNames = [...]string{
	"node-joined", "tenant-set", "job-submitted", "job-started", "job-stopped",
	"job-failed", "job-ended", "job-reported", "job-checkpoint", "job-noted",
	"job-held", "app-bid", "app-staged", "job-suspension",
}

// EventKinds returns the names of all kinds.
func EventKinds() []string { return slices.Clone(eventNames[:]) }

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// MarshalText implements encoding.TextMarshaler.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *EventKind) UnmarshalText(b []byte) error {
	i := slices.Index(eventNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("event kind %q: want one of %v", b, eventNames)
	}
	*k = EventKind(i)
	return nil
}

// Event is one thing that happened. A State is the sum of its events: a
// driver that keeps them can rebuild it, or replay them under another policy.
type Event struct {
	At         time.Time       `json:"at"`
	Kind       EventKind       `json:"kind"`
	Job        JobID           `json:"job,omitempty"`
	Node       *Node           `json:"node,omitempty"`
	Tenant     *Tenant         `json:"tenant,omitempty"`
	Spec       *Spec           `json:"spec,omitempty"`
	Placement  Placement       `json:"placement,omitempty"`
	Phase      Phase           `json:"phase,omitempty"`
	Moving     bool            `json:"moving,omitempty"`
	InPlace    bool            `json:"in_place,omitempty"` // JobStopped, JobStarted: the attempt goes on
	Suspend    bool            `json:"suspend,omitempty"`  // its state stays in place: see Status.Suspended
	Suspension *Suspension     `json:"suspension,omitempty"`
	Screening  bool            `json:"screening,omitempty"`
	Until      time.Time       `json:"until,omitzero"`
	Paused     bool            `json:"paused,omitempty"`
	Avoid      []string        `json:"avoid,omitempty"`      // nodes that the retry should stay away from
	Memory     int64           `json:"memory,omitempty"`     // what the retry asks for each GPU; 0: as before
	GPUMemory  int64           `json:"gpu_memory,omitempty"` // likewise
	Done       float64         `json:"done,omitempty"`
	Rate       float64         `json:"rate,omitempty"`
	Perf       *goodput.Report `json:"perf,omitempty"`
	Slowdown   float64         `json:"slowdown,omitempty"`
	Can        Ability         `json:"can,omitempty"`
	// SaveFailed is set with every report of a job that cannot save, and with the
	// checkpoint that it was started from, if it could not save before that.
	SaveFailed bool    `json:"save_failed,omitempty"`
	Note       Note    `json:"note,omitzero"`
	App        AppID   `json:"app,omitempty"`
	Bid        *Bid    `json:"bid,omitempty"`
	Stages     []Stage `json:"stages,omitempty"`
	Text       string  `json:"text,omitempty"` // for people: the cause of a failure, who cancelled
}
