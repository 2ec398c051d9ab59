// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// impostor is a pod with everything that Fairway puts on the first pod of a job, which
// any user of the namespace can create. Its owner is one of the user's jobs.
func impostor(owner *v1alpha1.TrainingJob, id string) *corev1.Pod {
	p := stranger(owner.Namespace, owner.Name+"-1-0", 0, time.Hour)
	p.Labels = map[string]string{v1alpha1.LabelJob: owner.Name, v1alpha1.LabelID: id, v1alpha1.LabelAttempt: "1", v1alpha1.LabelRank: "0"}
	p.Annotations[v1alpha1.AnnotationGPUs] = "0-7"
	p.Spec.SchedulerName = v1alpha1.SchedulerName
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	if owner.UID != "" {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind("TrainingJob"))}
	}
	return p
}

// TestImpostors: pods that imitate Fairway's are neither deleted nor treated as part of
// a job, and count for exactly the GPUs that they request.
func TestImpostors(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"honest", "crooked"}, posing: true})
	w.operator(t, how{})
	victim := w.create(t, training{name: "net", namespace: "honest", gpus: 2})
	w.wait(t, victim, api.Running)
	decoy := w.create(t, training{name: "decoy", namespace: "crooked", suspend: true})

	labelled := impostor(w.object(training{name: "net", namespace: "crooked"}), victim.Status.ID) // on a node, without an owner
	labelled.Spec.NodeName = gpuNode + "-10"
	owned := impostor(decoy, victim.Status.ID) // with an owner that exists
	owned.Spec.NodeName = gpuNode + "-11"
	twin := impostor(victim, victim.Status.ID) // beside the real one
	twin.Name, twin.Spec.NodeName = "twin", gpuNode+"-12"
	waiting := impostor(w.object(training{name: "waiting", namespace: "crooked"}), "nobody-9") // not bound
	greedy := stranger("crooked", "greedy", nodeGPUs, time.Hour)                               // with GPUs, bypassing all schedulers
	greedy.Spec.SchedulerName, greedy.Spec.NodeName = v1alpha1.SchedulerName, gpuNode+"-9"
	all := []*corev1.Pod{labelled, owned, twin, waiting, greedy}
	ids := map[types.UID]bool{}
	for _, p := range all {
		if err := w.admin.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		ids[p.UID] = true
	}
	batch := w.plainJob(t, "crooked", victim.Status.ID)

	// A gang for all GPUs but those of greedy and victim fits, and the pods on the
	// other nodes do not matter. One more GPU does not fit.
	w.knowsOthers(t, nodeGPUs)
	free := int32(allGPUs - nodeGPUs - 2)
	over := w.create(t, training{name: "over", namespace: "honest", gpus: free + 1, runFor: time.Second})
	w.wait(t, over, api.Waiting)
	if err := w.admin.Delete(t.Context(), over); err != nil {
		t.Fatal(err)
	}
	fits := w.create(t, training{name: "fits", namespace: "honest", gpus: free, runFor: 3 * time.Second})
	w.wait(t, fits, api.Finished)
	if fits.Status.Attempt != 1 {
		t.Errorf("the job that fits needed %d attempts; want 1", fits.Status.Attempt)
	}
	w.wait(t, victim, api.Running)
	if victim.Status.Attempt != 1 {
		t.Errorf("the victim was started %d times; want 1", victim.Status.Attempt)
	}
	var pods corev1.PodList
	if err := w.admin.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; ids[p.UID] && p.DeletionTimestamp == nil {
			delete(ids, p.UID)
		}
	}
	for _, p := range all {
		if ids[p.UID] {
			t.Errorf("pod %s/%s was deleted; want it left alone", p.Namespace, p.Name)
		}
	}
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(batch), batch); err != nil || batch.Status.Active != 1 {
		t.Errorf("the batch Job has %d pods, %v; want it left alone with 1", batch.Status.Active, err)
	}
}

// plainJob creates a batch Job whose pods have Fairway's labels, without the label that
// makes Fairway schedule it.
func (w *world) plainJob(t *testing.T, namespace, id string) *batchv1.Job {
	t.Helper()
	template := impostor(w.object(training{name: "batch", namespace: namespace}), id)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "batch", Labels: template.Labels},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec,
		}},
	}
	if err := w.admin.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the batch Job has a pod", func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil || job.Status.Active != 1 {
			return fmt.Errorf("it has %d, %w", job.Status.Active, err)
		}
		return nil
	})
	return job
}
