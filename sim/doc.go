// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package sim drives the core in virtual time: it replays a workload on a cluster
// under a policy and measures the outcome of every job. Beneath it: traces, replays
// of journals, the model zoo, measured tables, autoscaling. It reads no clock and
// never imports the daemon.
//
// It is event-driven. Time jumps from event to event: a job arrives, ends, fails, or
// enters a training phase with another speed, or the policy asked to be woken.
// Decisions are made by the same sched.Decide, over the same sched.State, as in the
// live system.
//
// # When decisions are made
//
// With Config.Interval zero, after every event. With an interval, only at its
// multiples, as in systems that schedule in rounds; rounds without an event or a
// wake-up are skipped.
//
// # The truth about a job
//
// Only the simulator knows how fast a job really trains, in one of three forms (see
// Work): a recorded run time, scaled by how the placement slows the model down; a
// model of the zoo, by the throughput and efficiency formulas of package goodput; or
// measured tables (package profile). The last form follows a convention of the
// reference simulator of the Pollux paper: phases take whole seconds.
//
// Each form says how fast the job is on its GPU type. A recorded run time is assumed
// to be from the first GPU type of the cluster that the job accepts, and is scaled by
// the zoo's step times where its model is known. Measured tables are for one type, or
// for several that they name: then the nodes name them too, and a job runs only on
// types that its model was measured on. In a cluster of several types, a policy whose jobs have agents knows how much faster
// one type is than another for other models (see bootstrap); it learns the speed of
// the job itself when the job runs.
//
// Policies know what a live system would know, unless Config.Estimates says
// otherwise: users' estimates, the run times of past jobs, and the speed of a job
// where it has run. Jobs report their progress.
//
// A job is slower while it shares a node with another job that also spans several
// nodes (network interference) and while it shares its GPUs. It makes no progress
// while it restarts, which takes as long as its model and the number of its nodes
// demand, and a stop loses the step in progress (restart.go). Agents know the noise
// scale as an average over past batches (lag.go). Config.Optimistic leaves these
// costs out. When an attempt fails, its work is lost; FaultConfig says what happens
// next. HardwareConfig makes GPUs and nodes fail at stated rates.
//
// Policies that predict convergence see losses (Config.Losses). These are validation
// metrics of real trainings: those of the measured tables, or the zoo's points taken
// from them with their scatter. They do not have the form that any policy fits.
//
// # Determinism
//
// The package reads no clock, and its random numbers (measurement noise,
// searches) come from seeds: the same workload, cluster, policy and seed give the
// same Result, byte for byte.
package sim
