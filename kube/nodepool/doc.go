// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodepool asks a cluster autoscaler for the nodes that jobs need. A scaler says
// how many nodes of a pool there should be; what is missing becomes a ProvisioningRequest
// or pending pods, which are taken back when the nodes are there.
//
// Nothing here removes nodes: an autoscaler removes those that stand empty by itself.
package nodepool
