// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admitted returns a pod as the API server will admit it: a RuntimeClass adds a node
// selector, tolerations, and what the runtime itself needs. One that does not exist adds
// nothing; the API server refuses the pods then.
func (m *Mirror) admitted(ctx context.Context, pod *corev1.PodSpec) (*corev1.PodSpec, error) {
	if pod.RuntimeClassName == nil {
		return pod, nil
	}
	var class nodev1.RuntimeClass
	err := m.Cache.Get(ctx, client.ObjectKey{Name: *pod.RuntimeClassName}, &class)
	switch {
	case apierrors.IsNotFound(err):
		return pod, nil
	case err != nil:
		return nil, fmt.Errorf("read runtime class %s: %w", *pod.RuntimeClassName, err)
	}
	out := *pod
	if s := class.Scheduling; s != nil {
		out.NodeSelector = maps.Clone(s.NodeSelector)
		if out.NodeSelector == nil {
			out.NodeSelector = map[string]string{}
		}
		maps.Copy(out.NodeSelector, pod.NodeSelector) // where they differ, the API server refuses the pod
		out.Tolerations = append(slices.Clone(pod.Tolerations), s.Tolerations...)
	}
	if o := class.Overhead; o != nil && len(pod.Overhead) == 0 {
		out.Overhead = o.PodFixed
	}
	return &out, nil
}
