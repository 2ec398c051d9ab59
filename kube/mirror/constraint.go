// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// selectorFor returns the label that stands for the node constraint of an object's pods,
// after the nodes that satisfy the constraint have received it. has is the selector of the
// object's job; nil: it has none yet.
func (m *Mirror) selectorFor(ctx context.Context, from string, pod *corev1.PodSpec, has *string) (string, error) {
	if m.Constraints == nil || pod == nil {
		return "", nil
	}
	c, err := m.constraintFor(ctx, from, pod, has)
	if err != nil {
		return "", err
	}
	label, err := m.Constraints.Use(from, c)
	if err != nil {
		return "", api.Errorf(api.TooMany, "%w", err)
	}
	m.Constraints.Await(ctx, label)
	return label, nil
}

// constraintFor returns the constraint of an object's pods. A job that was submitted keeps the
// one that its selector stands for, also if that was before its RuntimeClass said where its
// pods may run.
func (m *Mirror) constraintFor(ctx context.Context, from string, pod *corev1.PodSpec, has *string) (constraint.Constraint, error) {
	admitted, err := m.admitted(ctx, pod)
	if err != nil {
		return constraint.Constraint{}, err
	}
	c := m.Constraints.For(namespaceOf(from), admitted, has)
	if has != nil && c.Label() != *has {
		if plain := m.Constraints.For(namespaceOf(from), pod, has); plain.Label() == *has {
			return plain, nil
		}
	}
	return c, nil
}

// namespaceOf returns the namespace of an origin.
func namespaceOf(from string) string {
	_, rest, _ := strings.Cut(from, "/")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

// dropConstraint drops the constraint of an object whose jobs have ended.
func (m *Mirror) dropConstraint(from string) {
	if m.Constraints != nil {
		m.Constraints.Drop(from)
	}
}

// restoreConstraints registers the constraints of all existing objects.
func (m *Mirror) restoreConstraints(ctx context.Context) error {
	if m.Constraints == nil {
		return nil
	}
	if v := m.Constraints.Volumes; v != nil {
		select {
		case <-v.Synced():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	has := m.selectors()
	use := func(kind string, o client.Object, pod *corev1.PodSpec) {
		from := origin(kind, o.GetNamespace(), o.GetName())
		c, err := m.constraintFor(ctx, from, pod, has(from))
		if err == nil {
			_, err = m.Constraints.Use(from, c)
		}
		if err != nil {
			m.Log.Warn("register node constraint", "kind", kind, "namespace", o.GetNamespace(), "name", o.GetName(), "err", err)
		}
	}
	var jobs v1alpha1.TrainingJobList
	if err := m.Cache.List(ctx, &jobs); err != nil {
		return fmt.Errorf("list training jobs: %w", err)
	}
	for i := range jobs.Items {
		if j := &jobs.Items[i]; !api.HasEnded(j.Status.State) {
			use(kindTrainingJob, j, constraintPod(&j.Spec))
		}
	}
	var apps v1alpha1.AppList
	if err := m.Cache.List(ctx, &apps); err != nil {
		return fmt.Errorf("list apps: %w", err)
	}
	for i := range apps.Items {
		if a := &apps.Items[i]; a.Spec.Search != nil && !api.HasEnded(a.Status.State) {
			use(kindApp, a, constraintPod(&a.Spec.Search.Trial))
		}
	}
	for _, kind := range m.externalKinds() {
		list, err := m.managedExternal(ctx, kind)
		if err != nil {
			return err
		}
		for _, j := range list {
			if j.pod != nil && !j.ended {
				use(kind, j, j.pod)
			}
		}
	}
	m.Constraints.Filled()
	return nil
}

// selectors finds the selector of the active jobs of an origin; nil: it has none.
func (m *Mirror) selectors() func(from string) *string {
	list, _ := m.State.Mirrored()
	known := map[string]*string{}
	for i := range list {
		if j := &list[i]; !j.Ended {
			known[j.Origin] = &j.Selector
		}
	}
	return func(from string) *string {
		if s := known[from]; s != nil {
			return s
		}
		for _, s := range m.State.WithOrigin(from) { // a search may have no trial at present
			if !s.Over() {
				return &s.Spec.Trial.Selector
			}
		}
		return nil
	}
}
