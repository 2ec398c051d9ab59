// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package reserve is a layer over a policy that keeps large gangs from starving:
// a gang that has waited for long gets a time and a set of GPUs, and whatever of
// these GPUs is free is held back from the policy below until all of them are.
//
// # When and where
//
// Reservations go to gangs of at least gpus GPUs, or of at least the given share of
// the cluster's, that the policy leaves waiting for GPUs (not for their tenant's quota, not in a back-off) and that have waited
// for after, or for the part of their expected run time, if that is longer: at
// most most at a time, by priority, then by the begin of the wait.
//
// When the running jobs will have ended follows from their progress and
// estimates (see place.Ends: one that runs over its estimate is given twice as
// long, then four times). The gang gets the earliest time at which it would find
// a place; it waits longer for a nearer one, on fewer nodes or in one rack, as
// long as it would on a ladder (place.StandardPatience). A job that must be
// consolidated waits for the fewest nodes.
//
// Every decision looks again. When ends slip, the time does, too. The GPUs stay
// the same ones, unless others would be free earlier by more than the part slack
// of the wait, or nearer to each other.
//
// # What the policy below sees
//
// It is asked first about the world as it is. If it starts the gang by itself,
// it needs no reservation. Otherwise it is asked again: without the gangs that
// have a reservation, so that a strict order does not hold back others for them,
// and with the free GPUs of their places held by jobs that it may not stop. The
// second plan is the plan.
//
// When all GPUs of a place are free, the gang starts there, whatever the order
// below says. Until then jobs that the policy leaves waiting may use the GPUs
// that are held back, if by tolerance times their estimates they end before the
// reservation begins.
//
// # Limits
//
//   - With right estimates, no job that is backfilled delays a gang. With wrong
//     ones, only a job that needs more than tolerance times its estimate does;
//     and once the time that a gang was first given has passed, nobody is
//     backfilled on its GPUs, so that wrong estimates cannot starve it.
//   - A policy that preempts can start large gangs by itself and may stop one
//     again that this layer has started. The layer is legal over it, not useful.
//   - Gangs that accept parts of GPUs get no reservation.
//   - Which GPUs were reserved is a cache. A restart forgets it, and the gang may
//     get others.
package reserve
