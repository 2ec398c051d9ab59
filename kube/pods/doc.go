// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package pods is the executor for Kubernetes: it creates the pods of an attempt,
// binds them to the chosen nodes, and reports how the attempt ended. It does not
// decide which job runs where.
//
// # The life of an attempt
//
// All pods of a gang are created before the first is bound (the last is created on its
// node), and none is bound before every earlier attempt of the job and every earlier holder of its GPUs is
// gone, each node has room for its pods, counting everything else on it, and all their
// volume claims are bound to volumes that their nodes can use.
// So a gang whose first pod is bound has all its pods; a pod that is missing then
// is lost.
//
// A gang ends as a whole: when all pods have succeeded, or when the first fails or
// is lost, and the others are deleted. Its end is reported when none of its pods
// could still hold a GPU. Pods that have ended are kept for a while for their logs.
//
// # Crashes
//
// A crash loses nothing. Pod names are made from the job's name, the attempt number
// and the rank, so creating one again is harmless; the state of an attempt is read
// from its pods; and what should run comes from executor.Port. One case cannot be
// detected: if all pods of a gang vanish while no operator runs, the attempt starts
// again under the same number.
//
// A pod belongs to an attempt by its labels and by the object that owns it
// (Config.OwnsPod), not by the journal's epoch: a name is given to one object at a time
// in a namespace, and Kubernetes removes the pods of another. What the journal could
// confuse are names of jobs, which it counts: one that is new or older than it was
// goes on behind the names of all pods there are (mirror.HighestNumber).
//
// # One leader
//
// An operator may believe that it leads when another does: it was cut off or stood still, or
// somebody removed its lease. Nothing that it does then may undo what the other has ordered.
//
//   - Pods are created and bound for attempts in the journal only, by name and by UID, on the
//     nodes that the journal names: two operators that do this do the same. One that comes after
//     the end of its attempt is removed; while one that is born on a node may come, its GPUs are
//     kept free.
//   - Pods are deleted, by UID, only if the journal says that their attempt is withdrawn, or if
//     this operator has concluded that it must end and Config.Confirm says, after that, that no other
//     has led meanwhile. In particular a pod whose attempt this operator does not know may be
//     another's: the attempt was ordered in the journal before the pod was created, so an operator
//     that has seen the pod and finds no page after its own knows that nobody wants it.
//
// Neither depends on a clock. The operator's lease, with which it stops writing in time, makes
// such moments rare.
//
// # Lost nodes
//
// A pod on a node that does not answer cannot be stopped. It counts as gone when
// its node has been silent for Config.LostAfter, or has left the cluster: the next
// attempt may then start elsewhere, while the node, if it was only cut off, may
// still run the old one for a moment.
package pods
