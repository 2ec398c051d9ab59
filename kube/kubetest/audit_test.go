// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func asking(gpus int64) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{GPU: *resource.NewQuantity(gpus, resource.DecimalSI)}}}
}

func TestRequest(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := asking(1)
	sidecar.RestartPolicy = &always
	for name, test := range map[string]struct {
		pod  corev1.PodSpec
		want int64
	}{
		"none":                {corev1.PodSpec{Containers: []corev1.Container{{}}}, 0},
		"sum of containers":   {corev1.PodSpec{Containers: []corev1.Container{asking(2), asking(1)}}, 3},
		"smaller init":        {corev1.PodSpec{InitContainers: []corev1.Container{asking(2)}, Containers: []corev1.Container{asking(3)}}, 3},
		"greater init":        {corev1.PodSpec{InitContainers: []corev1.Container{asking(4)}, Containers: []corev1.Container{asking(3)}}, 4},
		"sidecar":             {corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{asking(3)}}, 4},
		"init beside sidecar": {corev1.PodSpec{InitContainers: []corev1.Container{sidecar, asking(4)}, Containers: []corev1.Container{asking(3)}}, 5},
	} {
		if got := Request(&corev1.Pod{Spec: test.pod}, GPU); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}

// member returns a pod of gang g, of two pods.
func member(name, node string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"gang": "g"}, Annotations: map[string]string{"size": "2"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{asking(5)}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestOvercommitted(t *testing.T) {
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{GPU: resource.MustParse("8")}}}}
	deleted := member("b", "n", corev1.PodRunning)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, test := range map[string]struct {
		second corev1.Pod
		want   []Violation
	}{
		"two run":          {member("b", "n", corev1.PodRunning), []Violation{{Node: "n", What: "pods request 10 nvidia.com/gpu of 8: [ns/a=5 ns/b=5]"}}},
		"one is stopping":  {deleted, []Violation{{Node: "n", What: "pods request 10 nvidia.com/gpu of 8: [ns/a=5 ns/b=5]"}}},
		"one has ended":    {member("b", "n", corev1.PodFailed), nil},
		"one is not bound": {member("b", "", corev1.PodPending), nil},
		"on another node":  {member("b", "m", corev1.PodRunning), nil},
	} {
		got := overcommitted(nodes, []corev1.Pod{member("a", "n", corev1.PodRunning), test.second}, GPU)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHalfPlaced(t *testing.T) {
	deleted := member("b", "n", corev1.PodRunning)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	elsewhere := member("b", "n", corev1.PodRunning)
	elsewhere.Namespace = "other"
	placed := member("a", "n", corev1.PodRunning)
	whole := map[string]string{}
	half := map[string]string{"ns/g": "1 of 2 pods have a node"}
	for name, test := range map[string]struct {
		pods []corev1.Pod
		size string
		want map[string]string
	}{
		"both placed":             {[]corev1.Pod{placed, member("b", "n", corev1.PodRunning)}, "size", whole},
		"none placed":             {[]corev1.Pod{member("a", "", corev1.PodPending), member("b", "", corev1.PodPending)}, "size", whole},
		"one waits":               {[]corev1.Pod{placed, member("b", "", corev1.PodPending)}, "size", half},
		"one waits, size unknown": {[]corev1.Pod{placed, member("b", "", corev1.PodPending)}, "", half},
		"one is not there":        {[]corev1.Pod{placed}, "size", half},
		"one, size unknown":       {[]corev1.Pod{placed}, "", whole},
		"one is being deleted":    {[]corev1.Pod{placed, deleted}, "size", half},
		"one has failed":          {[]corev1.Pod{placed, member("b", "n", corev1.PodFailed)}, "size", half},
		"one has succeeded":       {[]corev1.Pod{placed, member("b", "n", corev1.PodSucceeded)}, "size", whole},
		"namesakes":               {[]corev1.Pod{placed, elsewhere}, "size", map[string]string{"ns/g": half["ns/g"], "other/g": half["ns/g"]}},
	} {
		if diff := cmp.Diff(test.want, halfPlaced(test.pods, AuditOptions{Gang: "gang", Size: test.size})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAudit(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	options := AuditOptions{Gang: "gang", Grace: 500 * time.Millisecond}
	stop := c.Auditor(options).Throughout(t, 50*time.Millisecond)
	place(t, c, gpuPod("fits", 6, nil), "node-5")
	if found, err := c.Audit(ctx, options); len(found) > 0 || err != nil {
		t.Errorf("audit of a sound cluster: %v, %v", found, err)
	}
	stop()

	place(t, c, gpuPod("too-much", 6, nil), "node-5")
	found, err := c.Audit(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Node != "node-5" || !strings.Contains(found[0].String(), "12 nvidia.com/gpu of 8") {
		t.Errorf("audit of an over-committed node: %v; want node-5, 12 of 8", found)
	}
}

func TestAuditGang(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	options := AuditOptions{Gang: "gang", Grace: 500 * time.Millisecond}
	first, second := gpuPod("gang-0", 1, nil), gpuPod("gang-1", 1, nil)
	for _, p := range []*corev1.Pod{first, second} {
		p.Labels = map[string]string{"gang": "pair"}
	}
	if err := c.Client.Create(ctx, second); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Client.Delete(ctx, second); err != nil {
			t.Error(err)
		}
	}()
	place(t, c, first, "node-6")
	found, err := c.Audit(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Gang != "default/pair" {
		t.Errorf("audit of half a gang: %v; want default/pair", found)
	}
	var bound sync.WaitGroup
	bound.Go(func() {
		time.Sleep(100 * time.Millisecond)
		if err := c.Bind(ctx, client.ObjectKeyFromObject(second), "node-7"); err != nil {
			t.Error(err)
		}
	})
	defer bound.Wait() // the audit may see it before the response arrives
	options.Grace = patience
	if found, err := c.Audit(ctx, options); len(found) > 0 || err != nil {
		t.Errorf("audit of a gang that becomes whole: %v, %v; want nothing", found, err)
	}
}
