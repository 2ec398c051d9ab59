// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotations decide what pods on simulated nodes do.
const (
	// RunFor is how long the pod runs, as a Go duration ("90s"). Without it, the pod
	// runs until it is deleted.
	RunFor = "fairway.dev/run-for"
	// ExitCode is the exit code of the pod's containers; default 0. With any other code
	// the pod's phase becomes Failed.
	ExitCode = "fairway.dev/exit-code"
	// ExitReason is the reason of the containers' end, such as OOMKilled; default
	// Completed or Error.
	ExitReason = "fairway.dev/exit-reason"
	// StopAfter is how long the pod takes to stop when it is deleted. The grace period
	// does not cut it short, so that a test can have a pod that overstays.
	StopAfter = "fairway.dev/stop-after"

	// endsAt makes a running pod end at a time, whatever its other annotations say.
	endsAt = "fairway.dev/ends-at"
	// frozen keeps a pod unchanged.
	frozen = "fairway.dev/frozen"
	// nudged is changed to make KWOK process a pod.
	nudged = "fairway.dev/nudged"
	// nodeReady is a node's label with the status of its condition Ready.
	nodeReady = "fairway.dev/node-ready"
	// managed is the annotation of nodes that KWOK manages.
	managed = "kwok.x-k8s.io/node"
)

// FailNode makes a simulated node fail as in a power cut: it becomes Unknown, and its
// pods do not change, even when they are deleted. A label tells KWOK.
func (c *Cluster) FailNode(ctx context.Context, name string) error {
	if err := c.patchNode(ctx, name, nodeReady, "Unknown"); err != nil {
		return fmt.Errorf("fail node %s: %w", name, err)
	}
	return c.freezePods(ctx, name, true)
}

// RecoverNode undoes FailNode.
func (c *Cluster) RecoverNode(ctx context.Context, name string) error {
	if err := c.patchNode(ctx, name, nodeReady, ""); err != nil {
		return fmt.Errorf("recover node %s: %w", name, err)
	}
	return c.freezePods(ctx, name, false)
}

// patchNode sets a label of a node, or removes it if the value is empty.
func (c *Cluster) patchNode(ctx context.Context, name, label, value string) error {
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	before := node.DeepCopy()
	delete(node.Labels, label)
	if value != "" {
		metav1.SetMetaDataLabel(&node.ObjectMeta, label, value)
	}
	return c.Client.Patch(ctx, node, client.MergeFrom(before))
}

func (c *Cluster) freezePods(ctx context.Context, node string, freeze bool) error {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return fmt.Errorf("list pods of node %s: %w", node, err)
	}
	for _, pod := range pods.Items {
		before := pod.DeepCopy()
		delete(pod.Annotations, frozen)
		if freeze {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, frozen, "true")
		}
		if err := c.Client.Patch(ctx, &pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("freeze pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// EndPod makes a running pod on a simulated node end now with an exit code.
func (c *Cluster) EndPod(ctx context.Context, pod client.ObjectKey, exitCode int) error {
	p := &corev1.Pod{}
	if err := c.Client.Get(ctx, pod, p); err != nil {
		return fmt.Errorf("end pod %s: %w", pod, err)
	}
	before := p.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, ExitCode, strconv.Itoa(exitCode))
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, endsAt, time.Now().UTC().Format(time.RFC3339))
	if err := c.Client.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("end pod %s: %w", pod, err)
	}
	return nil
}

// Bind binds a pod to a node, as a scheduler does.
func (c *Cluster) Bind(ctx context.Context, pod client.ObjectKey, node string) error {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := c.Client.SubResource("binding").Create(ctx, p, binding); err != nil {
		return fmt.Errorf("bind pod %s to %s: %w", pod, node, err)
	}
	return nil
}

// WaitPod waits until a pod is in a phase, and returns it. A pod that has ended
// in another phase is an error.
func (c *Cluster) WaitPod(ctx context.Context, pod client.ObjectKey, phase corev1.PodPhase) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	err := poll(ctx, func(ctx context.Context) error {
		if err := c.Client.Get(ctx, pod, p); err != nil {
			return err
		}
		if p.Status.Phase != phase && !Ended(p) {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return nil
	})
	if err == nil && p.Status.Phase != phase {
		err = fmt.Errorf("it ended as %s", p.Status.Phase)
	}
	if err != nil {
		return p, fmt.Errorf("wait for pod %s to be %s: %w", pod, phase, err)
	}
	return p, nil
}

// Ended reports whether a pod has succeeded or failed, and so no longer uses its node.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// StopKWOK stops the simulated kubelets: pods no longer change, and nodes become
// unknown when their leases expire.
func (c *Cluster) StopKWOK() { c.kwok.Kill() }

// StartKWOK undoes StopKWOK.
func (c *Cluster) StartKWOK(ctx context.Context) error {
	if c.kwok.Running() {
		return errors.New("start kwok: it is running")
	}
	// Otherwise the new process would wait until the leases of the old one expire.
	if err := c.Client.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(corev1.NamespaceNodeLease)); err != nil {
		return fmt.Errorf("start kwok: delete node leases: %w", err)
	}
	ready, err := c.beginKWOK()
	if err != nil {
		return err
	}
	if err := ready(ctx); err != nil {
		return err
	}
	nodes := &corev1.NodeList{}
	if err := c.Client.List(ctx, nodes); err != nil {
		return fmt.Errorf("start kwok: list nodes: %w", err)
	}
	names := map[string]bool{}
	for _, n := range nodes.Items {
		if n.Annotations[managed] != "" {
			names[n.Name] = true
		}
	}
	if err := c.waitLeases(ctx, names); err != nil {
		return fmt.Errorf("start kwok: %w", err)
	}
	return c.nudgePods(ctx, names)
}

// waitLeases waits until KWOK manages the named nodes. Until KWOK has seen its own
// lease of a node, it skips that node's pods and does not return to them.
func (c *Cluster) waitLeases(ctx context.Context, names map[string]bool) error {
	if len(names) == 0 {
		return nil
	}
	var last string // the node whose lease is the newest
	err := poll(ctx, func(ctx context.Context) error {
		leases := &coordinationv1.LeaseList{}
		if err := c.Client.List(ctx, leases, client.InNamespace(corev1.NamespaceNodeLease)); err != nil {
			return err
		}
		held, newest := 0, uint64(0)
		for _, l := range leases.Items {
			if !names[l.Name] {
				continue
			}
			held++
			if version, err := strconv.ParseUint(l.ResourceVersion, 10, 64); err == nil && version >= newest {
				newest, last = version, l.Name
			}
		}
		if held < len(names) {
			return fmt.Errorf("%d of %d nodes have a lease", held, len(names))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for node leases: %w", err)
	}
	// KWOK sees leases in the order of their creation, so when it runs a pod on the
	// last node, it knows all others.
	return c.tryNode(ctx, last)
}

// tryNode waits until a pod runs on a node, and removes it.
func (c *Cluster) tryNode(ctx context.Context, node string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "try-" + node + "-"},
		Spec: corev1.PodSpec{
			NodeName: node, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	if err := c.Client.Create(ctx, pod); err != nil {
		return fmt.Errorf("try node %s: %w", node, err)
	}
	err := poll(ctx, func(ctx context.Context) error {
		before := pod.DeepCopy() // changed each time, because KWOK may have skipped it
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, nudged, time.Now().UTC().Format(time.RFC3339Nano))
		if err := c.Client.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
		}
		return nil
	})
	if err == nil {
		err = c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	}
	if err != nil {
		return fmt.Errorf("try node %s: %w", node, err)
	}
	return nil
}

// nudgePods changes the pods of the named nodes, so that KWOK processes them again.
func (c *Cluster) nudgePods(ctx context.Context, nodes map[string]bool) error {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods); err != nil {
		return fmt.Errorf("nudge pods: %w", err)
	}
	for _, p := range pods.Items {
		if !nodes[p.Spec.NodeName] || (Ended(&p) && p.DeletionTimestamp == nil) {
			continue
		}
		before := p.DeepCopy()
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, nudged, time.Now().UTC().Format(time.RFC3339Nano))
		if err := c.Client.Patch(ctx, &p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("nudge pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}
