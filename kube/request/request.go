// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package request sums the resource requests of pods as Kubernetes does, and knows the
// resource names of GPUs.
package request

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// UsualGPU is the resource that a job requests by default.
const UsualGPU corev1.ResourceName = "nvidia.com/gpu"

// GPUs returns the resource names that device plugins give to GPUs, the most usual
// first.
func GPUs() []corev1.ResourceName {
	return []corev1.ResourceName{UsualGPU, "nvidia.com/gpu.shared", "amd.com/gpu"}
}

// Ended reports whether a pod has ended and uses nothing of its node.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Idle reports whether a pod has not ended and runs nothing yet. An init container that
// runs is work. A sidecar is not: it runs beside the others, and may be restarted for
// ever.
func Idle(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodPending && p.Status.Phase != "" {
		return false
	}
	for _, s := range p.Status.InitContainerStatuses {
		if s.State.Running != nil && !slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == s.Name && sidecar(&c) }) {
			return false
		}
	}
	return true
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Peak returns the most of a resource that a pod may use at a time: the sum over its
// containers, or the request of an init container if that is larger. A limit without a
// request counts as a request. CPUs are in thousandths, others in units; sums saturate.
func Peak(pod *corev1.PodSpec, name corev1.ResourceName) int64 {
	asked := func(c *corev1.Container) int64 { return amount(&c.Resources, name) }
	var together, before, sidecars int64
	for i := range pod.InitContainers {
		c := &pod.InitContainers[i]
		if sidecar(c) {
			sidecars = sum(sidecars, asked(c)) // a sidecar keeps running
			continue
		}
		before = max(before, sum(sidecars, asked(c)))
	}
	for i := range pod.Containers {
		together = sum(together, asked(&pod.Containers[i]))
	}
	most := max(before, sum(together, sidecars))
	if pod.Resources != nil {
		most = max(most, amount(pod.Resources, name))
	}
	return sum(most, quantity(pod.Overhead, name))
}

func amount(r *corev1.ResourceRequirements, name corev1.ResourceName) int64 {
	if _, ok := r.Requests[name]; ok {
		return quantity(r.Requests, name)
	}
	return quantity(r.Limits, name)
}

func quantity(list corev1.ResourceList, name corev1.ResourceName) int64 {
	q, ok := list[name]
	switch {
	case !ok:
		return 0
	case name == corev1.ResourceCPU:
		return max(0, q.MilliValue())
	}
	return max(0, q.Value())
}

// sum adds, and saturates instead of overflowing.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
