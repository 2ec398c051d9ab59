// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package sim drives the core in virtual time: it replays a workload on a cluster
// under a policy and measures the outcome of every job. Beneath it: traces, replays
// of journals, the model zoo, measured tables, autoscaling. It reads no clock and
// never imports the daemon.
//
// It is event-driven. Time jumps from one thing that happens to the next: a
// job arrives, ends, fails, trains into a phase with another speed, or the
// policy asked to be woken. Decisions are made by the same sched.Decide that
// the live system calls, over the same sched.State.
//
// # When decisions are made
//
// With Config.Interval zero, whenever something happened. With an interval,
// only at its multiples, as systems that schedule in rounds do; rounds in which
// nothing happened and nobody asked to be woken are skipped.
//
// # The truth about a job
//
// How fast a job really trains is known to the simulator alone, in one of
// three forms (see Work): a recorded run time, scaled by how the placement
// slows the model down; a model of the zoo, by the throughput and efficiency
// formulas of package goodput; or measured tables (package profile), which is
// the mode for comparisons with the reference simulator of the Pollux paper and
// follows its conventions: 30 s for every start, whole seconds.
//
// Each of them says how fast the job is on the type of GPU it runs on. A recorded
// run time is taken to be of the first type of the cluster that the job would
// take, and scaled by the zoo's step times where its model is known. Measured
// tables are of one type. In a cluster of several types, a policy whose jobs have
// agents is told how much faster one type is than another for other models (see
// bootstrap); how fast the job itself is, it learns when the job runs.
//
// What policies are told about it is what a live system would know, unless
// Config.Estimates says otherwise: users' estimates and the run times of past
// jobs, and the speed of a job where it has run. Jobs report how far they are.
//
// On top of these a job slows down while it shares a node with another job
// that also spans several nodes (network interference) and while it shares its
// GPUs. It stands still while it restarts. When an attempt fails, its work is
// lost; FaultConfig says what becomes of the next one.
//
// Policies that predict convergence see training losses (Config.Losses). They
// follow from a job's progress by one curve for all models, and when a job has
// trained to its end, its user's rule says that it has converged.
//
// # Determinism
//
// The package reads no clock, and its random numbers (measurement noise,
// searches) come from seeds: the same workload, cluster, policy and seed give the
// same Result, byte for byte.
package sim
