// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/informer"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// A PodGroup is Kubernetes' own description of a gang. If it carries Fairway's label,
// and its pods name Fairway as their scheduler, it is one job: at least minCount pods
// are bound together, or none. The pods exist before they have a node. They cannot be
// suspended, so preemption deletes them; their controller creates new ones, which wait
// again.

// PodGroupGroup is the API group of Kubernetes' own PodGroups.
const PodGroupGroup = "scheduling.k8s.io"

const kindPodGroup = "PodGroup"

// groupOf returns the PodGroup of a pod; empty: it has none.
func groupOf(p *corev1.Pod) string {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

func (m *Mirror) podGroupObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: PodGroupGroup, Version: m.PodGroups, Kind: kindPodGroup})
	return u
}

// watchPods enqueues the PodGroup of each pod that changes.
func (m *Mirror) watchPods(ctx context.Context) (end func(), err error) {
	pods, err := m.Cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	look := func(p *corev1.Pod) {
		if name := groupOf(p); name != "" {
			m.queue.Add(key{kindPodGroup, p.Namespace, name})
		}
	}
	handle, err := pods.AddEventHandler(informer.On(look, look))
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	end = func() { _ = pods.RemoveEventHandler(handle) }
	if !toolscache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return end, fmt.Errorf("watch pods: %w", context.Cause(ctx))
	}
	return end, nil
}

// podGroupWorkload returns a PodGroup with its pods as an external workload.
func (m *Mirror) podGroupWorkload(ctx context.Context, u *unstructured.Unstructured) (*externalWorkload, error) {
	count, isGang, err := unstructured.NestedInt64(u.Object, "spec", "schedulingPolicy", "gang", "minCount")
	if err != nil {
		return nil, fmt.Errorf("read PodGroup: %w", err)
	}
	p := &externalWorkload{Object: u, podsFirst: true, suspended: true, pods: int(count), selects: podsWith(kindPodGroup, u.GetName())}
	p.owns = func(pod *corev1.Pod) bool { return groupOf(pod) == u.GetName() }
	var list corev1.PodList
	if err := m.Cache.List(ctx, &list, client.InNamespace(u.GetNamespace()), p.selects, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods of PodGroup: %w", err)
	}
	var members []*corev1.Pod
	left, well, failed := 0, 0, ""
	for i := range list.Items {
		pod := &list.Items[i]
		if !p.owns(pod) {
			continue
		}
		members = append(members, pod)
		p.pod = &pod.Spec
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			well++
		case pod.Status.Phase == corev1.PodFailed:
			failed = fmt.Sprintf("pod %s failed: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
		default:
			left++
			p.suspended = p.suspended && pod.Spec.NodeName == ""
		}
	}
	switch {
	case left > 0 || len(members) < p.pods || p.pods == 0:
	case failed == "" || well >= p.pods:
		p.ended, p.succeeded = true, true
	default:
		p.ended, p.why = true, failed
	}
	p.submission = func() (api.Submission, error) { return submissionOfGroup(u, isGang, count, members) }
	return p, nil
}

// submissionOfGroup returns what the pods of a PodGroup ask for.
func submissionOfGroup(u *unstructured.Unstructured, isGang bool, count int64, members []*corev1.Pod) (api.Submission, error) {
	bad := func(format string, args ...any) error { return &refusal{"Invalid", fmt.Sprintf(format, args...)} }
	waiting := slices.DeleteFunc(slices.Clone(members), func(p *corev1.Pod) bool {
		return p.Spec.SchedulerName != v1alpha1.SchedulerName || p.DeletionTimestamp != nil || p.Spec.NodeName != ""
	})
	switch {
	case !isGang || count < 1:
		return api.Submission{}, bad("spec.schedulingPolicy has no gang with a minCount; set one")
	case len(members) > 0 && len(waiting) == 0:
		return api.Submission{}, bad("none of its %d pods has the schedulerName %q and is waiting for a node", len(members), v1alpha1.SchedulerName)
	case int64(len(waiting)) < count:
		return api.Submission{}, fmt.Errorf("%d of its %d pods exist: %w", len(waiting), count, errRequeue)
	}
	first := waiting[0]
	gpus, name := podGPUs(&first.Spec)
	for _, p := range waiting {
		if n, _ := podGPUs(&p.Spec); n != gpus {
			return api.Submission{}, bad("its pods %s and %s request %d and %d GPUs (%s); the pods of a gang must request the same", first.Name, p.Name, gpus, n, name)
		}
	}
	if gpus < 1 || gpus > 64 || count*gpus > 65536 {
		return api.Submission{}, bad("its %d pods request %d GPUs (%s) each; use 1 to 64, and at most 65536 in total", count, gpus, name)
	}
	return gangOf(u, kindPodGroup, count, &first.Spec)
}

// release deletes the pods of a PodGroup that have a node.
func (f External) release(ctx context.Context, job *externalWorkload) error {
	pods, err := f.pods(ctx, job)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || request.Ended(p) {
			continue
		}
		uid := p.UID
		err := f.Mirror.Client.Delete(ctx, p, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}

// whole reports whether a gang has as many pods as it needs.
func whole(pods []*corev1.Pod, need int) bool {
	for _, p := range pods {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed {
			need--
		}
	}
	return need <= 0
}
