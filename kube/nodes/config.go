// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// LabelIgnore, with the value true, excludes a node from Fairway.
const LabelIgnore = "fairway.dev/ignore"

// LabelPool names a pool that a node belongs to. The node gets the name as a label,
// so a layer of the policy can use the nodes of a pool.
const LabelPool = v1alpha1.LabelPool

// State takes the nodes. It chooses which GPUs are set aside for others: only
// their number is known here.
type State interface {
	SetNodes(context.Context, []sched.Node) error
}

// Config is where nodes are found and how they are read. Zero fields mean the
// default.
type Config struct {
	Cache cache.Cache // of nodes and pods; required
	State State       // required

	// Resources are those that a GPU is requested by; default nvidia.com/gpu,
	// nvidia.com/gpu.shared and amd.com/gpu. A node has GPUs of one of them: the
	// first that it offers.
	Resources []corev1.ResourceName
	// RackLabels name the rack of a node, or another group with a fast network; the
	// first label that a node has counts. Default: those of NVIDIA and of the large
	// clouds, and finally the zone.
	RackLabels []string
	// Tolerated are keys of taints, besides Resources, that keep other pods off GPU
	// nodes but not Fairway's.
	Tolerated []string
	// Constraints are those of the current jobs: nodes get the labels of those they
	// satisfy. Nil: there are none.
	Constraints *constraint.Registry
	// Pin: device plugins pass GPUs to containers by the variable
	// NVIDIA_VISIBLE_DEVICES, so Fairway can choose them where each is offered
	// several times. Without it, nodes with several such GPUs take no work.
	Pin bool
	// Ours recognises Fairway's pods; default: those with its scheduler name.
	Ours func(*corev1.Pod) bool

	Grace    time.Duration // how long a node may be not ready before it is down; default 40 s
	Debounce time.Duration // how long changes are collected; default 50 ms
	Resync   time.Duration // how often the state is updated without a change; default 1 min

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default: nothing is logged
}

// Resources returns the resources that a configuration names; the usual ones if it
// names none.
func Resources(names []string) []corev1.ResourceName {
	if len(names) == 0 {
		return request.GPUs()
	}
	out := make([]corev1.ResourceName, 0, len(names))
	for _, n := range names {
		out = append(out, corev1.ResourceName(n))
	}
	return out
}

// defaultRackLabels are the labels by which clusters tell which nodes share a
// fast network, the nearest first.
var defaultRackLabels = []string{
	"topology.kubernetes.io/rack",
	"network.topology.nvidia.com/accelerator",
	"network.topology.nvidia.com/leaf",
	"network.topology.nvidia.com/block",
	"cloud.google.com/gce-topology-block",
	"topology.k8s.aws/network-node-layer-3",
	"oci.oraclecloud.com/rdma.local_block_id",
	corev1.LabelTopologyZone,
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	or(&c.Grace, 40*time.Second)
	or(&c.Debounce, 50*time.Millisecond)
	or(&c.Resync, time.Minute)
	if len(c.Resources) == 0 {
		c.Resources = request.GPUs()
	}
	if c.RackLabels == nil {
		c.RackLabels = defaultRackLabels
	}
	if c.Ours == nil {
		c.Ours = func(p *corev1.Pod) bool { return p.Spec.SchedulerName == v1alpha1.SchedulerName }
	}
	if c.Constraints == nil {
		c.Constraints = constraint.NewRegistry(RulesFor(c.Resources, c.Tolerated))
		c.Constraints.Filled()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// RulesFor returns the rules for taints: those named like a GPU resource, and those
// that the configuration names, keep no pod of Fairway off a node.
func RulesFor(resources []corev1.ResourceName, tolerated []string) constraint.Rules {
	if len(resources) == 0 {
		resources = request.GPUs()
	}
	open := slices.Clone(tolerated)
	for _, r := range resources {
		open = append(open, string(r))
	}
	return constraint.Rules{Open: open}
}
