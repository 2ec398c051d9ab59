// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/kube/request"
)

// demand is what a pod asks of its node, or a sum of that.
type demand struct {
	gpus   map[corev1.ResourceName]int64 // devices; read only once made
	cpu    int64                         // thousandths
	memory int64                         // bytes
}

// demandOf returns what a pod asks of its node.
func demandOf(p *corev1.Pod, gpus []corev1.ResourceName) demand {
	r := demand{cpu: request.Peak(&p.Spec, corev1.ResourceCPU), memory: request.Peak(&p.Spec, corev1.ResourceMemory)}
	for _, name := range gpus {
		if n := request.Peak(&p.Spec, name); n > 0 {
			if r.gpus == nil {
				r.gpus = map[corev1.ResourceName]int64{}
			}
			r.gpus[name] = n
		}
	}
	return r
}
