// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster holds the end-to-end tests of Fairway on Kubernetes: the real
// operator, installed from its manifests, with a real etcd, API server, controller
// manager and scheduler, and nodes simulated by KWOK. The tests break things on
// purpose: processes are killed, paused and cut off, nodes are lost, other schedulers
// interfere, users attack.
//
// While a test runs, a ledger follows every change of every pod in the order in which
// the API server made them, so it misses no moment: no node gives out more GPUs than it
// has, no GPU is allocated twice, and no job runs twice at a time. At the end, the
// objects, the pods and the journal must agree. docs/kubernetes/guarantees.md says what
// follows from that.
package cluster
