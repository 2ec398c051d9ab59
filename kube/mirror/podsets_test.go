// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// templateOf returns a pod template as an object of another project has it; 0: without GPUs.
func templateOf(gpus string, edit ...func(pod map[string]any)) map[string]any {
	main := map[string]any{"name": "main", "image": "trainer:3"}
	if gpus != "0" {
		main["resources"] = map[string]any{"limits": map[string]any{"nvidia.com/gpu": gpus}}
	}
	pod := map[string]any{"schedulerName": "fairway", "containers": []any{main}}
	for _, e := range edit {
		e(pod)
	}
	return map[string]any{"spec": pod}
}

// replicated returns a part of a JobSet.
func replicated(name string, replicas, parallelism int64, template map[string]any) map[string]any {
	return map[string]any{"name": name, "replicas": replicas, "template": map[string]any{"spec": map[string]any{"parallelism": parallelism, "template": template}}}
}

// workerGroup returns a part of a RayCluster.
func workerGroup(name string, replicas int64, template map[string]any) map[string]any {
	return map[string]any{"groupName": name, "replicas": replicas, "template": template}
}

func rayOf(groups ...any) map[string]any {
	return map[string]any{"suspend": true, "headGroupSpec": map[string]any{"template": templateOf("0")}, "workerGroupSpecs": groups}
}

// TestPodSets: what a JobSet and a RayCluster ask for.
func TestPodSets(t *testing.T) {
	set := func(jobs ...any) map[string]any { return map[string]any{"suspend": true, "replicatedJobs": jobs} }
	named := func(scheduler string) func(map[string]any) {
		return func(pod map[string]any) { pod["schedulerName"] = scheduler }
	}
	for name, x := range map[string]struct {
		kind       schema.GroupVersionKind
		spec       map[string]any
		gpus, each int
		refused    string
	}{
		"workers and a driver":       {kind: jobSetKind, spec: set(replicated("driver", 1, 1, templateOf("0", named(""))), replicated("workers", 2, 3, templateOf("4"))), gpus: 24, each: 4},
		"two alike":                  {kind: jobSetKind, spec: set(replicated("a", 1, 1, templateOf("2")), replicated("b", 1, 2, templateOf("2"))), gpus: 6, each: 2},
		"not alike":                  {kind: jobSetKind, spec: set(replicated("a", 1, 1, templateOf("2")), replicated("b", 1, 2, templateOf("1"))), refused: "request 2 and 1 GPUs"},
		"not suspended":              {kind: jobSetKind, spec: map[string]any{"replicatedJobs": []any{replicated("a", 1, 1, templateOf("2"))}}, refused: "spec.suspend is not true"},
		"of another scheduler":       {kind: jobSetKind, spec: set(replicated("a", 1, 1, templateOf("2", named("")))), refused: `spec.replicatedJobs[a].template.spec.template.spec.schedulerName is ""; use "fairway"`},
		"on a node":                  {kind: jobSetKind, spec: set(replicated("a", 1, 1, templateOf("2", func(pod map[string]any) { pod["nodeName"] = "n" }))), refused: "nodeName"},
		"too many":                   {kind: jobSetKind, spec: set(replicated("a", 1e9, 1e9, templateOf("2"))), refused: "1000000000000000000 pods"},
		"too many in sum":            {kind: jobSetKind, spec: set(replicated("a", 65536, 1, templateOf("2"))), refused: "at most 65536"},
		"negative":                   {kind: jobSetKind, spec: set(replicated("a", -1, 1, templateOf("2"))), refused: "-1 pods"},
		"without GPUs":               {kind: jobSetKind, spec: set(replicated("a", 1, 1, templateOf("0"))), refused: "none of its pods requests a GPU"},
		"a quantity that never ends": {kind: jobSetKind, spec: set(replicated("a", 1, 1, templateOf("1e999999999"))), refused: "[a].template.spec.template.spec.containers[0].resources.limits.nvidia.com/gpu is"},
		"a field that is refused": {kind: jobSetKind, spec: set(replicated("a", 1, 1, templateOf("1", func(pod map[string]any) {
			pod["resourceClaims"] = []any{map[string]any{"name": "x"}}
		}))), refused: "resourceClaims"},
		"not a list": {kind: jobSetKind, spec: map[string]any{"suspend": true, "replicatedJobs": "all"}, refused: "cannot be read"},

		"a Ray cluster": {kind: rayClusterKind, spec: rayOf(workerGroup("small", 0, templateOf("1")), workerGroup("big", 3, templateOf("8"))), gpus: 24, each: 8},
		"which grows": {kind: rayClusterKind, spec: func() map[string]any {
			s := rayOf(workerGroup("a", 1, templateOf("1")))
			s["enableInTreeAutoscaling"] = true
			return s
		}(), refused: "spec.enableInTreeAutoscaling is true"},
		"with a head that trains":  {kind: rayClusterKind, spec: map[string]any{"suspend": true, "headGroupSpec": map[string]any{"template": templateOf("1")}}, gpus: 1, each: 1},
		"a Ray cluster of nothing": {kind: rayClusterKind, spec: map[string]any{"suspend": true}, refused: "none of its pods requests a GPU"},
	} {
		p, err := (&Mirror{}).externalOf(t.Context(), managedObject(x.kind, "ns", "it", x.spec))
		if err != nil {
			t.Fatal(err)
		}
		switch s, err := p.submission(); {
		case x.refused != "":
			if err == nil || !strings.Contains(err.Error(), x.refused) {
				t.Errorf("%s: %v; want a refusal with %q", name, err, x.refused)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case s.GPUs != x.gpus || s.TaskGPUs != x.each || p.pods*x.each != x.gpus || s.Image != "trainer:3" || s.Origin != x.kind.Kind+"/ns/it":
			t.Errorf("%s: %d GPUs, %d in each of %d pods, image %s of %s; want %d GPUs, %d in each", name, s.GPUs, s.TaskGPUs, p.pods, s.Image, s.Origin, x.gpus, x.each)
		}
	}
}

// TestJobSetEnds: the conditions of a JobSet say how it ended.
func TestJobSetEnds(t *testing.T) {
	for condition, want := range map[string]externalWorkload{
		"Completed": {ended: true, succeeded: true}, "Failed": {ended: true, why: "Because: of it"}, "Suspended": {},
	} {
		u := managedObject(jobSetKind, "ns", "it", map[string]any{})
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": condition, "status": "True", "reason": "Because", "message": "of it"}}}
		if p := jobSetWorkload(u); p.ended != want.ended || p.succeeded != want.succeeded || p.why != want.why {
			t.Errorf("%s: ended %v, succeeded %v, %q; want %v, %v, %q", condition, p.ended, p.succeeded, p.why, want.ended, want.succeeded, want.why)
		}
	}
}

// TestRayCluster: a RayCluster is accepted, resumed, its workers and its head are bound,
// and it is suspended again. The test stands in for KubeRay.
func TestRayCluster(t *testing.T) {
	installAnything(t, rayClusterKind)
	w := open(t, func(c *Config) { c.Suspended = []string{kindRayCluster} })
	ns := w.namespace("ray")
	ray := managedObject(rayClusterKind, ns, "llm", rayOf(workerGroup("gpu", 2, templateOf("2"))))
	w.create(ray)
	w.until("has GPUs", ray, func() bool { return strings.HasPrefix(ray.GetAnnotations()[v1alpha1.AnnotationWhy], "starting") })
	a := w.state.Attempts()[0]
	f := External{Mirror: w.mirror, Now: time.Now}
	nodes := []string{"node-1", "node-1"}
	if err := f.Start(t.Context(), a, nodes); err != nil {
		t.Fatal(err)
	}
	suspended := func() bool { is, _, _ := unstructured.NestedBool(ray.Object, "spec", "suspend"); return is }
	w.until("is resumed", ray, func() bool { return !suspended() })
	for name, gpus := range map[string]string{"llm-head": "0", "llm-worker-a": "2", "llm-worker-b": "2"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, Name: name, Labels: map[string]string{rayClusterLabel: "llm"}, Annotations: map[string]string{kubetest.RunFor: "1h"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ray, rayClusterKind)},
			},
			Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, Containers: []corev1.Container{{Name: "ray", Image: "ray"}}},
		}
		if gpus != "0" {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
		}
		w.create(pod)
	}
	w.until("is up", nil, func() bool {
		if err := f.Start(t.Context(), a, nodes); err != nil {
			t.Fatal(err)
		}
		return f.State(a.AttemptID).Up
	})
	head := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "llm-head"}}
	w.until("its head is bound", head, func() bool { return head.Spec.NodeName == "node-1" })
	if err := f.Stop(t.Context(), a.AttemptID); err != nil {
		t.Fatal(err)
	}
	w.until("is suspended", ray, suspended)
	if err := w.client.Delete(t.Context(), ray); err != nil {
		t.Fatal(err)
	}
	w.until("is cancelled", nil, func() bool { return w.jobs(ns)[0].State == api.Cancelled })
}
