// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package sched is the core of Fairway: the types of GPU scheduling, the one
// method of a policy, and the checks on its plans. Beneath it: goodput (speed),
// place (finding GPUs), fairness (rho), guard (bounds on preemption). It imports only
// the standard library; every room may import it.
//
// The core is pure. It reads no clock, does no I/O, starts no goroutine and
// draws no random number: the same snapshot gives the same plan, byte for
// byte. Time arrives as Snapshot.Now and as Event.At.
//
// # The loop
//
// A driver (the simulator, the daemon of one machine, the operator in
// Kubernetes) owns a State and repeats:
//
//  1. State.Apply(event) for everything that happened,
//  2. s := State.Snapshot(now),
//  3. actions, plan, err := Decide(policy, s),
//  4. carry out the actions in order and apply the events that result,
//  5. come back at the next event, or at plan.Wake.
//
// # Duties of a policy
//
// A policy gets a Snapshot and returns a Plan. It must not modify the
// snapshot, must not depend on the order of Snapshot.Jobs, and must give the
// same plan for the same snapshot. Whatever it wants to remember about a job
// travels in Plan.Notes and comes back in Job.Note; state hidden inside a
// policy may only be a cache.
//
// # Duties of Decide
//
// A plan is a proposal. Decide checks it against the rules of the house (see
// Check) and refuses a plan that breaks one: the error names the policy's bug
// and nothing is carried out. An accepted plan is turned into actions, stops
// before starts, so that a driver that carries them out in order never holds
// a GPU twice.
//
// # Node numbers
//
// A node is known by its index in Cluster.Nodes. The index of a node is
// stable for the life of a State: a node that leaves is marked Down and keeps
// its number. Placements therefore carry small integers, not names, and a
// check over a whole cluster is a walk over flat arrays.
package sched
