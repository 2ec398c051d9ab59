// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
