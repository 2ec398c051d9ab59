// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RequestKind is the kind by which Cluster Autoscaler is asked for nodes.
var RequestKind = schema.GroupVersionKind{Group: "autoscaling.x-k8s.io", Version: "v1", Kind: "ProvisioningRequest"}

// annotationNodes says how many nodes the pool has when a request is fulfilled.
const annotationNodes = "fairway.dev/nodes"

// templateName is the PodTemplate that requests refer to.
const templateName = "fairway-node-to-come"

// requests asks by ProvisioningRequests. A request cannot be changed, so one that asks for
// more is added, and each is taken back when the pool has as many nodes as it was for, or
// when they are no longer wanted. If one fails, all are replaced by one for what is missing.
type requests struct{ *Pool }

func (r requests) list(ctx context.Context) ([]unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(RequestKind)
	if err := r.Client.List(ctx, &list, client.InNamespace(r.Namespace), client.HasLabels{labelNode}); err != nil {
		return nil, fmt.Errorf("list provisioning requests: %w", err)
	}
	return list.Items, nil
}

// goal returns how many nodes the pool has when a request is fulfilled; 0: never, as
// the autoscaler has given it up.
func goal(o *unstructured.Unstructured) int {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		switch c["type"] {
		case "Failed", "BookingExpired", "CapacityRevoked":
			if c["status"] == string(metav1.ConditionTrue) {
				return 0
			}
		}
	}
	n, _ := strconv.Atoi(o.GetAnnotations()[annotationNodes])
	return n
}

func (r requests) asked(ctx context.Context, nodes int) (int, error) {
	list, err := r.list(ctx)
	most := nodes
	for i := range list {
		most = max(most, goal(&list[i]))
	}
	return most - nodes, err
}

func (r requests) ask(ctx context.Context, nodes, more int) error {
	list, err := r.list(ctx)
	if err != nil {
		return err
	}
	most := nodes
	keep := func(o *unstructured.Unstructured) bool { n := goal(o); return n > nodes && n <= nodes+more }
	if slices.ContainsFunc(list, func(o unstructured.Unstructured) bool { return goal(&o) == 0 }) {
		keep = func(*unstructured.Unstructured) bool { return false }
	}
	var failed []error
	for i := range list {
		if o := &list[i]; keep(o) {
			most = max(most, goal(o))
		} else {
			failed = append(failed, client.IgnoreNotFound(r.Client.Delete(ctx, o)))
		}
	}
	if count := nodes + more - most; count > 0 {
		failed = append(failed, r.create(ctx, count, nodes+more))
	}
	return errors.Join(failed...)
}

func (r requests) create(ctx context.Context, count, goal int) error {
	if err := r.template(ctx); err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"provisioningClassName": r.Class,
		"podSets":               []any{map[string]any{"count": int64(count), "podTemplateRef": map[string]any{"name": templateName}}},
	}}}
	o.SetGroupVersionKind(RequestKind)
	o.SetNamespace(r.Namespace)
	o.SetGenerateName("fairway-nodes-")
	o.SetLabels(map[string]string{labelNode: "true"})
	o.SetAnnotations(map[string]string{annotationNodes: strconv.Itoa(goal)})
	if err := r.Client.Create(ctx, o); err != nil {
		return fmt.Errorf("request %d nodes: %w", count, err)
	}
	return nil
}

// template makes sure that the PodTemplate describes a node of the pool.
func (r requests) template(ctx context.Context) error {
	want := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: templateName, Labels: map[string]string{labelNode: "true"}},
		Template:   corev1.PodTemplateSpec{Spec: r.podSpec()},
	}
	var have corev1.PodTemplate
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), &have)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, want)
	} else if err == nil && !equality.Semantic.DeepDerivative(want.Template.Spec, have.Template.Spec) {
		have.Template = want.Template
		err = r.Client.Update(ctx, &have)
	}
	if err != nil {
		return fmt.Errorf("write pod template %s: %w", templateName, err)
	}
	return nil
}
