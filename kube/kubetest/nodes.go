// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPU is the resource under which nodes offer GPUs.
const GPU corev1.ResourceName = "nvidia.com/gpu"

// Labels that nodes of GPU clusters carry.
const (
	LabelProduct = "nvidia.com/gpu.product"
	LabelCount   = "nvidia.com/gpu.count"
	LabelRack    = "topology.kubernetes.io/rack"
)

// NodeSpec describes identical simulated nodes.
type NodeSpec struct {
	Prefix  string // of the names: "gpu" gives gpu-0, gpu-1, ...; default "node"
	Count   int
	GPUs    int    // of each node
	Type    string // of the GPUs, in the label nvidia.com/gpu.product
	PerRack int    // nodes of one rack, in the label topology.kubernetes.io/rack; 0: no racks
	PerZone int    // nodes of one zone, in the label topology.kubernetes.io/zone; 0: no zones
	CPUs    int    // of each node; default 128
	Memory  string // of each node; default 1Ti

	Labels map[string]string // further ones
	Taints []corev1.Taint
}

// createAtOnce is how many nodes are created at a time.
const createAtOnce = 16

// AddNodes creates nodes, and waits until all are ready for pods.
func (c *Cluster) AddNodes(ctx context.Context, specs ...NodeSpec) error {
	if len(specs) > 0 && c.kwok == nil {
		return errors.New("add nodes: the cluster runs without KWOK; set Options.KWOK")
	}
	var nodes []*corev1.Node
	for _, s := range specs {
		more, err := s.nodes()
		if err != nil {
			return fmt.Errorf("add nodes: %w", err)
		}
		nodes = append(nodes, more...)
	}
	if err := c.createNodes(ctx, nodes); err != nil {
		return err
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return c.WaitNodes(ctx, names...)
}

// WaitNodes waits until simulated nodes are ready and run pods.
func (c *Cluster) WaitNodes(ctx context.Context, names ...string) error {
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[n] = true
	}
	if err := c.waitNodes(ctx, wanted); err != nil {
		return err
	}
	return c.waitLeases(ctx, wanted)
}

func (c *Cluster) createNodes(ctx context.Context, nodes []*corev1.Node) error {
	var wait sync.WaitGroup
	slots := make(chan struct{}, createAtOnce)
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := c.Client.Create(ctx, n); err != nil {
				errs[i] = fmt.Errorf("create node %s: %w", n.Name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// waitNodes waits until the named nodes are ready and have lost the taint of new nodes.
func (c *Cluster) waitNodes(ctx context.Context, names map[string]bool) error {
	if len(names) == 0 {
		return nil
	}
	return poll(ctx, func(ctx context.Context) error {
		list := &corev1.NodeList{}
		if err := c.Client.List(ctx, list); err != nil {
			return fmt.Errorf("wait for nodes: %w", err)
		}
		ready := 0
		for _, n := range list.Items {
			if names[n.Name] && NodeReady(&n) {
				ready++
			}
		}
		if ready < len(names) {
			return fmt.Errorf("wait for nodes: %d of %d are ready", ready, len(names))
		}
		return nil
	})
}

// NodeReady reports whether a node is ready, by its condition and by its taints.
func NodeReady(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// nodes returns the nodes that a specification describes.
func (s NodeSpec) nodes() ([]*corev1.Node, error) {
	if s.Count < 1 {
		return nil, fmt.Errorf("nodes %q: Count %d: want at least 1", s.Prefix, s.Count)
	}
	if s.Prefix == "" {
		s.Prefix = "node"
	}
	if s.CPUs == 0 {
		s.CPUs = 128
	}
	if s.Memory == "" {
		s.Memory = "1Ti"
	}
	memory, err := resource.ParseQuantity(s.Memory)
	if err != nil {
		return nil, fmt.Errorf("nodes %q: Memory %q: %w", s.Prefix, s.Memory, err)
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(s.CPUs), resource.DecimalSI),
		corev1.ResourceMemory: memory,
		corev1.ResourcePods:   *resource.NewQuantity(250, resource.DecimalSI),
	}
	if s.GPUs > 0 {
		capacity[GPU] = *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI)
	}
	ready := []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	out := make([]*corev1.Node, s.Count)
	for i := range out {
		out[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        fmt.Sprintf("%s-%d", s.Prefix, i),
				Labels:      s.LabelsOf(i),
				Annotations: map[string]string{managed: "fake"},
			},
			Spec: corev1.NodeSpec{Taints: s.Taints},
			Status: corev1.NodeStatus{
				Capacity: capacity, Allocatable: capacity,
				Conditions: ready, // this saves KWOK a write for each node
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
				NodeInfo:   corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "kwok"},
			},
		}
	}
	return out, nil
}

// LabelsOf returns those of a node, by its index.
func (s NodeSpec) LabelsOf(i int) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:   fmt.Sprintf("%s-%d", s.Prefix, i),
		corev1.LabelArchStable: "amd64",
		corev1.LabelOSStable:   "linux",
	}
	if s.GPUs > 0 {
		labels[LabelCount] = strconv.Itoa(s.GPUs)
	}
	if s.Type != "" {
		labels[LabelProduct] = s.Type
	}
	if s.PerRack > 0 {
		labels[LabelRack] = fmt.Sprintf("%s-rack-%d", s.Prefix, i/s.PerRack)
	}
	if s.PerZone > 0 {
		labels[corev1.LabelTopologyZone] = fmt.Sprintf("%s-zone-%d", s.Prefix, i/s.PerZone)
	}
	for key, value := range s.Labels {
		labels[key] = value
	}
	return labels
}
