// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// reconcileExternal updates the state from an external workload that carries Fairway's
// label. Its status belongs to another controller, so Fairway reports in an annotation.
func (m *Mirror) reconcileExternal(ctx context.Context, k key) error {
	from := origin(k.kind, k.namespace, k.name)
	job, err := m.external(ctx, k)
	switch {
	case apierrors.IsNotFound(err) || err == nil && (job.GetDeletionTimestamp() != nil || job.GetLabels()[v1alpha1.LabelManaged] == ""):
		return m.gone(ctx, k, from)
	case err != nil:
		return fmt.Errorf("read %s: %w", k.kind, err)
	}
	id, known := m.index.job(string(job.GetUID()))
	if err := m.cancel(ctx, m.index.others(from, id)); err != nil {
		return err
	}
	if !known {
		if job.ended {
			return nil
		}
		if id, err = m.submitExternal(ctx, job); err != nil {
			why, final := refusalOf(err)
			if why == nil {
				return err
			}
			if err := m.annotate(ctx, k, job, "refused: "+why.message); err != nil || final {
				return err
			}
			return errRequeue
		}
	}
	view, err := m.State.Job(cluster, id)
	if err != nil {
		if api.CodeOf(err) == api.Unknown {
			return nil
		}
		return err
	}
	if api.HasEnded(view.State) {
		m.dropConstraint(from)
	} else if known && job.podsFirst && !job.ended {
		if _, err := m.selectorFor(ctx, from, job.pod, &view.Selector); err != nil {
			m.Log.Warn("register node constraint", "kind", k.kind, "namespace", k.namespace, "name", k.name, "err", err)
		}
	}
	m.requeue(k, &view)
	if m.transient(&view) {
		return nil
	}
	text := view.State
	if why := whyOf(&view); why != "" {
		text += ": " + why
	}
	return m.annotate(ctx, k, job, text)
}

// submitExternal hands an object to the state as a gang of all pods that it runs at a
// time.
func (m *Mirror) submitExternal(ctx context.Context, job *externalWorkload) (sched.JobID, error) {
	asked := job.GetLabels()[v1alpha1.LabelManaged]
	if asked == "true" {
		asked = ""
	}
	tenant, err := m.tenantFor(ctx, job.GetNamespace(), asked)
	if err != nil {
		return "", err
	}
	s, err := job.submission()
	if err != nil {
		return "", err
	}
	if s.Selector, err = m.selectorFor(ctx, s.Origin, job.pod, nil); err != nil {
		return "", err
	}
	s.Tenant = tenant
	return m.submitOne(ctx, job, s)
}

// submissionOfBatch returns what a batch Job asks for.
func submissionOfBatch(job *batchv1.Job) (api.Submission, error) {
	bad := func(format string, args ...any) error { return &refusal{"Invalid", fmt.Sprintf(format, args...)} }
	pod := &job.Spec.Template.Spec
	pods := int64(1)
	if job.Spec.Parallelism != nil {
		pods = int64(*job.Spec.Parallelism)
	}
	gpus, name := podGPUs(pod)
	switch {
	case job.Spec.Suspend == nil || !*job.Spec.Suspend:
		return api.Submission{}, bad("spec.suspend is not true: its pods were created before Fairway could place them; create it with suspend: true")
	case pod.SchedulerName != v1alpha1.SchedulerName:
		return api.Submission{}, bad("spec.template.spec.schedulerName is %q; use %q, or another scheduler places its pods", pod.SchedulerName, v1alpha1.SchedulerName)
	case pod.NodeName != "":
		return api.Submission{}, bad("spec.template.spec.nodeName is %q; leave it out: Fairway chooses the nodes", pod.NodeName)
	case gpus < 1 || gpus > 64:
		return api.Submission{}, bad("spec.template requests %d GPUs (%s) per pod; use 1 to 64", gpus, name)
	case pods < 1 || pods*gpus > 65536:
		return api.Submission{}, bad("spec.parallelism is %d; use at least 1, and at most 65536 GPUs in total", pods)
	case job.Spec.Completions != nil && int64(*job.Spec.Completions) < pods:
		return api.Submission{}, bad("spec.completions is %d, less than spec.parallelism = %d: the gang would never be complete", *job.Spec.Completions, pods)
	}
	return gangOf(job, kindJob, pods, pod)
}

// podGPUs returns the number of GPUs that a pod requests, and the resource name.
func podGPUs(pod *corev1.PodSpec) (int64, corev1.ResourceName) {
	for _, name := range []corev1.ResourceName{request.UsualGPU, "amd.com/gpu"} {
		if n := request.Peak(pod, name); n > 0 {
			return n, name
		}
	}
	return 0, request.UsualGPU
}

// annotate writes the state of an external workload to its annotation, at the pace of
// status writes.
func (m *Mirror) annotate(ctx context.Context, k key, job *externalWorkload, text string) error {
	if job.GetAnnotations()[v1alpha1.AnnotationWhy] == text {
		m.returnTurn(k)
		return nil
	}
	was, _, _ := strings.Cut(job.GetAnnotations()[v1alpha1.AnnotationWhy], ":")
	is, _, _ := strings.Cut(text, ":")
	if !m.mayWrite(k, was != is) { // only a new state is urgent
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.AnnotationWhy: text}}})
	if err != nil {
		return fmt.Errorf("annotate %s: %w", k.kind, err)
	}
	err = m.timed(k, func() error { return m.Client.Patch(ctx, job.copied(), client.RawPatch(types.MergePatchType, patch)) })
	return client.IgnoreNotFound(err)
}
