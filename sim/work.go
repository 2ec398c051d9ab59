// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Workload is a list of jobs to replay.
type Workload struct {
	Name    string         `json:"name"`
	Source  string         `json:"source,omitempty"` // its origin, as text
	Start   time.Time      `json:"start"`            // time zero of the replay; no job is submitted before it
	Tenants []sched.Tenant `json:"tenants,omitempty"`
	Work    []Work         `json:"-"` // by submission time
}

// Work is one job and the truth about it that no policy may see: its real run time
// and outcome.
//
// A job's length is given in one of two ways. RunTime is the run time on the
// requested GPUs, well placed, as production traces record it; the model, if named,
// only says how placement changes the speed. Without RunTime, Model must name a model
// of the zoo (or of the measured profiles), and the job trains that model to the end.
type Work struct {
	sched.Spec
	RunTime   sched.Duration `json:"run_time,omitempty"`
	BatchSize int            `json:"batch_size,omitempty"` // of all GPUs together; 0: the model's initial one
	TrueUtil  float64        `json:"true_util,omitempty"`  // utilisation of its GPUs when alone, where GPUUtil is the prediction; 0: GPUUtil
	// Outcome is how the job ends when its work is done: Finished, Killed (cancelled
	// by its user at that point) or Failed (after the last of Failures, without
	// another retry). The zero value means Finished.
	Outcome sched.Phase `json:"outcome,omitempty"`
	// Failures are the failed attempts before the job succeeds, in order.
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is a failed attempt.
type Failure struct {
	Reason string         `json:"reason"`
	After  sched.Duration `json:"after"` // run time of the attempt until it fails
}
