// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	fairwayclient "github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestOthers: under a policy that does not resize, jobs of other kinds and in another
// language are stopped, resume, and report.
func TestOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "fifo:backfill")
	t.Run("batch Job", w.testBatchJob)
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
	boss, err := w.boss(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := fairwayclient.New(fairwayclient.Options{Address: w.fairway.API, Token: boss})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "its agent was heard", func(ctx context.Context) error {
		view, err := c.Job(ctx, "plain-1")
		if err != nil {
			return err
		}
		if !view.Agent || view.Status.Done != 200 || view.Status.CheckpointedWork != 200 || view.State != api.Finished {
			return fmt.Errorf("agent heard: %v, done %g, kept %g, %s; want 200 of both, finished", view.Agent, view.Status.Done, view.Status.CheckpointedWork, view.State)
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
