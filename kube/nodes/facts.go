// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairway-gpu/fairway/sched"
)

// facts is what a Node object says, without what pods use of it.
type facts struct {
	node     sched.Node // State is Ready or Cordoned, as it is when the node is ready
	resource corev1.ResourceName
	replicas int
	sick     int   // GPUs that cannot be used
	cpu      int64 // thousandths, allocatable
	memory   int64
	// unready is since when the node has not been ready; zero: it is.
	unready time.Time
}

// factsOf reads a Node object; ok is false if the node is none of Fairway's.
func (c *Config) factsOf(n *corev1.Node) (f facts, ok bool) {
	if n.Labels[LabelIgnore] == "true" {
		return facts{}, false
	}
	name, capacity := c.offers(n)
	if capacity == 0 {
		return facts{}, false
	}
	f = facts{
		node: sched.Node{
			Name: n.Name, Type: typeOf(n), GPUMemory: memoryOf(n), Rack: c.rackOf(n),
		},
		resource: name, replicas: Replicas(n),
		cpu: quantity(n.Status.Allocatable, corev1.ResourceCPU).MilliValue(), memory: quantity(n.Status.Allocatable, corev1.ResourceMemory).Value(),
	}
	usable := quantity(n.Status.Allocatable, name).Value() / int64(f.replicas)
	gpus := capacity / int64(f.replicas)
	if gpus > sched.MaxGPUs {
		c.Log.Warn("a node has more GPUs than Fairway can count; the rest is left alone", "node", n.Name, "gpus", gpus, "most", sched.MaxGPUs)
		gpus = sched.MaxGPUs
	}
	if gpus <= 0 {
		return facts{}, false
	}
	f.node.GPUs = int(gpus)
	f.sick = int(max(0, gpus-usable))
	if n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, c.repels) {
		f.node.State = sched.Cordoned
	}
	f.unready = unreadySince(n)
	return f, true
}

func quantity(list corev1.ResourceList, name corev1.ResourceName) *resource.Quantity {
	q := list[name]
	return &q
}

// offers returns the GPU resource of a node and its capacity, in devices.
func (c *Config) offers(n *corev1.Node) (corev1.ResourceName, int64) {
	for _, name := range c.Resources {
		if q := quantity(n.Status.Capacity, name).Value(); q > 0 {
			return name, q
		}
	}
	return "", 0
}

func (c *Config) rackOf(n *corev1.Node) string {
	for _, l := range c.RackLabels {
		if v := n.Labels[l]; v != "" {
			return v
		}
	}
	return ""
}

// repels reports whether a taint keeps the pods of jobs off a node.
func (c *Config) repels(t corev1.Taint) bool {
	if t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute {
		return false
	}
	switch t.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return false // the condition says it, and since when
	}
	return !slices.Contains(c.Resources, corev1.ResourceName(t.Key)) && !slices.Contains(c.Tolerated, t.Key)
}

func unreadySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return time.Time{}
		}
		return c.LastTransitionTime.Time
	}
	return n.CreationTimestamp.Time // its kubelet has not said anything yet
}

// with returns the node as the book sees it, with what others use of it, and
// when that may change by itself; zero: it does not.
func (f *facts) with(others request, now time.Time, grace time.Duration) (n sched.Node, again time.Time) {
	n = f.node
	devices := others.gpus[f.resource]
	taken := int((devices + int64(f.replicas) - 1) / int64(f.replicas))
	n.Others = sched.FirstGPUs(min(n.GPUs, taken+f.sick))
	// What is 0 is not checked: a node that has nothing left keeps a little.
	n.CPUs = int(max(1, (f.cpu-others.cpu)/1000))
	n.Memory = max(1, f.memory-others.memory)
	if f.cpu == 0 {
		n.CPUs = 0
	}
	if f.memory == 0 {
		n.Memory = 0
	}
	if f.unready.IsZero() {
		return n, time.Time{}
	}
	if down := f.unready.Add(grace); now.Before(down) {
		n.State = sched.Cordoned
		return n, down
	}
	n.State = sched.Down
	return n, time.Time{}
}
