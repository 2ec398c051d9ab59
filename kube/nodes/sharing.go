// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/sched"
)

// Labels that describe how the device plugin lets pods share GPUs.
const (
	labelCount    = "nvidia.com/gpu.count" // GPUs that there really are
	labelReplicas = "nvidia.com/gpu.replicas"
	labelStrategy = "nvidia.com/gpu.sharing-strategy"
)

// Replicas returns how often a node offers each of its GPUs: 1, or more if the
// device plugin shares them. That is also how many jobs may be on a GPU at a time.
// A pod with its own GPU requests all of its replicas, a pod that shares it only
// one: so the requests of a node's pods never exceed its GPUs.
func Replicas(n *corev1.Node) int {
	const most = 1000 // a thousandth is the smallest part of a GPU
	r, err := strconv.Atoi(n.Labels[labelReplicas])
	if err != nil || r < 1 || r > most {
		return 1
	}
	return r
}

// MPS reports whether the GPUs of a node are shared by MPS. Its device plugin gives
// a container at most one replica, with its part of the GPU's memory and threads:
// no pod can have a whole GPU, so only jobs that ask for at most such a part go
// there.
func MPS(n *corev1.Node) bool { return Replicas(n) > 1 && n.Labels[labelStrategy] == "mps" }

// share completes the facts of a node whose device plugin offers that many devices.
func (c *Config) share(f *facts, n *corev1.Node, devices int64) (gpus int64) {
	f.replicas, f.node.Seats = Replicas(n), Replicas(n)
	if f.replicas == 1 {
		return devices
	}
	gpus = devices / int64(f.replicas)
	if count, err := strconv.ParseInt(n.Labels[labelCount], 10, 32); err == nil && count > 0 && count <= devices {
		gpus = count
	}
	switch {
	case gpus*int64(f.replicas) != devices:
		// The plugin and the labels are being changed, or only some GPUs are shared.
		c.close(f, "its labels and its devices do not agree about how often each GPU is offered")
	case MPS(n) && f.node.GPUMemory > 0:
		f.node.GPUMemory /= int64(f.replicas)
	}
	if gpus > 1 && !c.Pin {
		c.close(f, "its device plugin offers each GPU several times and chooses itself which one a pod gets, so a job could get another than the one that is free for it; "+
			"if it names GPUs to containers by NVIDIA_VISIBLE_DEVICES, set nodes.pin")
	}
	return gpus
}

// close lets a node take no new work.
func (c *Config) close(f *facts, why string) {
	f.node.State, f.closed = sched.Cordoned, why
}

// othersOf returns how many GPUs of a node others hold, from the devices that they
// request. Where GPUs are offered several times, it is unknown which one a pod got:
// it may be any.
func (f *facts) othersOf(devices int64) int {
	if f.replicas > 1 && devices > 0 {
		return f.node.GPUs
	}
	return int(min(devices, sched.MaxGPUs))
}

// taintsOf returns the taints of a node, with one that keeps jobs off which need more
// of a GPU than they could get there.
func taintsOf(n *corev1.Node) []corev1.Taint {
	if !MPS(n) {
		return n.Spec.Taints
	}
	return append(slices.Clone(n.Spec.Taints), constraint.PartsTaint(Replicas(n)))
}
