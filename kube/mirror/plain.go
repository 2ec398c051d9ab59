// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/live"
	"github.com/fairway-gpu/fairway/sched"
)

// plain is an object of somebody else's kind whose pods somebody else makes, and
// that can be suspended.
type plain struct {
	client.Object
	suspended  bool
	over, well bool
	why        string                // it failed
	pods       int                   // that it runs at a time
	loose      bool                  // its pods are there before it begins, without a node
	selects    client.MatchingFields // its pods, and maybe some of others
	owns       func(*corev1.Pod) bool
	submission func() (live.Submission, error)
	pod        *corev1.PodSpec // of one of its pods; nil: see podOf
}

// template returns the pod of the object, as far as it is known.
func (p *plain) template() *corev1.PodSpec {
	if p.pod != nil {
		return p.pod
	}
	return podOf(p.Object)
}

// trainJobKind is the kind of Kubeflow's training jobs.
var trainJobKind = schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: kindTrainJob}

// jobSetLabel names the JobSet of a pod, which has the name of its TrainJob.
const jobSetLabel = "jobset.sigs.k8s.io/jobset-name"

// copied returns a copy of the object, for a client to write into.
func (p *plain) copied() client.Object { return p.DeepCopyObject().(client.Object) }

// foreignKind reports whether objects of a kind are somebody else's.
func foreignKind(kind string) bool {
	return kind == kindJob || kind == kindTrainJob || kind == kindPodGroup
}

// plainObject returns an empty object to watch a kind with.
func plainObject(kind string) client.Object {
	if kind == kindJob {
		return &batchv1.Job{}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(trainJobKind)
	return u
}

// plain reads an object from the cache.
func (m *Mirror) plain(ctx context.Context, k key) (*plain, error) {
	if k.kind == kindPodGroup {
		group := m.podGroupObject()
		if err := m.Cache.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: k.name}, group); err != nil {
			return nil, err
		}
		return m.plainPodGroup(ctx, group)
	}
	o := plainObject(k.kind)
	if err := m.Cache.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: k.name}, o); err != nil {
		return nil, err
	}
	if job, ok := o.(*batchv1.Job); ok {
		return plainJob(job), nil
	}
	return plainTrainJob(o.(*unstructured.Unstructured)), nil
}

func plainJob(job *batchv1.Job) *plain {
	p := &plain{
		Object: job, suspended: job.Spec.Suspend != nil && *job.Spec.Suspend, pods: 1,
		selects:    podsWith(batchv1.JobNameLabel, job.Name),
		owns:       func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, job) },
		submission: func() (live.Submission, error) { return submissionOfBatch(job) },
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

// note takes in a condition that is true. Jobs and TrainJobs name theirs alike.
func (p *plain) note(condition, why string) {
	switch condition {
	case string(batchv1.JobComplete):
		p.over, p.well = true, true
	case string(batchv1.JobFailed):
		p.over, p.why = true, why
	}
}

// trainJob is what matters here of Kubeflow's TrainJob.
type trainJob struct {
	Spec struct {
		Suspend bool `json:"suspend"`
		Trainer struct {
			Image            string                      `json:"image"`
			Command          []string                    `json:"command"`
			Args             []string                    `json:"args"`
			NumNodes         *int32                      `json:"numNodes"`
			ResourcesPerNode corev1.ResourceRequirements `json:"resourcesPerNode"`
		} `json:"trainer"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func plainTrainJob(u *unstructured.Unstructured) *plain {
	var job trainJob
	err := bounded(u)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &job)
	}
	p := &plain{Object: u, suspended: job.Spec.Suspend, selects: podsWith(jobSetLabel, u.GetName())}
	if job.Spec.Trainer.NumNodes != nil {
		p.pods = int(*job.Spec.Trainer.NumNodes)
	}
	// Between the TrainJob and its pods stand a JobSet and Jobs, whose names begin
	// with its own.
	p.owns = func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.Name, u.GetName()+"-")
	}
	p.submission = func() (live.Submission, error) {
		if err != nil {
			return live.Submission{}, &refusal{"Invalid", fmt.Sprintf("it cannot be read: %v", err)}
		}
		return submissionOfTrainJob(u, &job)
	}
	for _, c := range job.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			p.note(c.Type, c.Reason+": "+c.Message)
		}
	}
	return p
}

// quantity is what may be a quantity: those of Kubernetes may have any exponent, and
// reading 1e999999999 takes hours.
var quantity = regexp.MustCompile(`^[+-]?[0-9]{1,15}(\.[0-9]{0,9})?([KMGTP]i|[numkMGTP]|[eE][+-]?[0-9])?$`)

// bounded says which quantity of a TrainJob is out of bounds, if any. The kind is
// somebody else's, and so is its schema.
func bounded(u *unstructured.Unstructured) error {
	for _, part := range []string{"limits", "requests"} {
		list, _, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "trainer", "resourcesPerNode", part)
		if err != nil {
			return err
		}
		amounts, _ := list.(map[string]any)
		for name, v := range amounts {
			if text, ok := v.(string); ok && !quantity.MatchString(text) {
				return fmt.Errorf("spec.trainer.resourcesPerNode.%s.%s is %.40q; use at most 15 digits and a unit", part, name, text)
			}
		}
	}
	return nil
}

// submissionOfTrainJob returns what a TrainJob asks for. What its runtime would fill
// in is not seen here, so it has to say itself how many nodes and GPUs it needs.
func submissionOfTrainJob(o client.Object, job *trainJob) (live.Submission, error) {
	trainer := &job.Spec.Trainer
	pod := corev1.PodSpec{Containers: []corev1.Container{{Image: trainer.Image, Command: trainer.Command, Args: trainer.Args, Resources: trainer.ResourcesPerNode}}}
	gpus, name := podGPUs(&pod)
	bad := func(format string, args ...any) error { return &refusal{"Invalid", fmt.Sprintf(format, args...)} }
	switch {
	case !job.Spec.Suspend:
		return live.Submission{}, bad("spec.suspend is not true: its pods were made before Fairway could place them; create it with suspend: true")
	case trainer.NumNodes == nil || *trainer.NumNodes < 1:
		return live.Submission{}, bad("spec.trainer.numNodes is missing; say how many pods the gang has")
	case gpus < 1 || gpus > 64:
		return live.Submission{}, bad("spec.trainer.resourcesPerNode asks for %d GPUs (%s); use 1 to 64", gpus, name)
	case int64(*trainer.NumNodes)*gpus > 65536:
		return live.Submission{}, bad("spec.trainer.numNodes is %d; use at most 65536 GPUs together", *trainer.NumNodes)
	}
	return gangOf(o, kindTrainJob, int64(*trainer.NumNodes), &pod)
}

// gangOf returns a submission for pods that are all alike.
func gangOf(o client.Object, kind string, pods int64, pod *corev1.PodSpec) (live.Submission, error) {
	gpus, _ := podGPUs(pod)
	s := live.Submission{
		Spec: sched.Spec{GPUs: int(pods * gpus), TaskGPUs: int(gpus)},
		Task: live.Task{Name: o.GetName(), Origin: origin(kind, o.GetNamespace(), o.GetName()), Retry: live.RetryNever},
		Key:  string(o.GetUID()),
	}
	n := int32(gpus) // the callers bound it
	fromTemplate(&s, &v1alpha1.TrainingJobSpec{GPUsPerPod: &n, Template: corev1.PodTemplateSpec{Spec: *pod}})
	return s, nil
}
