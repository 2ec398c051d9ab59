// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package mirror keeps the objects that people write in Kubernetes and the daemon's
// state in step. Training jobs, apps with a search and external workloads (batch Jobs,
// TrainJobs, JobSets, RayClusters and PodGroups with Fairway's label) become jobs;
// tenants and the scheduling policy become configuration; the status of each object says
// what became of it.
//
// Reconciling is level-triggered: it compares an object with the state and does what is
// missing, whatever happened before. A submission is idempotent by the object's UID, so
// an operator may be killed at any point. There are no finalizers: a job whose object
// is gone, or was replaced by another of the same name, is found by its origin and
// cancelled.
//
// A status is written only when it differs, at most once a second for each object.
// Text that changes all the time (why a job waits, until when, its goodput) is written
// at most every TextGap, so a long queue does not become a stream of writes.
package mirror
