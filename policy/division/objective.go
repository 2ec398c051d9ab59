// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import "github.com/fairway-gpu/fairway/sched"

// Objective says what GPUs cost jobs. A search makes the sum over all jobs as small as
// it can. It may cache, but what it returns depends on nothing but the snapshot.
type Objective interface {
	// Begin is called with every snapshot, before anything else.
	Begin(s *sched.Snapshot)
	// Idle returns the cost of a job without GPUs: the same for all jobs.
	Idle() float64
	// Most returns the most GPUs that an elastic job may have, as far as the objective
	// is concerned.
	Most(j *Job) int
	// Meet is called once for each job, before its costs are asked for.
	Meet(j *Job)
	// Cost returns the cost of n GPUs of a kind at a span: those that the job has
	// (kept), or others.
	Cost(j *Job, k *Kind, at Span, n int, kept bool) float64
}

// Rules limit a division beyond what jobs and tenants themselves ask for.
type Rules struct {
	// Apart: a node hosts at most one job that spans several nodes.
	Apart bool
	// Fixed, by job in the snapshot, is where a job has to be; nil: anywhere. Pinned
	// jobs are fixed in any case. Nil: no other job is.
	Fixed []sched.Placement
	// Leave, by job in the snapshot, says that the division is not about a job: it stays
	// where it runs, if the fixed jobs leave it room, or waits. The others then start from
	// what they have, with the effort that is due to all jobs together. Nil: it is about
	// all jobs.
	Leave []bool
	// Limits, by tenant, are the most GPUs that its jobs may hold, 0: none. Nil: only
	// the tenants' own limits hold.
	Limits []int
}
