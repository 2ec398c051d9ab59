// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Labels that say what GPUs a node has.
const (
	labelProduct = "nvidia.com/gpu.product"
	labelMemory  = "nvidia.com/gpu.memory" // MiB of each
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
			return api.GPUTypeOf(v)
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
