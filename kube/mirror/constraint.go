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
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// needs returns the label that the job of an object needs for the nodes that its pods
// may run on, once the nodes have it.
func (m *Mirror) needs(ctx context.Context, from string, pod *corev1.PodSpec) (string, error) {
	if m.Constraints == nil || pod == nil {
		return "", nil
	}
	label, err := m.Constraints.Use(from, m.Constraints.Of(pod))
	if err != nil {
		return "", api.Errorf(api.TooMany, "%w", err)
	}
	m.Constraints.Await(ctx, label)
	return label, nil
}

// unneeded says that no job of an object needs anything any more.
func (m *Mirror) unneeded(from string) {
	if m.Constraints != nil {
		m.Constraints.Drop(from)
	}
}

// recallNeeds takes in what the objects that are there need.
func (m *Mirror) recallNeeds(ctx context.Context) error {
	if m.Constraints == nil {
		return nil
	}
	use := func(kind string, o client.Object, pod *corev1.PodSpec) {
		if _, err := m.Constraints.Use(origin(kind, o.GetNamespace(), o.GetName()), m.Constraints.Of(pod)); err != nil {
			m.Log.Warn("recall where a job may run", "kind", kind, "namespace", o.GetNamespace(), "name", o.GetName(), "err", err)
		}
	}
	var jobs v1alpha1.TrainingJobList
	if err := m.Cache.List(ctx, &jobs); err != nil {
		return fmt.Errorf("list training jobs: %w", err)
	}
	for i := range jobs.Items {
		if j := &jobs.Items[i]; !api.HasEnded(j.Status.State) {
			use(kindTrainingJob, j, wherePod(&j.Spec))
		}
	}
	var apps v1alpha1.AppList
	if err := m.Cache.List(ctx, &apps); err != nil {
		return fmt.Errorf("list apps: %w", err)
	}
	for i := range apps.Items {
		if a := &apps.Items[i]; a.Spec.Search != nil && !api.HasEnded(a.Status.State) {
			use(kindApp, a, wherePod(&a.Spec.Search.Trial))
		}
	}
	for _, kind := range m.externalKinds() {
		list, err := m.managedExternal(ctx, kind)
		if err != nil {
			return err
		}
		for _, j := range list {
			if j.pod != nil && !j.over {
				use(kind, j, j.pod)
			}
		}
	}
	m.Constraints.Filled()
	return nil
}

// describe puts what the template says in the place of the label that stands for it.
func (m *Mirror) describe(job *api.Job) {
	if m.Constraints == nil || job.Reason == nil {
		return
	}
	r := *job.Reason
	r.Text = m.worded(job.Selector, r.Text)
	job.Reason = &r
}

// worded puts what a template says in the place of the label that stands for it in a
// text.
func (m *Mirror) worded(label, text string) string {
	if m.Constraints == nil {
		return text
	}
	if words := m.Constraints.Words(label); label != "" && words != "" {
		text = strings.NewReplacer("nodes with the label "+label, "nodes that satisfy "+words, "has the label "+label, "satisfies "+words).Replace(text)
	}
	return strings.ReplaceAll(text, "not counting nodes dedicated to jobs that select them", "besides nodes with taints that its template does not tolerate")
}
