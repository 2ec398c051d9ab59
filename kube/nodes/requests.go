// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	corev1 "k8s.io/api/core/v1"
)

// request is what a pod asks of its node, or a sum of that.
type request struct {
	gpus   map[corev1.ResourceName]int64 // devices; read only once made
	cpu    int64                         // thousandths
	memory int64                         // bytes
}

// requestOf returns what a pod asks of its node: what its containers ask for
// together, or more if a container that runs before them does.
func requestOf(p *corev1.Pod, gpus []corev1.ResourceName) request {
	r := request{cpu: peak(p, corev1.ResourceCPU), memory: peak(p, corev1.ResourceMemory)}
	for _, name := range gpus {
		if n := peak(p, name); n > 0 {
			if r.gpus == nil {
				r.gpus = map[corev1.ResourceName]int64{}
			}
			r.gpus[name] = n
		}
	}
	return r
}

// peak returns the most of a resource that a pod may use at a time, by its
// requests: CPUs in thousandths, others in units.
func peak(p *corev1.Pod, name corev1.ResourceName) int64 {
	of := func(list corev1.ResourceList) int64 {
		q, ok := list[name]
		switch {
		case !ok:
			return 0
		case name == corev1.ResourceCPU:
			return q.MilliValue()
		}
		return q.Value()
	}
	asked := func(c *corev1.Container) int64 { return max(of(c.Resources.Requests), 0) }
	var sum, before, sidecars int64
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars += asked(c)
			before = max(before, sidecars)
			continue
		}
		before = max(before, sidecars+asked(c))
	}
	for i := range p.Spec.Containers {
		sum += asked(&p.Spec.Containers[i])
	}
	most := max(sum+sidecars, before)
	if p.Spec.Resources != nil {
		most = max(most, of(p.Spec.Resources.Requests))
	}
	return most + of(p.Spec.Overhead)
}

// ended reports whether a pod no longer uses its node.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
