// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// member returns a pod of a PodGroup.
func member(namespace, group, name, gpus string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{kubetest.RunFor: "1h"}},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, RestartPolicy: corev1.RestartPolicyNever,
			SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &group},
			Containers: []corev1.Container{{Name: "main", Image: "trainer", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}}}},
		},
	}
}

func podGroup(namespace, name string, count int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelManaged: "true"}},
		Spec:       schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: count}}},
	}
}

// TestPodGroup: a gang described by Kubernetes' own PodGroup is accepted when all of
// its pods exist, bound at once, released, and ends.
func TestPodGroup(t *testing.T) {
	w := open(t, func(c *Config) { c.PodGroups = "v1beta1" })
	ns := w.namespace("groups")
	group := podGroup(ns, "gang", 3)
	w.create(group)
	pods := make([]*corev1.Pod, 3)
	create := func(i int) {
		t.Helper()
		pods[i] = member(ns, "gang", fmt.Sprintf("worker-%d", i), "2")
		w.create(pods[i])
		if groupOf(pods[i]) != "gang" {
			t.Skip("this API server drops the scheduling group of pods")
		}
	}
	create(0)
	create(1)
	if got := w.jobs(ns); len(got) != 0 {
		t.Fatalf("with two of three pods the state has %+v; want nothing", got)
	}
	create(2)
	w.until("has GPUs", group, func() bool { return strings.HasPrefix(group.Annotations[v1alpha1.AnnotationWhy], "starting") })
	if got := w.jobs(ns); len(got) != 1 || got[0].Origin != "PodGroup/groups/gang" || got[0].GPUs != 6 || got[0].TaskGPUs != 2 {
		t.Errorf("the state has %+v; want 3 pods of 2 GPUs", got)
	}
	a := w.state.Attempts()[0]
	f := External{Mirror: w.mirror, Now: time.Now}
	nodes := []string{"node-0", "node-0", "node-1"}
	up := func() bool {
		if err := f.Start(t.Context(), a, nodes); err != nil {
			t.Fatal(err)
		}
		return f.State(a.AttemptID).Up
	}
	if s := f.State(a.AttemptID); !s.Gone || s.Exit != nil {
		t.Errorf("before it began it is %+v; want nothing that holds a GPU", s)
	}
	w.until("is up", nil, up)
	at := map[string]int{}
	for _, p := range pods {
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		at[p.Spec.NodeName]++
	}
	if at["node-0"] != 2 || at["node-1"] != 1 {
		t.Errorf("its pods are on %v; want two on node-0 and one on node-1", at)
	}
	if err := f.Stop(t.Context(), a.AttemptID); err != nil {
		t.Fatal(err)
	}
	w.until("is gone", nil, func() bool { s := f.State(a.AttemptID); return s.Gone && s.Exit == nil })
	// The controller of the pods creates new ones; two of three are not bound.
	create(0)
	create(1)
	for range 3 {
		if up() {
			t.Fatal("two of three pods are up")
		}
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pods[0]), pods[0]); err != nil || pods[0].Spec.NodeName != "" {
		t.Errorf("a pod of a gang that is not whole is on node %q, %v; want none", pods[0].Spec.NodeName, err)
	}
	create(2)
	w.until("is up again", nil, up)
	for i, p := range pods {
		if err := shared.Cluster(t).EndPod(t.Context(), client.ObjectKeyFromObject(p), i/2); err != nil { // the last pod fails
			t.Fatal(err)
		}
	}
	w.until("has failed", nil, func() bool { return f.State(a.AttemptID).Exit != nil })
	if s := f.State(a.AttemptID); !s.Gone || s.Exit.Code == 0 || !strings.Contains(s.Exit.Why, "worker-2") {
		t.Errorf("it ended as %+v, %+v; want a failure of worker-2", s, s.Exit)
	}
	if err := w.client.Delete(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	w.until("is cancelled", nil, func() bool { return w.jobs(ns)[0].State == api.Cancelled })
}

// TestPodGroupRefused: a PodGroup that is not a gang, or not Fairway's, is refused with
// a reason.
func TestPodGroupRefused(t *testing.T) {
	u := &unstructured.Unstructured{}
	u.SetName("g")
	u.SetNamespace("ns")
	other := member("ns", "g", "b", "1")
	other.Spec.SchedulerName = "default-scheduler"
	for want, c := range map[string]struct {
		gang    bool
		count   int64
		members []*corev1.Pod
	}{
		"has no gang":           {false, 0, []*corev1.Pod{member("ns", "g", "a", "1")}},
		"has the schedulerName": {true, 1, []*corev1.Pod{other}},
		"1 of its 2 pods":       {true, 2, []*corev1.Pod{member("ns", "g", "a", "1"), other}},
		"must request the same": {true, 2, []*corev1.Pod{member("ns", "g", "a", "1"), member("ns", "g", "b", "2")}},
		"use 1 to 64":           {true, 1, []*corev1.Pod{member("ns", "g", "a", "65")}},
	} {
		if _, err := submissionOfGroup(u, c.gang, c.count, c.members); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d of %d pods: %v; want %q", len(c.members), c.count, err, want)
		}
	}
}
