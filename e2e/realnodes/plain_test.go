// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	fairwayclient "github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// TestOthers: under a policy that does not resize, jobs of other kinds and in another
// language are stopped, resume, and report.
func TestOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "fifo:backfill")
	t.Run("batch Job", w.testBatchJob)
	t.Run("fields of a pod", w.testPodFields)
	t.Run("Python", w.testPython)
	t.Run("PyTorch", func(t *testing.T) { w.testTorch(t, "torch", 2) })
	// PyTorch 1.13 on Python 3.11 fails without the last two options.
	t.Run("torchrun", func(t *testing.T) { w.testTorch(t, "torchrun", 4, "-m", "torch.distributed.run", "-r", "1", "-t", "1") })
}

// testBatchJob: the agent in a pod that Fairway did not create can report, with the
// template of docs/kubernetes/jobs.md.
func (w *world) testBatchJob(t *testing.T) {
	template := w.job(t, "plain", "-steps", "200", "-pace", "5ms").Spec.Template
	template.Spec.SchedulerName = v1alpha1.SchedulerName
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	addAgent(&template.Spec, w.fairway.API)
	one := resource.MustParse("1")
	template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{kubetest.GPU: one}}
	yes := true
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plain", Labels: map[string]string{v1alpha1.LabelManaged: "true"}},
		Spec:       batchv1.JobSpec{Suspend: &yes, Template: template.PodTemplateSpec},
	}
	ctx := within(t, patience)
	if err := w.admin.Create(ctx, job); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the batch Job completes", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Succeeded != 1 {
			return fmt.Errorf("it says %q, and %+v", job.Annotations[v1alpha1.AnnotationWhy], job.Status)
		}
		return nil
	})
	w.checkHeard(t, "plain-1")
}

// checkHeard checks that the agent of a job of 200 steps was heard.
func (w *world) checkHeard(t *testing.T, id sched.JobID) {
	t.Helper()
	boss, err := w.boss(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	c, err := fairwayclient.New(fairwayclient.Options{Address: w.fairway.API, Token: boss})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "its agent was heard", func(ctx context.Context) error {
		view, err := c.Job(ctx, id)
		if err != nil {
			return err
		}
		if !view.Agent || view.Status.Done != 200 || view.Status.CheckpointedWork != 200 || view.State != api.Finished {
			return fmt.Errorf("agent heard: %v, done %g, kept %g, %s; want 200 of both, finished", view.Agent, view.Status.Done, view.Status.CheckpointedWork, view.State)
		}
		return nil
	})
}

// testPodFields: a job with an init container, a sidecar that never ends, an account of its
// own, a secret for images and a node selector runs where it should, its agent is heard, and
// it ends although the sidecar would not. Then it is deleted, as it asks.
func (w *world) testPodFields(t *testing.T) {
	ctx := within(t, patience)
	if err := w.admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "researcher"}}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"registry.example":{"auth":"dTpw"}}}`},
	}
	if err := w.admin.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	job := w.job(t, "fields", "-steps", "200", "-pace", "5ms")
	job.Spec.TTLSecondsAfterFinished = new(int32(5))
	pod := &job.Spec.Template.Spec
	pod.NodeSelector = map[string]string{corev1.LabelHostname: "real-1"}
	pod.ServiceAccountName, pod.ImagePullSecrets = "researcher", []corev1.LocalObjectReference{{Name: secret.Name}}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	beside := func(name string, steps int) corev1.Container {
		return corev1.Container{
			Name: name, Image: trainerImage, ImagePullPolicy: corev1.PullNever, Args: []string{"-folder", "/scratch", "-steps", fmt.Sprint(steps), "-pace", "10ms"},
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		}
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := beside("sidecar", 1_000_000)
	sidecar.RestartPolicy = &always
	pod.InitContainers = []corev1.Container{beside("fetch", 3), sidecar}
	w.submit(t, job)
	w.waitFinished(t, job)
	p := &corev1.Pod{}
	if err := w.admin.Get(ctx, client.ObjectKey{Namespace: "default", Name: "fields-1-0"}, p); err != nil {
		t.Fatal(err)
	}
	if p.Spec.NodeName != "real-1" || p.Spec.ServiceAccountName != "researcher" || len(p.Spec.ImagePullSecrets) != 1 || p.Status.Phase != corev1.PodSucceeded || job.Status.Attempt != 1 {
		t.Errorf("pod on %s as %s with %d secrets: %s, attempt %d; want it on real-1 as researcher with 1, succeeded at once",
			p.Spec.NodeName, p.Spec.ServiceAccountName, len(p.Spec.ImagePullSecrets), p.Status.Phase, job.Status.Attempt)
	}
	fetched, ran := false, false
	for _, c := range p.Status.InitContainerStatuses {
		fetched = fetched || c.Name == "fetch" && c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		ran = ran || c.Name == "sidecar" && c.State.Terminated != nil && c.RestartCount == 0
	}
	if !fetched || !ran {
		t.Errorf("init containers: %+v; want that fetch has succeeded and that sidecar was stopped at the end", p.Status.InitContainerStatuses)
	}
	w.checkHeard(t, sched.JobID(job.Status.ID))
	eventually(t, "the job is deleted, with its pod", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(p), p); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the pod is there: %v", err)
		}
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the job is there: %v", err)
		}
		return nil
	})
}

// addAgent adds what the agent needs to a pod.
func addAgent(spec *corev1.PodSpec, api string) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "fairway", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "fairway-agents", Path: "token"}}},
	}}})
	k := &spec.Containers[0]
	k.VolumeMounts = append(k.VolumeMounts, corev1.VolumeMount{Name: "fairway", MountPath: "/var/run/secrets/fairway.dev", ReadOnly: true})
	from := func(annotation string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + annotation + "']"}}
	}
	k.Env = append(k.Env,
		corev1.EnvVar{Name: "FAIRWAY_API", Value: api},
		corev1.EnvVar{Name: "FAIRWAY_TOKEN_FILE", Value: "/var/run/secrets/fairway.dev/token"},
		corev1.EnvVar{Name: "FAIRWAY_JOB", ValueFrom: from(v1alpha1.LabelID)},
		corev1.EnvVar{Name: "FAIRWAY_ATTEMPT", ValueFrom: from(v1alpha1.LabelAttempt)},
	)
}
