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
	Source  string         `json:"source,omitempty"` // where it comes from, for people
	Start   time.Time      `json:"start"`            // time zero of the replay; no job is submitted before it
	Tenants []sched.Tenant `json:"tenants,omitempty"`
	Work    []Work         `json:"-"` // by submission time
}

// Work is one job and the truth about it that no policy may see: how long it
// really runs and how it really ends.
//
// A job's length is given in one of two ways. With RunTime, it is the run time
// at the requested GPUs, well placed (what production traces record); the
// model, if named, only says how placement changes the speed. Without RunTime,
// Model must name a model of the zoo (or of the measured profiles), and the
// job trains that model to the end.
type Work struct {
	sched.Spec
	RunTime   sched.Duration `json:"run_time,omitempty"`
	BatchSize int            `json:"batch_size,omitempty"` // of all GPUs together; 0: the model's initial one
	TrueUtil  float64        `json:"true_util,omitempty"`  // utilisation of its GPUs when alone, where GPUUtil is what was predicted; 0: GPUUtil
	// Outcome is how the job ends when its work is done: Finished, Killed (its
	// user ends it at that point) or Failed (after the last of Failures, with
	// no further retry). The zero value means Finished.
	Outcome sched.Phase `json:"outcome,omitempty"`
	// Failures are attempts that end with an error before the job gets through,
	// in order.
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is an attempt that ends with an error.
type Failure struct {
	Reason string         `json:"reason"`
	After  sched.Duration `json:"after"` // run time of the attempt until it fails
}
