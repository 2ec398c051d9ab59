// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/live"
	"github.com/fairway-gpu/fairway/sched"
)

// Labels that say what GPUs a node has.
const (
	labelProduct  = "nvidia.com/gpu.product"
	labelMemory   = "nvidia.com/gpu.memory" // MiB of each
	labelReplicas = "nvidia.com/gpu.replicas"
)

// typeLabels name the product, the most telling first.
var typeLabels = []string{
	labelProduct, "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
	"amd.com/gpu.product-name", "beta.amd.com/gpu.product-name", "amd.com/gpu.device-id",
}

// typeOf returns the type of a node's GPUs: as on one machine, the name that
// people use, in lower case.
func typeOf(n *corev1.Node) sched.GPUType {
	for _, l := range typeLabels {
		if v := n.Labels[l]; v != "" {
			return live.GPUTypeOf(v)
		}
	}
	return "gpu"
}

// memoryOf returns the bytes of each GPU; 0: the labels do not say.
func memoryOf(n *corev1.Node) int64 {
	const most = 1 << 24 // MiB: 16 TiB, far beyond any GPU
	mib, err := strconv.ParseInt(n.Labels[labelMemory], 10, 64)
	if err != nil || mib < 0 || mib > most {
		return 0
	}
	return mib << 20
}

// Replicas returns how often a node offers each of its GPUs: 1, or more where the
// device plugin is set up to share them. A pod that is to have a GPU for itself
// requests all of its replicas, and one that is to have a part of it so many of
// them: what a node's pods request together then never exceeds what its GPUs are.
func Replicas(n *corev1.Node) int {
	const most = 1000 // a thousandth is the smallest part of a GPU
	r, err := strconv.Atoi(n.Labels[labelReplicas])
	if err != nil || r < 1 || r > most {
		return 1
	}
	return r
}
