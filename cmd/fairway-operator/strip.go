// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/volumes"
)

// stripPod takes out of a pod what nobody here looks at, which is most of it. Clusters
// have many pods that are not ours, of which only what they use of a node matters.
func stripPod(object any) (any, error) {
	p, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	p.ManagedFields = nil
	spec := corev1.PodSpec{
		NodeName: p.Spec.NodeName, SchedulerName: p.Spec.SchedulerName, Overhead: p.Spec.Overhead, Priority: p.Spec.Priority,
		Resources: p.Spec.Resources, ResourceClaims: p.Spec.ResourceClaims, TerminationGracePeriodSeconds: p.Spec.TerminationGracePeriodSeconds,
		Containers: requests(p.Spec.Containers), InitContainers: requests(p.Spec.InitContainers), Volumes: volumes.Strip(p.Spec.Volumes),
	}
	switch {
	case p.Spec.SchedulerName == v1alpha1.SchedulerName && p.Labels[v1alpha1.LabelID] != "": // we have made it
		spec.Hostname, spec.Subdomain = p.Spec.Hostname, p.Spec.Subdomain
		p.Spec = spec
		return p, nil
	case p.Spec.SchedulerName == v1alpha1.SchedulerName:
		return p, nil
	}
	out := &corev1.Pod{
		TypeMeta: p.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Generation: p.Generation,
			CreationTimestamp: p.CreationTimestamp, DeletionTimestamp: p.DeletionTimestamp, OwnerReferences: p.OwnerReferences,
			Labels: p.Labels, Annotations: ours(p.Annotations),
		},
		Spec:   spec,
		Status: corev1.PodStatus{Phase: p.Status.Phase, Reason: p.Status.Reason, StartTime: p.Status.StartTime},
	}
	return out, nil
}

// requests keeps of containers what they ask for of their node.
func requests(containers []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range containers {
		ports := slices.DeleteFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort == 0 })
		if len(ports) == 0 {
			ports = nil
		}
		out = append(out, corev1.Container{Name: c.Name, Resources: c.Resources, Ports: ports, RestartPolicy: c.RestartPolicy, LivenessProbe: c.LivenessProbe})
	}
	return out
}

// stripNode takes out of a node the list of its images, which is most of it.
func stripNode(object any) (any, error) {
	n, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	n.ManagedFields = nil
	n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached = nil, nil, nil
	n.Annotations = ours(n.Annotations)
	return n, nil
}

// ours keeps the annotations of Fairway.
func ours(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(k, _ string) bool { return !strings.HasPrefix(k, v1alpha1.GroupVersion.Group+"/") })
	return out
}

// labelLeader is on the pod that leads: the Service of the API selects by it, so
// requests reach the one that can answer them.
const labelLeader = "fairway.dev/leader"

// setLeading puts the label on this process' pod, or takes it off.
func (o *operator) setLeading(ctx context.Context, leads bool) error {
	if o.pod == "" {
		return nil // outside of the cluster, no Service finds it anyway
	}
	value := "null"
	if leads {
		value = `"true"`
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, labelLeader, value)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.pod}}
	if err := o.direct.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("label pod %s/%s: %w", o.namespace, o.pod, err)
	}
	return nil
}
