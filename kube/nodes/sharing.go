// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/sched"
)

// Labels that describe how the device plugin lets pods share GPUs.
const (
	labelCount    = "nvidia.com/gpu.count" // physical GPUs
	labelReplicas = "nvidia.com/gpu.replicas"
	labelStrategy = "nvidia.com/gpu.sharing-strategy"
)

// Replicas returns how many replicas of each GPU a node offers: 1, or more if the
// device plugin shares GPUs. As many jobs may run on a GPU at a time. A pod with its
// own GPU requests all of its replicas, and a pod that shares it requests one, so the
// requests of a node's pods never exceed its GPUs.
func Replicas(n *corev1.Node) int {
	const most = 1000 // a thousandth is the smallest part of a GPU
	r, err := strconv.Atoi(n.Labels[labelReplicas])
	if err != nil || r < 1 || r > most {
		return 1
	}
	return r
}

// MPS reports whether the GPUs of a node are shared through MPS. The device plugin
// gives a container at most one replica, with its part of the GPU's memory and threads.
// No pod can have a whole GPU there, so only jobs that need at most such a part use the
// node.
func MPS(n *corev1.Node) bool { return Replicas(n) > 1 && n.Labels[labelStrategy] == "mps" }

// leastSeats is the least number of replicas with which two jobs can take turns, and a
// third can still begin (sched.State counts them).
const leastSeats = 3

// NoSuspend returns why the pods of a node cannot be suspended, whatever agent runs there;
// empty: they can. The device plugin does not know that a pod is suspended, so another pod
// can have its GPUs only if they are offered several times.
func NoSuspend(n *corev1.Node, pin bool) string {
	switch {
	case MPS(n):
		return "its GPUs are shared through MPS, and the driver does not suspend clients of MPS"
	case Replicas(n) < leastSeats:
		return fmt.Sprintf("its device plugin offers %d replicas of each GPU; with time-slicing and %d or more, another pod can have the GPUs of a suspended one", Replicas(n), leastSeats)
	case n.Labels[labelCount] != "1" && !pin:
		return "its device plugin chooses the GPUs of pods itself; set nodes.pin if it passes them in NVIDIA_VISIBLE_DEVICES"
	}
	return ""
}

// share completes the facts of a node that offers that many devices.
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
		c.close(f, "its labels and its devices disagree about the number of replicas of each GPU")
	case MPS(n) && f.node.GPUMemory > 0:
		f.node.GPUMemory /= int64(f.replicas)
	}
	if gpus > 1 && !c.Pin {
		c.close(f, "its device plugin offers replicas and chooses the GPU of a pod itself, so a job could get a GPU that is not free; "+
			"if the plugin passes GPUs to containers in NVIDIA_VISIBLE_DEVICES, set nodes.pin")
	}
	return gpus
}

// close keeps new jobs off a node.
func (c *Config) close(f *facts, why string) {
	f.node.State, f.closed = sched.Cordoned, why
}

// othersOf returns how many GPUs of a node others hold, from the devices that they
// request. On a node with replicas, it is unknown which GPU a pod got, so it may be
// any.
func (f *facts) othersOf(devices int64) int {
	if f.replicas > 1 && devices > 0 {
		return f.node.GPUs
	}
	return int(min(devices, sched.MaxGPUs))
}

// taintsOf returns the taints of a node, and one that keeps off jobs that need more of
// a GPU than they could get there.
func taintsOf(n *corev1.Node) []corev1.Taint {
	if !MPS(n) {
		return n.Spec.Taints
	}
	return append(slices.Clone(n.Spec.Taints), constraint.PartsTaint(Replicas(n)))
}
