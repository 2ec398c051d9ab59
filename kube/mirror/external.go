// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// externalWorkload is an object of a kind that is not Fairway's. Its own controller
// creates its pods.
type externalWorkload struct {
	client.Object
	suspended        bool
	ended, succeeded bool
	why              string                // it failed
	pods             int                   // that it runs at a time
	podsFirst        bool                  // its pods exist before it starts, without a node
	selects          client.MatchingFields // its pods, and perhaps some of other workloads
	owns             func(*corev1.Pod) bool
	submission       func() (api.Submission, error)
	pod              *corev1.PodSpec // of one of its pods, as far as it is known; nil: there is none yet
}

// copied returns a copy of the object, for a client to write into.
func (p *externalWorkload) copied() client.Object { return p.DeepCopyObject().(client.Object) }

// isExternal reports whether a kind is one of external workloads.
func isExternal(kind string) bool {
	return kind == kindJob || kind == kindPodGroup || slices.Contains(suspendable(), kind)
}

// suspendedKind is a kind of another project whose objects create no pods while their
// spec.suspend is true.
type suspendedKind struct {
	schema.GroupVersionKind
	read func(*unstructured.Unstructured) *externalWorkload
}

var suspendedKinds = []suspendedKind{{trainJobKind, trainJobWorkload}, {jobSetKind, jobSetWorkload}, {rayClusterKind, rayClusterWorkload}}

// SuspendedKinds returns the kinds of other projects that Fairway can schedule.
func SuspendedKinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, k := range suspendedKinds {
		out = append(out, k.GroupVersionKind)
	}
	return out
}

func suspendable() []string {
	var out []string
	for _, k := range suspendedKinds {
		out = append(out, k.Kind)
	}
	return out
}

// externalKinds returns the kinds of external workloads that are watched.
func (m *Mirror) externalKinds() []string {
	var out []string
	if m.BatchJobs {
		out = append(out, kindJob)
	}
	out = append(out, m.Suspended...)
	if m.PodGroups != "" {
		out = append(out, kindPodGroup)
	}
	return out
}

// externalObject returns an empty object of an external kind.
func (m *Mirror) externalObject(kind string) client.Object {
	switch kind {
	case kindJob:
		return &batchv1.Job{}
	case kindPodGroup:
		return m.podGroupObject()
	}
	u := &unstructured.Unstructured{}
	for _, k := range suspendedKinds {
		if k.Kind == kind {
			u.SetGroupVersionKind(k.GroupVersionKind)
		}
	}
	return u
}

// external reads an object from the cache.
func (m *Mirror) external(ctx context.Context, k key) (*externalWorkload, error) {
	o := m.externalObject(k.kind)
	if err := m.Cache.Get(ctx, k.at(), o); err != nil {
		return nil, err
	}
	return m.externalOf(ctx, o)
}

func (m *Mirror) externalOf(ctx context.Context, o client.Object) (*externalWorkload, error) {
	switch o := o.(type) {
	case *batchv1.Job:
		return batchWorkload(o), nil
	case *unstructured.Unstructured:
		if o.GetKind() == kindPodGroup {
			return m.podGroupWorkload(ctx, o)
		}
		for _, k := range suspendedKinds {
			if k.Kind == o.GetKind() {
				return k.read(o), nil
			}
		}
	}
	return nil, fmt.Errorf("%T is not an external workload", o)
}

// managedExternal returns all external workloads of a kind that Fairway schedules.
func (m *Mirror) managedExternal(ctx context.Context, kind string) ([]*externalWorkload, error) {
	var list client.ObjectList = &batchv1.JobList{}
	if u, ok := m.externalObject(kind).(*unstructured.Unstructured); ok {
		of := u.GroupVersionKind()
		of.Kind += "List"
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(of)
		list = all
	}
	if err := m.Cache.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list %ss: %w", kind, err)
	}
	var out []*externalWorkload
	err := meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(client.Object)
		if o.GetLabels()[v1alpha1.LabelManaged] == "" {
			return nil
		}
		p, err := m.externalOf(ctx, o)
		out = append(out, p)
		return err
	})
	return out, err
}

func batchWorkload(job *batchv1.Job) *externalWorkload {
	p := &externalWorkload{
		Object: job, suspended: job.Spec.Suspend != nil && *job.Spec.Suspend, pods: 1, pod: &job.Spec.Template.Spec,
		selects:    podsWith(batchv1.JobNameLabel, job.Name),
		owns:       func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, job) },
		submission: func() (api.Submission, error) { return submissionOfBatch(job) },
	}
	if job.Spec.Parallelism != nil {
		p.pods = int(*job.Spec.Parallelism)
	}
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			p.note(string(c.Type), c.Reason+": "+c.Message)
		}
	}
	return p
}

// note applies a condition that is true, by the name that Jobs have for it.
func (p *externalWorkload) note(condition, why string) {
	switch condition {
	case string(batchv1.JobComplete):
		p.ended, p.succeeded = true, true
	case string(batchv1.JobFailed):
		p.ended, p.why = true, why
	}
}

// gangOf returns a submission for a number of identical pods.
func gangOf(o client.Object, kind string, pods int64, pod *corev1.PodSpec) (api.Submission, error) {
	gpus, _ := podGPUs(pod)
	if f := v1alpha1.UnsupportedField(pod, false); f != nil {
		return api.Submission{}, &refusal{"Unsupported", fmt.Sprintf("%s of its pods must be left out: %s", f.Path, f.Note)}
	}
	s := api.Submission{
		Spec: sched.Spec{GPUs: int(pods * gpus), TaskGPUs: int(gpus)},
		Task: api.Task{Name: o.GetName(), Origin: origin(kind, o.GetNamespace(), o.GetName()), Retry: api.RetryNever},
		Key:  string(o.GetUID()),
	}
	if text, set := o.GetAnnotations()[v1alpha1.AnnotationPreemptible]; set {
		may, err := strconv.ParseBool(text)
		if err != nil {
			return s, &refusal{"Invalid", fmt.Sprintf("metadata.annotations[%s] is %.20q; use true or false", v1alpha1.AnnotationPreemptible, text)}
		}
		s.Preemptible = &may
	}
	fromTemplate(&s, pod, gpus)
	return s, nil
}
