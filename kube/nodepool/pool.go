// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/sched"
)

// The ways in which an autoscaler is asked.
const (
	ByRequests = "provisioning-requests" // of Cluster Autoscaler
	ByPods     = "pods"                  // that are pending
)

// Scaler decides how many nodes a pool should have, out of a snapshot with the nodes of
// the pool and the jobs for them, and how many nodes there are or were asked for.
type Scaler interface {
	Desired(s *sched.Snapshot, nodes int) int
}

// Config configures a pool. All fields are required.
type Config struct {
	Client    client.Client // without a cache, for what is asked for
	Nodes     client.Reader // the cluster's nodes
	Namespace string        // of what is asked for

	By     string            // ByRequests or ByPods
	Class  string            // of ProvisioningRequests
	Min    int               // nodes that are there without jobs
	Max    int               // nodes
	Labels map[string]string // by which the nodes of the pool are known
	Type   sched.GPUType     // of their GPUs
	GPUs   int               // of each node
	// Resource is the resource by which the GPUs of the pool are asked for.
	Resource corev1.ResourceName
	// Tolerated are the keys of taints that the pods of jobs tolerate.
	Tolerated []string

	Scaler   Scaler
	Snapshot func() *sched.Snapshot
	// Imagine returns a node as the state would see it if the cluster had it.
	Imagine func(*corev1.Node) (sched.Node, bool)
	Every   time.Duration // between two checks
	Log     *slog.Logger
}

// Pool asks for the nodes of a pool.
type Pool struct{ Config }

// Run checks until the context ends. What fails is tried again at the next check.
func (p *Pool) Run(ctx context.Context) error {
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	for {
		if err := p.Check(ctx); err != nil && ctx.Err() == nil {
			p.Log.Warn("ask for nodes", "pool", p.Labels, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Check compares the nodes that there are with those that there should be, and asks for
// what is missing.
func (p *Pool) Check(ctx context.Context) error {
	var list corev1.NodeList
	if err := p.Nodes.List(ctx, &list, client.MatchingLabels(p.Labels)); err != nil {
		return fmt.Errorf("list the nodes of the pool: %w", err)
	}
	names := map[string]bool{}
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	var o orders = pending{p}
	if p.By == ByRequests {
		o = requests{p}
	}
	asked, err := o.asked(ctx, len(names))
	if err != nil {
		return err
	}
	want := p.Min
	s, err := p.world(names)
	if err != nil {
		return err
	}
	if len(s.Jobs) > 0 {
		want = min(p.Max, max(p.Min, p.Scaler.Desired(s, len(names)+asked)))
	}
	more := max(0, want-len(names))
	if more != asked {
		p.Log.Info("ask for nodes", "pool", p.Labels, "nodes", len(names), "wanted", want, "asked", asked)
	}
	return o.ask(ctx, len(names), more)
}

// orders are what an autoscaler sees.
type orders interface {
	// asked returns how many nodes have been asked for that are not there yet.
	asked(ctx context.Context, nodes int) (int, error)
	// ask asks for that many more nodes than there are, instead of what was asked for.
	ask(ctx context.Context, nodes, more int) error
}

// world returns a snapshot with the nodes of the pool, those that it may get, which are
// down, and the jobs that run on it or wait and could.
func (p *Pool) world(pool map[string]bool) (*sched.Snapshot, error) {
	all := p.Snapshot()
	example, ok := p.Imagine(p.node())
	if !ok {
		return nil, fmt.Errorf("the node that autoscale describes, with labels %v, is not one that Fairway uses; want labels that do not exclude it", p.Labels)
	}
	example.Type, example.State = p.Type, sched.Down
	var nodes []sched.Node
	at := map[int32]int32{} // by index in the cluster: index in the pool
	for i, n := range all.Cluster.Nodes {
		if pool[n.Name] {
			at[int32(i)] = int32(len(nodes))
			nodes = append(nodes, n)
		}
	}
	for i := len(nodes); i < p.Max; i++ {
		example.Name = fmt.Sprintf("to come %d", i) // no node has a space in its name
		nodes = append(nodes, example)
	}
	cluster, err := sched.NewCluster(nodes)
	if err != nil {
		return nil, fmt.Errorf("imagine the pool: %w", err)
	}
	var jobs []*sched.Job
	for _, j := range all.Jobs {
		if len(j.Placement) == 0 {
			if j.Ready(all.Now) && j.Suits(&example) {
				jobs = append(jobs, j)
			}
			continue
		}
		here := *j
		here.Placement = slices.Clone(j.Placement)
		inside := true
		for i := range here.Placement {
			n, in := at[here.Placement[i].Node]
			here.Placement[i].Node, inside = n, inside && in
		}
		if inside {
			jobs = append(jobs, &here)
		}
	}
	s := *all
	s.Cluster, s.Jobs = cluster, jobs
	return &s, nil
}

// node is a node of the pool.
func (p *Pool) node() *corev1.Node {
	gpus := corev1.ResourceList{p.Resource: *resource.NewQuantity(int64(p.GPUs), resource.DecimalSI)}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "to-come", Labels: maps.Clone(p.Labels)}, Status: corev1.NodeStatus{Capacity: gpus, Allocatable: gpus}}
}

// podSpec is that of a pod that fills a node of the pool. No scheduler binds it.
func (p *Pool) podSpec() corev1.PodSpec {
	gpus := corev1.ResourceList{p.Resource: *resource.NewQuantity(int64(p.GPUs), resource.DecimalSI)}
	no, yes, nobody, grace := false, true, int64(65532), int64(0)
	spec := corev1.PodSpec{
		SchedulerName: "fairway-node-to-come", NodeSelector: maps.Clone(p.Labels), TerminationGracePeriodSeconds: &grace,
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no, RestartPolicy: corev1.RestartPolicyNever,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &nobody, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "node", Image: "never-started", Resources: corev1.ResourceRequirements{Requests: gpus, Limits: gpus},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}
	for _, key := range append([]string{string(p.Resource)}, p.Tolerated...) {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return spec
}
