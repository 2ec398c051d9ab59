// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestRoles: a job file with roles becomes a gang whose elastic role grows onto free GPUs,
// makes room for another job and grows again, with a new attempt each time, while the other
// keeps its size. The leader is killed while pods of a new attempt are being bound. The job
// is done when its first role is.
func TestRoles(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"roles"}, grace: 2 * patience})
	settings := how{settings: map[string]any{"policy": "gandiva:pack=false:slice=10s:grow_after=1s", "leader": brief}}
	p := w.operator(t, settings)
	w.user(t, "roles", "trainer")
	job, err := p.dial(t, w.token(t, "roles", "trainer", "fairway", nil)).Submit(t.Context(), api.Submission{Task: api.Task{
		Name: "rl", Image: "none", Preemptible: new(true), Roles: []api.JobRole{
			{Name: "trainer", GPUs: 2, Command: []string{"learn"}}, {Name: "rollout", GPUs: 1, MaxGPUs: 6, Command: []string{"play"}},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	rl := &v1alpha1.TrainingJob{}
	rl.Namespace, rl.Name = "roles", strings.TrimPrefix(job.Origin, "TrainingJob/roles/")
	// runs waits until the job runs with so many rollouts, and returns the pods of its
	// present attempt by role.
	runs := func(least, most int) map[string][]corev1.Pod {
		t.Helper()
		n, byRole := 0, map[string][]corev1.Pod{}
		eventually(t, fmt.Sprintf("it runs with %d to %d rollouts", least, most), func() error {
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(rl), rl); err != nil {
				return err
			}
			if _, err := fmt.Sscanf(rl.Status.Roles, "trainer 2, rollout %d (1 to 6)", &n); err != nil || rl.Status.State != api.Running || n < least || n > most {
				return fmt.Errorf("it is %s with %q", rl.Status.State, rl.Status.Roles)
			}
			clear(byRole)
			for _, p := range w.podsOf(t, rl, rl.Status.Attempt) {
				byRole[p.Labels[v1alpha1.LabelRole]] = append(byRole[p.Labels[v1alpha1.LabelRole]], p)
			}
			if len(byRole["trainer"]) != 2 || len(byRole["rollout"]) != n {
				return fmt.Errorf("%d trainers and %d rollouts have pods", len(byRole["trainer"]), len(byRole["rollout"]))
			}
			return nil
		})
		return byRole
	}
	runs(6, 6)
	other := w.create(t, training{name: "other", gpus: 100, perPod: 4})
	w.wait(t, other, api.Running)
	runs(1, 2)
	small := rl.Status.Attempt
	w.end(t, other)
	eventually(t, "pods of another attempt are bound", func() error {
		var pods corev1.PodList
		if err := w.admin.List(t.Context(), &pods, client.InNamespace("roles"), client.MatchingLabels{v1alpha1.LabelJob: rl.Name}); err != nil {
			return err
		}
		for i := range pods.Items {
			if n := pods.Items[i].Labels[v1alpha1.LabelAttempt]; n > fmt.Sprint(small) && pods.Items[i].Spec.NodeName != "" {
				return nil
			}
		}
		return fmt.Errorf("the last is %d", small)
	})
	p.Kill()
	w.operator(t, settings)
	for _, p := range runs(6, 6)["trainer"] {
		if err := w.EndPod(t.Context(), client.ObjectKeyFromObject(&p), 0); err != nil {
			t.Fatal(err)
		}
	}
	w.wait(t, rl, api.Finished)
	w.account(t)
	t.Logf("it had %d attempts", rl.Status.Attempt)
}
