// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodes reports to the state which nodes of a Kubernetes cluster Fairway
// may use, and what others use of them.
//
// # Which nodes
//
// Fairway may use a node if it offers a GPU resource (nvidia.com/gpu and
// amd.com/gpu, unless the configuration names others) and does not have the label
// fairway.dev/ignore=true.
//
// # What others use
//
// Pods that Fairway did not place are counted by what they request. The GPUs they
// request, and those that the device plugin reports as unhealthy, are not available
// to Fairway; the CPUs and memory they request are subtracted from the node's. Sums
// are kept per node and updated by each pod that comes, goes or ends, so a change
// costs the same in a cluster of any size.
//
// # Which state
//
// - A node that is not ready, or unreachable, takes no new jobs. After a grace period
// it is Down, and its jobs move elsewhere.
//   - A node that is unschedulable (kubectl cordon) is Cordoned.
//
// # Labels and taints
//
// A node has the label of every constraint of a job (see package constraint) that
// it satisfies, with its labels, its taints and its devices that are not GPUs: the
// scheduler places the job only there. A node with a taint
// NoSchedule or NoExecute is reserved for jobs that tolerate it. Taints that keep
// other pods off GPU nodes do not count: those named like a GPU resource, and those
// that the configuration names. The label fairway.dev/pool gives a node its value
// as a label.
//
// # Shared GPUs
//
// If the device plugin offers replicas of every GPU (time-slicing or MPS), the node
// counts its physical GPUs, and as many jobs may share a GPU as it has replicas;
// otherwise GPUs are not shared. A pod that is not Fairway's closes such a node,
// because it is unknown which GPU the pod got. See Replicas and MPS.
package nodes
