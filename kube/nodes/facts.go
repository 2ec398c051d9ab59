// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/sched"
)

// facts is what a Node object says, without what pods use of it.
type facts struct {
	node     sched.Node // State is the one for a ready node: Ready or Cordoned
	resource corev1.ResourceName
	replicas int
	closed   string // why it takes no new jobs, besides its state; empty: it does
	sick     int    // GPUs that cannot be used
	still    string // why its pods cannot be suspended, whatever agent it has; empty: they can
	cpu      int64  // thousandths, allocatable
	memory   int64
	labels   map[string]string
	taints   []corev1.Taint
	devices  corev1.ResourceList // its extended resources
	marked   uint64              // 1 + the version of the constraints that its labels come from; 0: unknown
	// unready is since when the node has not been ready; zero: it is ready.
	unready time.Time
}

// factsOf reads a Node object; ok is false if Fairway may not use the node.
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
		resource: name,
		cpu:      quantity(n.Status.Allocatable, corev1.ResourceCPU).MilliValue(), memory: quantity(n.Status.Allocatable, corev1.ResourceMemory).Value(),
	}
	f.node.Domains = c.domainsOf(n, f.node.Rack)
	gpus := c.share(&f, n, capacity)
	missing := max(0, capacity-quantity(n.Status.Allocatable, name).Value())
	if gpus > sched.MaxGPUs {
		c.Log.Warn("node has more GPUs than Fairway supports; ignoring the rest", "node", n.Name, "gpus", gpus, "most", sched.MaxGPUs)
		gpus = sched.MaxGPUs
	}
	if gpus <= 0 {
		return facts{}, false
	}
	f.node.GPUs = int(gpus)
	f.sick = int(min(gpus, (missing+int64(f.replicas)-1)/int64(f.replicas)))
	if n.Spec.Unschedulable {
		f.node.State = sched.Cordoned
	}
	f.labels, f.taints, f.devices = n.Labels, taintsOf(n), devicesOf(n)
	f.node.Dedicated = slices.ContainsFunc(f.taints, c.Constraints.Repels)
	f.unready, f.still = unreadySince(n), NoSuspend(n, c.Pin)
	return f, true
}

// devicesOf returns the extended resources of a node: those with a domain in their name.
func devicesOf(n *corev1.Node) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range n.Status.Capacity {
		if strings.Contains(string(name), "/") {
			out[name] = q
		}
	}
	return out
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

// domainsOf returns where a node is at each level, as far as it says.
func (c *Config) domainsOf(n *corev1.Node, rack string) (out []sched.Domain) {
	for _, l := range c.Levels {
		name := n.Labels[l.Label]
		if l.Name == sched.RackLevel {
			name = rack
		}
		if name != "" {
			out = append(out, sched.Domain{Level: l.Name, Name: name})
		}
	}
	return out
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
	return n.CreationTimestamp.Time // its kubelet has not reported yet
}

// setLabels gives the node the labels of the constraints that it satisfies, and of its pool.
func (f *facts) setLabels(rules constraint.Rules, all []constraint.Labelled, version uint64) {
	if f.marked == version+1 {
		return
	}
	f.marked = version + 1
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node.Name, Labels: f.labels}, Spec: corev1.NodeSpec{Taints: f.taints}, Status: corev1.NodeStatus{Capacity: f.devices}}
	var labels []string // a new list, because the state has the old one
	for _, c := range all {
		if rules.Admits(c.Constraint, n) {
			labels = append(labels, c.Label)
		}
	}
	if pool := f.labels[LabelPool]; sched.CheckLabel(pool) == nil {
		labels = append(labels, pool)
	}
	slices.Sort(labels)
	f.node.Labels = slices.Compact(labels)
}

// with returns the node for the state, with what others use of it, and when it changes
// by itself; zero: never.
func (f *facts) with(others demand, now time.Time, grace time.Duration) (n sched.Node, again time.Time) {
	n = f.node
	taken := f.othersOf(others.gpus[f.resource])
	n.Others = sched.FirstGPUs(min(n.GPUs, taken+f.sick))
	// The scheduler does not check a capacity of 0, so a node that has nothing left
	// keeps a little.
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

// demand is what one or several pods request from their node.
type demand struct {
	gpus   map[corev1.ResourceName]int64 // devices; never changed after creation
	cpu    int64                         // thousandths
	memory int64                         // bytes
}

// demandOf returns what a pod requests from its node.
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

// Labels that describe a node's GPUs.
const (
	labelProduct = "nvidia.com/gpu.product"
	labelMemory  = "nvidia.com/gpu.memory" // MiB of each GPU
)

// typeLabels name the GPU product, the most precise first.
var typeLabels = []string{
	labelProduct, "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator",
	"amd.com/gpu.product-name", "beta.amd.com/gpu.product-name", "amd.com/gpu.device-id",
}

// typeOf returns the type of a node's GPUs: the name that people use, in lower case, as
// on one machine.
func typeOf(n *corev1.Node) sched.GPUType {
	for _, l := range typeLabels {
		if v := n.Labels[l]; v != "" {
			return api.GPUTypeOf(v)
		}
	}
	return "gpu"
}

// memoryOf returns the bytes of each GPU; 0: unknown.
func memoryOf(n *corev1.Node) int64 {
	const most = 1 << 24 // MiB: 16 TiB, far beyond any GPU
	mib, err := strconv.ParseInt(n.Labels[labelMemory], 10, 64)
	if err != nil || mib < 0 || mib > most {
		return 0
	}
	return mib << 20
}
