// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package pods makes a Kubernetes cluster follow the orders of the state: it
// creates the pods of an attempt, binds them to the nodes that were chosen, and
// tells how the attempt ended. It decides nothing about who runs where.
//
// # The life of an attempt
//
// All pods of a gang are created before the first is bound, and none is bound
// before every earlier attempt of the job and every earlier holder of its GPUs is
// gone, and before each node has room for what it is to get, whoever else is
// there. So a gang whose first pod is bound has all its pods; one that misses a
// pod then has lost it.
//
// A gang ends as a whole: when all pods have succeeded, or when the first fails
// or is lost, and the others are deleted. Its end is told when no pod of it is
// left that could still hold a GPU. Pods that have ended are kept for a while for
// their logs.
//
// # Crashes
//
// Nothing is remembered that a crash could lose. Names of pods are made from the
// name of the job, the number of the attempt and the rank, so creating one again
// is harmless; what state an attempt is in is read from its pods; and what
// should be comes from executor.Port. One thing cannot be known afterwards: if all
// pods of a gang vanish while no operator runs, the attempt is begun again under
// the same number.
//
// # Lost nodes
//
// A pod on a node that does not answer cannot be stopped, only forgotten. It is
// taken for gone when its node has been silent for Config.LostAfter, or is no
// longer part of the cluster: the next attempt may then begin elsewhere, while
// the node, if it was only cut off, may still run the old one for a moment.
package pods
