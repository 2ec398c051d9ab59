// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// TestRepeat: what a job was submitted with comes back from its object, and an object that
// says more is refused with the name of the field.
func TestRepeat(t *testing.T) {
	full := api.Submission{
		Spec: sched.Spec{GPUs: 4, MinGPUs: 2, MaxGPUs: 8, TaskGPUs: 2, CPUs: 3, Memory: 5 << 30, Model: "bert", Selector: "big", GPUTypes: []sched.GPUType{"h200"}},
		Task: api.Task{Name: "bert", Command: []string{"sh", "-c", "echo $(date) $$ $HOME"}, Dir: "/data", Env: map[string]string{"B": "$(A)", "A": "x"}, Image: "trainer:1", Retries: 3},
		Key:  "k",
	}
	sent := full
	o, err := objectOf(&sent, "")
	if err != nil {
		t.Fatal(err)
	}
	o.Namespace, o.Name, o.Spec.GPUResource = "red", objectName(&full, "red"), "nvidia.com/gpu"
	o.Annotations = map[string]string{v1alpha1.AnnotationKey: "k"}
	got, err := repeat(o)
	full.Key = ""
	if err != nil || !reflect.DeepEqual(got, full) {
		t.Errorf("%+v, %v; want %+v", got, err, full)
	}

	o.Annotations = nil
	o.Spec.Template.Spec.Containers[0].Name = "main"
	c := &o.Spec.Template.Spec.Containers[0]
	c.Command, c.Args = c.Command[:1], c.Command[1:]
	c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("10G")
	c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("6000m")
	if got, err = repeat(o); err != nil || len(got.Command) != 3 || got.Memory != 5e9 || got.Name != o.Name {
		t.Errorf("written in other words: %+v, %v", got, err)
	}
	for want, edit := range map[string]func(*v1alpha1.TrainingJobSpec, *corev1.Container){
		"spec.template.spec.volumes": func(s *v1alpha1.TrainingJobSpec, _ *corev1.Container) {
			s.Template.Spec.Volumes = []corev1.Volume{{Name: "v"}}
		},
		"spec.template.spec.serviceAccountName": func(s *v1alpha1.TrainingJobSpec, _ *corev1.Container) { s.Template.Spec.ServiceAccountName = "x" },
		"spec.template.spec.containers of ": func(s *v1alpha1.TrainingJobSpec, c *corev1.Container) {
			s.Template.Spec.Containers = append(s.Template.Spec.Containers, *c)
		},
		"spec.template.spec.containers[0].command":    func(_ *v1alpha1.TrainingJobSpec, c *corev1.Container) { c.Command, c.Args = nil, nil },
		"spec.template.spec.containers[0].command[0]": func(_ *v1alpha1.TrainingJobSpec, c *corev1.Container) { c.Command = []string{"$(PROGRAM)"} },
		"spec.template.spec.containers[0].env[0].valueFrom": func(_ *v1alpha1.TrainingJobSpec, c *corev1.Container) {
			c.Env[0] = corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{}}
		},
		"spec.template.spec.containers[0].resources.requests.c": func(_ *v1alpha1.TrainingJobSpec, c *corev1.Container) {
			c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m")
		},
		"spec.template.metadata.annotations": func(s *v1alpha1.TrainingJobSpec, _ *corev1.Container) {
			s.Template.Annotations = map[string]string{"a": "b"}
		},
		"spec.template.spec.nodeSelector.zone": func(s *v1alpha1.TrainingJobSpec, _ *corev1.Container) { s.Template.Spec.NodeSelector["zone"] = "a" },
		"spec.gpuResource":                     func(s *v1alpha1.TrainingJobSpec, _ *corev1.Container) { s.GPUResource = "amd.com/gpu" },
		"spec.ttlSecondsAfterFinished":         func(s *v1alpha1.TrainingJobSpec, _ *corev1.Container) { s.TTLSecondsAfterFinished = new(int32) },
	} {
		other := o.DeepCopy()
		edit(&other.Spec, &other.Spec.Template.Spec.Containers[0])
		if _, err := repeat(other); api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want it to stay for %s", err, want)
		}
	}
}

// TestMoveObjects: a copy is paused until it is resumed, also if the operator dies before it
// has submitted it; a job that was handed over has ended, and its object says where it went.
func TestMoveObjects(t *testing.T) {
	s, store := behind(t, 100)
	sub := file("a", "k")
	sub.MovedFrom = "lab/a-7"
	jobs, err := s.Submit(t.Context(), ann, []api.Submission{sub})
	if err != nil || jobs[0].State != api.Paused || jobs[0].MovedFrom != "lab/a-7" {
		t.Fatalf("%+v, %v; want it paused", jobs, err)
	}
	p, err := s.Preview(t.Context(), ann, sub)
	if err != nil || p.Known != jobs[0].ID {
		t.Errorf("the key is of %q, %v; want %s", p.Known, err, jobs[0].ID)
	}
	at := client.ObjectKey{Namespace: "red", Name: strings.TrimPrefix(jobs[0].Origin, "TrainingJob/red/")}
	var o v1alpha1.TrainingJob
	if err := s.Mirror.Client.Get(t.Context(), at, &o); err != nil {
		t.Fatal(err)
	}
	if found, err := submissionOf(&o); err != nil || found.MovedFrom != "lab/a-7" {
		t.Errorf("from the object alone: moved from %q, %v", found.MovedFrom, err)
	}
	if j, err := s.Command(t.Context(), ann, jobs[0].ID, api.Resume); err != nil || j.State != api.Waiting {
		t.Errorf("resumed: %s, %v", j.State, err)
	}
	var after v1alpha1.TrainingJob
	if err := s.Mirror.Client.Get(t.Context(), at, &after); err != nil || after.Annotations[v1alpha1.AnnotationMovedFrom] != "" {
		t.Errorf("once it is resumed, its object says %v, %v", after.Annotations, err)
	}

	if again, err := s.Submission(t.Context(), ann, jobs[0].ID); err != nil || again.Name != "a" || again.Image != "trainer:1" || again.Tenant != "red" {
		t.Errorf("submission %+v, %v", again, err)
	}
	j, err := s.HandOver(t.Context(), ann, jobs[0].ID, api.Handover{To: "lab/a-9"})
	if err != nil || j.State != api.Cancelled || j.MovedTo != "lab/a-9" {
		t.Errorf("handed over: %s, moved to %q, %v", j.State, j.MovedTo, err)
	}
	if why := whyOf(&j); why != "moved to lab/a-9" {
		t.Errorf("its status says %q", why)
	}
	other, err := store.Submit(t.Context(), cluster, []api.Submission{{Spec: sched.Spec{GPUs: 1, Tenant: "red"}, Task: api.Task{Command: []string{"x"}, Origin: "Job/red/x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.HandOver(t.Context(), ann, other[0].ID, api.Handover{To: "lab/x-1"}); api.CodeOf(err) != api.Conflict {
		t.Errorf("a batch Job is handed over: %v", err)
	}
}

// TestRefusedLeavesNothing: a request with a key that is refused leaves no object, for its
// sender goes to another cluster; and of several at once one object is made.
func TestRefusedLeavesNothing(t *testing.T) {
	s, _ := behind(t, 8) // a quarter of which one user may have
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			if _, err := s.Submit(t.Context(), ann, []api.Submission{file("a", "k")}); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	objects := func() int {
		var all v1alpha1.TrainingJobList
		if err := s.Mirror.Client.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		return len(all.Items)
	}
	if n := objects(); n != 1 {
		t.Fatalf("one key made %d objects", n)
	}
	for i := range 4 {
		if _, err := s.Submit(t.Context(), ann, []api.Submission{file("b", fmt.Sprint(i))}); err != nil && api.CodeOf(err) != api.TooMany {
			t.Error(err)
		}
	}
	if n := objects(); n != 2 {
		t.Errorf("%d objects; want those of the 2 jobs that one user may have", n)
	}
	if _, err := s.Submit(t.Context(), ann, []api.Submission{file("a", "k")}); err != nil || objects() != 2 {
		t.Errorf("sent again: %v; %d objects", err, objects())
	}
}
