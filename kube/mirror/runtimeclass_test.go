// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/kube/constraint"
)

// TestRuntimeClass: where the pods of a RuntimeClass may run and what it adds to their
// requests counts before they are created; a job that was submitted before the class said
// where keeps its selector.
func TestRuntimeClass(t *testing.T) {
	w := open(t)
	ns := w.namespace("sandboxed")
	class := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandbox"}, Handler: "sandbox",
		Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"sandbox": "yes"}, Tolerations: []corev1.Toleration{{Key: "sandbox", Operator: corev1.TolerationOpExists}}},
	}
	w.create(class)
	t.Cleanup(func() {
		if err := w.client.Delete(context.Background(), class); err != nil {
			t.Error(err)
		}
	})
	job := trainingJob(ns, "boxed", 1)
	spec := &job.Spec.Template.Spec
	spec.RuntimeClassName = &class.Name
	spec.NodeSelector = map[string]string{"disk": "fast"}
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	w.create(job)
	w.until("is ordered", nil, func() bool { return len(w.state.Attempts()) == 1 })
	if j := w.jobs(ns)[0]; j.CPUs != 2 || j.Memory != 1<<30 {
		t.Errorf("it asks for %d CPUs and %d bytes; want 2, rounded up, and 1 GiB", j.CPUs, j.Memory)
	}
	pod, err := w.mirror.Template(t.Context(), w.state.Attempts()[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.Templates[0].Spec; got.NodeSelector["sandbox"] != "yes" || got.NodeSelector["disk"] != "fast" || len(got.Tolerations) != 1 || got.Overhead.Cpu().MilliValue() != 500 {
		t.Errorf("its pods have the selector %v, the tolerations %v and the overhead %v; want those of both", got.NodeSelector, got.Tolerations, got.Overhead)
	}
	m := &Mirror{Config: Config{Cache: w.mirror.Cache, Constraints: constraint.NewRegistry(constraint.Rules{})}}
	from := origin(kindTrainingJob, ns, "boxed")
	for _, c := range []struct {
		name string
		has  *string
		want map[string]string
	}{
		{"new", nil, map[string]string{"disk": "fast", "sandbox": "yes"}},
		{"submitted without it", new(m.Constraints.Of(ns, spec).Label()), map[string]string{"disk": "fast"}},
	} {
		got, err := m.constraintFor(t.Context(), from, spec, c.has)
		if err != nil || got.Label() == "" || len(got.NodeSelector) != len(c.want) {
			t.Errorf("%s: the selector is %v, %v; want %v", c.name, got.NodeSelector, err, c.want)
		}
	}
	absent := "absent"
	if got, err := m.admitted(t.Context(), &corev1.PodSpec{RuntimeClassName: &absent}); err != nil || len(got.NodeSelector) != 0 {
		t.Errorf("a class that does not exist adds %v, %v; want nothing", got, err)
	}
}
