// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package executortest is the conformance suite of executors. Run drives an
// executor together with the daemon's state in front of it and the hardware
// behind it, and inspects that hardware itself rather than trusting what the
// executor reports.
//
// Nothing else may take snapshots or apply decisions while the suite runs. All
// waits are bounded, so an executor that forgets an attempt fails the suite
// instead of hanging it.
package executortest

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/sched"
)

// World is a backend with the machines behind it: processes of one computer, or
// pods of a cluster. It has at least one node that is ready and has at least
// four free GPUs (or CPU slots), and no jobs. All methods but Restart may be
// called at the same time.
type World interface {
	// Backend returns the backend; after Restart another one.
	Backend() loop.Backend
	// Submit submits a job whose processes run until End, or until they are asked
	// to stop.
	Submit(t *testing.T, j Job) sched.JobID
	// Cancel ends a job as its user would.
	Cancel(t *testing.T, id sched.JobID)
	// End makes the processes of a running job end by themselves with a code.
	End(t *testing.T, id sched.JobID, code int)
	// Cordon lets a node take no new work, or takes it back.
	Cordon(t *testing.T, node string, cordoned bool)
	// Running returns, for every job with live processes, the GPUs they have: what
	// is, not what should be. A job that was asked to stop is there until its last
	// process is gone.
	Running() map[sched.JobID][]GPU
	// Starts returns how often the processes of a job were started.
	Starts(id sched.JobID) int
	// Phase returns the phase of a job, also of one that has ended.
	Phase(id sched.JobID) sched.Phase
	// Restart kills the daemon at this moment, as a crash would, and starts it
	// again. Processes of jobs live on.
	Restart(t *testing.T)
}

// Job is a job to submit.
type Job struct {
	Spec sched.Spec // id, tenant and time are the world's to fill in
	// Linger is how long the processes take to leave after they were asked to;
	// it is shorter than their notice.
	Linger time.Duration
	// Plain says that it would lose work if it were stopped. Others are preemptible.
	Plain bool
}

// GPU names one GPU of the world.
type GPU struct {
	Node  string
	Index int
}

// Pace is how fast a world is.
type Pace struct {
	// Patience is how long the suite waits for something that must happen.
	Patience time.Duration
	// Calm is how long it looks at something that must not.
	Calm time.Duration
	// Linger is how long most jobs take to leave.
	Linger time.Duration
}

// Quick is the pace of processes of one machine.
func Quick() Pace {
	return Pace{Patience: 2 * time.Minute, Calm: 50 * time.Millisecond, Linger: 30 * time.Millisecond}
}

// Run tries the worlds that open makes, one for each test of the suite.
func Run(t *testing.T, pace Pace, open func(*testing.T) World) {
	for _, test := range suite {
		t.Run(test.name, func(t *testing.T) {
			w := &trial{World: open(t), Pace: pace, t: t}
			watch := w.watch()
			defer watch()
			w.findNode()
			test.run(w)
		})
	}
}
