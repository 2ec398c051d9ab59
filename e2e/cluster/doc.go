// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster holds the tests of Fairway on Kubernetes as a whole: the real
// program of the operator, installed from its manifests, with a real etcd, API
// server, controller manager and scheduler, and nodes that KWOK pretends. Things
// break on purpose: processes are killed, paused and cut off, nodes are lost,
// others interfere, users attack.
//
// While a test runs, a ledger follows every change of every pod in the order in
// which the API server made them, so that no moment is missed: no node gives out
// more GPUs than it has, no GPU is given twice, and no job runs twice at a time.
// At the end the objects, the pods and the journal have to tell the same story.
// docs/kubernetes/guarantees.md says what follows from that.
package cluster
