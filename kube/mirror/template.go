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
	"github.com/fairway-gpu/fairway/kube/pods"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// Template returns what the pods of an attempt are made from. If the object is gone,
// or is another one of the same name, the error is one that the API server calls
// "not found": the attempt can never start.
func (m *Mirror) Template(ctx context.Context, a api.Attempt) (pods.Pod, error) {
	parts := strings.SplitN(a.Task.Origin, "/", 3)
	if len(parts) != 3 {
		return pods.Pod{}, fmt.Errorf("find template of job %s: origin %q; want kind/namespace/name", a.Job, a.Task.Origin)
	}
	at := client.ObjectKey{Namespace: parts[1], Name: parts[2]}
	switch parts[0] {
	case kindTrainingJob:
		return m.jobTemplate(ctx, at, a)
	case kindApp:
		return m.trialTemplate(ctx, at, a)
	}
	return pods.Pod{}, fmt.Errorf("find template of job %s: origin %q; want a TrainingJob or an App", a.Job, a.Task.Origin)
}

// errUnseen says that an object was not looked at yet: it may be another one than
// that the job was made from.
var errUnseen = errors.New("its object was not looked at yet")

func (m *Mirror) jobTemplate(ctx context.Context, at client.ObjectKey, a api.Attempt) (pods.Pod, error) {
	var job v1alpha1.TrainingJob
	err := read(ctx, m, at, &job, func(uid string) bool {
		id, _ := m.index.job(uid)
		return id != a.Job
	})
	if err != nil {
		return pods.Pod{}, fmt.Errorf("find template of job %s: %w", a.Job, err)
	}
	switch id, known := m.index.job(string(job.UID)); {
	case job.DeletionTimestamp != nil, known && id != a.Job:
		return pods.Pod{}, fmt.Errorf("find template of job %s: %w", a.Job, apierrors.NewNotFound(resourceOf("trainingjobs"), at.Name))
	case !known:
		return pods.Pod{}, fmt.Errorf("find template of job %s: %w", a.Job, errUnseen)
	}
	return pods.Pod{
		Template: job.Spec.Template.PodTemplateSpec, Namespace: at.Namespace, Name: at.Name, GPUResource: gpuResource(&job.Spec),
		Owner: *metav1.NewControllerRef(&job, v1alpha1.GroupVersion.WithKind(kindTrainingJob)),
	}, nil
}

// trialTemplate returns the pods of a trial: those of the app with the trial's
// parameters filled in.
func (m *Mirror) trialTemplate(ctx context.Context, at client.ObjectKey, a api.Attempt) (pods.Pod, error) {
	var app v1alpha1.App
	// The app of a trial is that of its search, which holds a part of the UID.
	owns := func() bool {
		own := string(searchID(&app))
		return string(a.Spec.App) == own || strings.HasSuffix(string(a.Spec.App), "/"+own)
	}
	if err := read(ctx, m, at, &app, func(string) bool { return !owns() }); err != nil {
		return pods.Pod{}, fmt.Errorf("find template of trial %s: %w", a.Job, err)
	}
	if app.Spec.Search == nil || app.DeletionTimestamp != nil || !owns() {
		return pods.Pod{}, fmt.Errorf("find template of trial %s: %w", a.Job, apierrors.NewNotFound(resourceOf("apps"), at.Name))
	}
	template := app.Spec.Search.Trial.Template.PodTemplateSpec
	fillIn(&template, app.Spec.Search, a.Task.Env)
	return pods.Pod{
		Template: template, Namespace: at.Namespace, Name: string(a.Job), GPUResource: gpuResource(&app.Spec.Search.Trial),
		Owner: *metav1.NewControllerRef(&app, v1alpha1.GroupVersion.WithKind(kindApp)),
	}, nil
}

func resourceOf(plural string) schema.GroupResource {
	return schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: plural}
}

func gpuResource(spec *v1alpha1.TrainingJobSpec) corev1.ResourceName {
	return cmp.Or(corev1.ResourceName(spec.GPUResource), request.UsualGPU)
}

// checkResource refuses jobs that ask for GPUs by a name that is none of a GPU. The
// usual name stands for any.
func (m *Mirror) checkResource(field string, spec *v1alpha1.TrainingJobSpec) error {
	name := gpuResource(spec)
	if name == request.UsualGPU || len(m.Resources) == 0 || slices.Contains(m.Resources, name) {
		return nil
	}
	return &refusal{"Invalid", fmt.Sprintf("%s.gpuResource is %q; use one of %q, or leave it out", field, name, m.Resources)}
}

// fillIn puts the values of parameters, which are in the variables of the trial,
// into the command, the arguments and the environment of all containers.
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
