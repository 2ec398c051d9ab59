// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/workload"
)

// Template returns what the pods of an attempt are made from. If the object is gone, or
// was replaced by another of the same name, it returns a "not found" error as the API
// server would: the attempt can never start.
func (m *Mirror) Template(ctx context.Context, a api.Attempt) (workload.Pod, error) {
	parts := strings.SplitN(a.Task.Origin, "/", 3)
	if len(parts) != 3 {
		return workload.Pod{}, fmt.Errorf("find template of job %s: origin %q; want kind/namespace/name", a.Job, a.Task.Origin)
	}
	at := client.ObjectKey{Namespace: parts[1], Name: parts[2]}
	switch parts[0] {
	case kindTrainingJob:
		return m.jobTemplate(ctx, at, a)
	case kindApp:
		return m.trialTemplate(ctx, at, a)
	}
	return workload.Pod{}, fmt.Errorf("find template of job %s: origin %q; want a TrainingJob or an App", a.Job, a.Task.Origin)
}

// errUnseen means that the mirror has not reconciled the object yet, so the object may
// not be the one that the job was made from.
var errUnseen = errors.New("its object was not reconciled yet")

func (m *Mirror) jobTemplate(ctx context.Context, at client.ObjectKey, a api.Attempt) (workload.Pod, error) {
	var job v1alpha1.TrainingJob
	err := read(ctx, m, at, &job, func(uid string) bool {
		id, _ := m.index.job(uid)
		return id != a.Job
	})
	if err != nil {
		return workload.Pod{}, fmt.Errorf("find template of job %s: %w", a.Job, err)
	}
	switch id, known := m.index.job(string(job.UID)); {
	case job.DeletionTimestamp != nil, known && id != a.Job:
		return workload.Pod{}, fmt.Errorf("find template of job %s: %w", a.Job, apierrors.NewNotFound(resourceOf("trainingjobs"), at.Name))
	case !known:
		return workload.Pod{}, fmt.Errorf("find template of job %s: %w", a.Job, errUnseen)
	}
	var templates []corev1.PodTemplateSpec
	for _, t := range job.Spec.Templates() {
		pod, err := m.admitted(ctx, &t.Spec)
		if err != nil {
			return workload.Pod{}, fmt.Errorf("find template of job %s: %w", a.Job, err)
		}
		templates = append(templates, corev1.PodTemplateSpec{ObjectMeta: t.ObjectMeta, Spec: *pod})
	}
	return workload.Pod{
		Templates: templates, Namespace: at.Namespace, Name: at.Name, GPUResource: gpuResource(&job.Spec),
		Owner: *metav1.NewControllerRef(&job, v1alpha1.GroupVersion.WithKind(kindTrainingJob)),
	}, nil
}

// trialTemplate returns the pods of a trial: the app's template with the trial's
// parameters filled in.
func (m *Mirror) trialTemplate(ctx context.Context, at client.ObjectKey, a api.Attempt) (workload.Pod, error) {
	var app v1alpha1.App
	// A trial's app ID is the ID of its search, which contains a part of the object's
	// UID.
	owns := func() bool {
		own := string(searchID(&app))
		return string(a.Spec.App) == own || strings.HasSuffix(string(a.Spec.App), "/"+own)
	}
	if err := read(ctx, m, at, &app, func(string) bool { return !owns() }); err != nil {
		return workload.Pod{}, fmt.Errorf("find template of trial %s: %w", a.Job, err)
	}
	if app.Spec.Search == nil || app.DeletionTimestamp != nil || !owns() {
		return workload.Pod{}, fmt.Errorf("find template of trial %s: %w", a.Job, apierrors.NewNotFound(resourceOf("apps"), at.Name))
	}
	template := app.Spec.Search.Trial.Template.PodTemplateSpec
	pod, err := m.admitted(ctx, &template.Spec)
	if err != nil {
		return workload.Pod{}, fmt.Errorf("find template of trial %s: %w", a.Job, err)
	}
	template.Spec = *pod
	fillIn(&template, app.Spec.Search, a.Task.Env)
	return workload.Pod{
		Templates: []corev1.PodTemplateSpec{template}, Namespace: at.Namespace, Name: string(a.Job), GPUResource: gpuResource(&app.Spec.Search.Trial),
		Owner: *metav1.NewControllerRef(&app, v1alpha1.GroupVersion.WithKind(kindApp)),
	}, nil
}

func resourceOf(plural string) schema.GroupResource {
	return schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: plural}
}

func gpuResource(spec *v1alpha1.TrainingJobSpec) corev1.ResourceName {
	return cmp.Or(corev1.ResourceName(spec.GPUResource), request.UsualGPU)
}

// checkResource refuses jobs that request a resource that is not a GPU. The usual name
// stands for GPUs of any name.
func (m *Mirror) checkResource(field string, spec *v1alpha1.TrainingJobSpec) error {
	name := gpuResource(spec)
	if name == request.UsualGPU || len(m.Resources) == 0 || slices.Contains(m.Resources, name) {
		return nil
	}
	return &refusal{"Invalid", fmt.Sprintf("%s.gpuResource is %q; use one of %q, or leave it out", field, name, m.Resources)}
}

// fillIn puts a trial's parameters, whose values are in its environment, into the
// command, the arguments and the environment of all containers.
func fillIn(template *corev1.PodTemplateSpec, search *v1alpha1.Search, env map[string]string) {
	var pairs []string
	var vars []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(search.Parameters)) {
		value := env[api.ParamVariable(name)]
		pairs = append(pairs, "{"+name+"}", literal(value))
		vars = append(vars, corev1.EnvVar{Name: api.ParamVariable(name), Value: literal(value)})
	}
	replace := strings.NewReplacer(pairs...)
	for _, list := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range list {
			c := &list[i]
			for _, args := range [][]string{c.Command, c.Args} {
				for k := range args {
					args[k] = replace.Replace(args[k])
				}
			}
			for k := range c.Env {
				c.Env[k].Value = replace.Replace(c.Env[k].Value)
			}
			c.Env = append(c.Env, vars...)
		}
	}
}
