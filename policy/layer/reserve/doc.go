// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package reserve is a layer over a policy that keeps large gangs from starving:
// a gang that has waited for long gets a time and a set of GPUs, and those of them
// that are free are held back from the policy below until all of them are.
//
// # When and where
//
// Reservations go to gangs of at least gpus GPUs, or of at least the given share of
// the cluster, that the policy leaves waiting for GPUs (not for their tenant's quota
// or the end of a back-off) and that have waited for after, or for the given part of
// their expected run time, if that is longer. The knob most bounds their number; they
// go by priority, then by the start of the wait.
//
// When the running jobs will have ended follows from their progress and
// estimates (see place.Ends: one that exceeds its estimate is given twice as
// long, then four times). The gang gets the earliest time at which it would fit. For
// GPUs on fewer nodes or in one rack it waits longer, as long as it would on a ladder
// (place.StandardPatience). A job that must be
// consolidated waits for the fewest nodes.
//
// Every decision looks again. When jobs end later than expected, the reservation
// moves too. Its GPUs stay the same, unless others would shorten the wait by more
// than the part slack, or are closer together.
//
// # What the policy below sees
//
// It first sees the cluster as it is. If it starts the gang by itself, no reservation
// is needed. Otherwise it decides again: without the gangs that have a reservation, so
// that a strict order does not hold back other jobs for them, and with the reserved
// free GPUs held by placeholder jobs that it may not stop. The second plan counts.
//
// When all reserved GPUs are free, the gang starts there, whatever the order of the
// policy below. Until then, jobs that the policy leaves waiting may use the GPUs that
// are held back, if at tolerance times their estimates they end before the
// reservation begins.
//
// # Limits
//
//   - With correct estimates, no backfilled job delays a gang. With wrong ones, only
//     a job that needs more than tolerance times its estimate does; and once the time
//     that a gang was first given has passed, no job is backfilled on its GPUs, so
//     that wrong estimates cannot starve it.
//   - A policy that preempts can start large gangs by itself and may stop one again
//     that this layer has started. The layer is valid over it, but not useful.
//   - Gangs that accept parts of GPUs get no reservation.
//   - Which GPUs were reserved is a cache. A restart forgets it, and the gang may
//     get others.
package reserve
