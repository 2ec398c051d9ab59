// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
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

// State receives the nodes. It chooses the GPUs that count as held by others, because
// only their number is known here.
type State interface {
	SetNodes(context.Context, []sched.Node) error
}

// Config configures a watcher. Zero fields mean the default.
type Config struct {
	Cache cache.Cache // of nodes and pods; required
	State State       // required

	// Resources are the resource names of GPUs; default nvidia.com/gpu,
	// nvidia.com/gpu.shared and amd.com/gpu. If a node offers several, the first
	// counts.
	Resources []corev1.ResourceName
	// RackLabels are the labels that name the rack of a node, or another group with a
	// fast network; the first that a node has counts. Default: those of NVIDIA and of
	// the large clouds, then the zone.
	RackLabels []string
	// Levels are the levels of the topology, the widest first; those that a node has no
	// label of, it is in no domain of. Default: racks alone.
	Levels []Level
	// Tolerated are the keys of further taints, besides those named like Resources,
	// that keep other pods off GPU nodes but not Fairway's.
	Tolerated []string
	// Constraints are those of the active jobs. Nodes get the labels of those they
	// satisfy. Nil: there are none.
	Constraints *constraint.Registry
	// Pin says that device plugins pass GPUs to containers in the variable
	// NVIDIA_VISIBLE_DEVICES, so Fairway can choose among GPUs with replicas. Without
	// it, nodes with several such GPUs take no jobs.
	Pin bool
	// Able reports whether the agent of a node can suspend pods; if not, why. Nil: pods are
	// not suspended.
	Able func(node string) (ok bool, why string)
	// OwnsPod recognises Fairway's pods; default: those with its scheduler name.
	OwnsPod func(*corev1.Pod) bool

	Grace    time.Duration // how long a node may be not ready before it is down; default 40 s
	Debounce time.Duration // how long changes are collected; default 50 ms
	Resync   time.Duration // how often the state is updated without a change; default 1 min
	Settle   time.Duration // how long a little that others gave back stays theirs; default 10 min

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default: nothing is logged
}

// Level is a level of the topology by the label that names its domains. The level rack
// has none: RackLabels say where a rack's name is.
type Level struct {
	Name  string `json:"name"`
	Label string `json:"label"`
}

// CheckLevels says what is wrong with a list of levels, if anything.
func CheckLevels(levels []Level) error {
	var domains []sched.Domain
	for i, l := range levels {
		rack := l.Name == sched.RackLevel
		switch {
		case rack && l.Label != "":
			return fmt.Errorf("levels[%d].label = %s; want none for the level rack: rack_labels name it", i, l.Label)
		case !rack && len(validation.IsQualifiedName(l.Label)) > 0:
			return fmt.Errorf("levels[%d].label = %q; want the key of a node label, such as topology.kubernetes.io/zone", i, l.Label)
		}
		domains = append(domains, sched.Domain{Level: l.Name, Name: "any"})
	}
	if _, err := sched.NewCluster([]sched.Node{{Name: "any", Domains: domains}}); err != nil {
		return fmt.Errorf("levels: %w", err)
	}
	return nil
}

// LevelNames returns the levels that jobs may ask for.
func LevelNames(levels []Level) []string {
	var out []string
	for _, l := range levels {
		if l.Name != sched.RackLevel {
			out = append(out, l.Name)
		}
	}
	return append(out, sched.Levels()...)
}

// Resources returns the resources that a configuration names, or the usual ones.
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

// defaultRackLabels are common labels for groups of nodes with a fast network, the
// smallest group first.
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
	or(&c.Settle, 10*time.Minute)
	if len(c.Resources) == 0 {
		c.Resources = request.GPUs()
	}
	if c.RackLabels == nil {
		c.RackLabels = defaultRackLabels
	}
	if c.OwnsPod == nil {
		c.OwnsPod = func(p *corev1.Pod) bool { return p.Spec.SchedulerName == v1alpha1.SchedulerName }
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

// RulesFor returns the rules for taints: taints named like a GPU resource, and those
// that the configuration names, do not keep Fairway's pods off a node.
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
