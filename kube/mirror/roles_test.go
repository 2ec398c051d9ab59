// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// roleTemplate returns a pod with a command, and with requests of both containers together.
func roleTemplate(command, cpus, memory, adapters, claim string) v1alpha1.PodTemplate {
	half := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse(memory), "rdma/hca": resource.MustParse(adapters)}
	t := v1alpha1.TemplateOf(corev1.PodSpec{NodeSelector: map[string]string{"disk": "fast"}, Containers: []corev1.Container{
		{Name: "main", Image: command, Command: []string{command}, Resources: corev1.ResourceRequirements{Requests: half}},
		{Name: "side", Resources: corev1.ResourceRequirements{Requests: half}},
	}})
	if claim != "" {
		t.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	}
	return t
}

func jobWithRoles() *v1alpha1.TrainingJob {
	o := trainingJob("red", "rl", 1)
	most := int32(6)
	o.Spec.Roles = []v1alpha1.JobRole{
		{Name: "trainer", GPUs: 2, Template: roleTemplate("learn", "2", "1Gi", "0", "weights")},
		{Name: "rollout", GPUs: 1, MaxGPUs: &most, Template: roleTemplate("play", "1", "4Gi", "1", "tasks")},
	}
	return o
}

// TestRoles: the size of a job follows from its roles, and what it needs from the pods that
// need most.
func TestRoles(t *testing.T) {
	o := jobWithRoles()
	s, err := submissionOf(o)
	if err == nil {
		err = s.Complete()
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.GPUs != 3 || s.MinGPUs != 3 || s.MaxGPUs != 8 || s.CPUs != 4 || s.Memory != 8<<30 || s.Image != "learn" {
		t.Errorf("%d GPUs of %d to %d, %d CPUs and %d bytes for each, image %s", s.GPUs, s.MinGPUs, s.MaxGPUs, s.CPUs, s.Memory, s.Image)
	}
	if s.Command[0] != "learn" || s.Roles[0].Command[0] != "learn" || s.Roles[1].Command[0] != "play" || s.RolesText(5) != "trainer=2,rollout=3" {
		t.Errorf("it runs %q, its roles are %+v", s.Command, s.Roles)
	}
	if got := (constraint.Rules{}).Of("red", constraintPod(&o.Spec)); got.Devices["rdma/hca"] != 2 || got.NodeSelector["disk"] != "fast" {
		t.Errorf("its nodes must be %+v; want fast disks and two adapters", got)
	}
	if got := len(constraintPod(&o.Spec).Volumes); got != 2 {
		t.Errorf("%d volumes decide on its nodes; want those of both roles", got)
	}
	o.Spec.Roles[1].Template = v1alpha1.PodTemplate{}
	if s, err = submissionOf(o); err == nil || !strings.Contains(err.Error(), "spec.roles[1].template.spec.nodeSelector is not that of the first role") {
		t.Errorf("other nodes: %v; want it refused", err)
	}
	o.Spec.Template.Spec.NodeSelector = o.Spec.Roles[0].Template.Spec.NodeSelector
	if s, err = submissionOf(o); err != nil || s.Roles[1].Command[0] != "train" {
		t.Errorf("a role without a template has the command %q (%v); want the job's", s.Roles[1].Command, err)
	}
	o.Spec.Roles[1].Template = v1alpha1.PodTemplate{Problem: "template.spec is wrong"}
	if _, err = submissionOf(o); err == nil || err.Error() != "spec.roles[1].template.spec is wrong" {
		t.Errorf("a bad template: %v", err)
	}
}

// TestRolesFromFile: a job file with roles makes an object with a template for each, and the
// pods of each are made from its own.
func TestRolesFromFile(t *testing.T) {
	s, _ := behind(t, 100)
	in := api.Submission{Task: api.Task{Name: "rl", Dir: "/work", Env: map[string]string{"A": "1", "B": "1"}, Roles: []api.JobRole{
		{Name: "trainer", GPUs: 1, Command: []string{"learn", "$(date)"}},
		{Name: "rollout", GPUs: 1, MaxGPUs: 3, Run: "play", Env: map[string]string{"B": "2"}},
	}}}
	jobs, err := s.Submit(t.Context(), ann, []api.Submission{in})
	if err != nil {
		t.Fatal(err)
	}
	if j := jobs[0]; j.GPUs != 2 || j.MaxGPUs != 4 || j.RolesShown() != "trainer 1, rollout 1 (1 to 3)" {
		t.Errorf("it has %d GPUs up to %d, %s", j.GPUs, j.MaxGPUs, j.RolesShown())
	}
	if text := statusOf(&jobs[0], jobWithRoles(), time.Now()).Roles; text != "trainer 1, rollout 1 (1 to 3)" {
		t.Errorf("the status says %q", text)
	}
	o := &v1alpha1.TrainingJob{}
	at := client.ObjectKey{Namespace: "red", Name: strings.TrimPrefix(jobs[0].Origin, "TrainingJob/red/")}
	if err := s.Mirror.Client.Get(t.Context(), at, o); err != nil {
		t.Fatal(err)
	}
	if len(o.Spec.Template.Spec.Containers) != 0 || o.Spec.MinGPUs != nil || o.Spec.GPUs != 1 || *o.Spec.Roles[1].MaxGPUs != 3 {
		t.Errorf("the object is %+v", o.Spec)
	}
	pod, err := s.Mirror.Template(t.Context(), api.Attempt{AttemptID: api.AttemptID{Job: jobs[0].ID, Number: 1}, Task: jobs[0].Task})
	if err != nil || len(pod.Templates) != 2 {
		t.Fatalf("%d templates (%v); want 2", len(pod.Templates), err)
	}
	for i, want := range []struct{ last, b string }{{"$$(date)", "1"}, {"set -eo pipefail\nplay", "2"}} {
		c := pod.Templates[i].Spec.Containers[0]
		if c.Command[len(c.Command)-1] != want.last || c.Env[1].Value != want.b || c.Image != "trainer:1" || c.WorkingDir != "/work" {
			t.Errorf("role %d runs %q with %v in %s of %s", i, c.Command, c.Env, c.WorkingDir, c.Image)
		}
	}
}
