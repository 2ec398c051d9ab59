// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/constraint"
	"github.com/fairway-gpu/fairway/kube/nodes"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestWhereJobsRun: labels and taints of nodes decide where jobs run, a job that fits
// no node says so in the words of its template, and everything follows changes of the
// nodes.
func TestWhereJobsRun(t *testing.T) {
	registry := constraint.NewRegistry(nodes.RulesFor(nil, nil))
	w := open(t, func(c *Config) { c.Constraints = registry })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- nodes.New(nodes.Config{Cache: w.mirror.Cache, State: w.state, Constraints: registry}).Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	node := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "node-1"}, node); err != nil {
		t.Fatal(err)
	}
	mend := func(taints []corev1.Taint, disk string) {
		t.Helper()
		w.patch(node, func() {
			node.Spec.Taints = taints
			node.Labels["disk"] = disk
		})
	}
	t.Cleanup(func() {
		before := node.DeepCopy()
		node.Spec.Taints = nil
		delete(node.Labels, "disk")
		if err := w.client.Patch(context.Background(), node, client.MergeFrom(before)); err != nil {
			t.Error(err)
		}
	})
	mend([]corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}, "fast")

	ns := w.namespace("where")
	picky := trainingJob(ns, "picky", 2)
	picky.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "fast"}
	tolerant := trainingJob(ns, "tolerant", 2)
	tolerant.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "fast"}
	tolerant.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	plain := trainingJob(ns, "plain", 8)
	plain.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	for _, j := range []*v1alpha1.TrainingJob{picky, tolerant, plain} {
		w.create(j)
	}
	starts := func(j *v1alpha1.TrainingJob, on string) {
		t.Helper()
		w.until(j.Name+" starts on "+on, j, func() bool { return j.Status.State == api.Starting })
		if !strings.HasPrefix(j.Status.Nodes, on) {
			t.Errorf("%s is on %s; want %s", j.Name, j.Status.Nodes, on)
		}
	}
	starts(tolerant, "node-1")
	starts(plain, "node-0")
	w.until("the firm no", picky, func() bool {
		return strings.Contains(picky.Status.Why, "no node matching nodeSelector {disk=fast} could hold it")
	})
	service := Jobs{Jobs: w.state, Mirror: w.mirror}
	view, err := service.Job(cluster, w.jobs(ns)[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range w.jobs(ns) {
		if want := j.Name != "plain"; (j.Selector != "") != want {
			t.Errorf("job %s needs the label %q; want one: %t", j.Name, j.Selector, want)
		}
		if j.Name == "picky" {
			if view, err = service.Job(cluster, j.ID); err != nil || view.Reason == nil || view.Reason.Text != picky.Status.Why {
				t.Errorf("the API says %+v, %v; the object %q", view.Reason, err, picky.Status.Why)
			}
			if e, err := service.Explain(cluster, j.ID); err != nil || e.Job.Reason == nil || e.Job.Reason.Text != picky.Status.Why || !strings.Contains(e.Summary, picky.Status.Why) {
				t.Errorf("it is explained as %q, %+v, %v; the object says %q", e.Summary, e.Job.Reason, err, picky.Status.Why)
			}
		}
	}
	mend(nil, "fast")
	starts(picky, "node-1")
	mend(nil, "slow") // running jobs stay
	w.until("the state knows", nil, func() bool {
		list, err := w.state.Nodes(cluster)
		return err == nil && len(list) == 2 && len(list[1].Labels) == 0
	})
	late := trainingJob(ns, "late", 2)
	late.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "fast"}
	w.create(late)
	w.until("comes too late", late, func() bool { return strings.Contains(late.Status.Why, "matching nodeSelector {disk=fast}") })
	w.until("goes on", picky, func() bool { return picky.Status.State == api.Starting })
	for _, j := range []*v1alpha1.TrainingJob{picky, tolerant, plain, late} {
		if err := w.client.Delete(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	w.until("constraints of jobs that are gone are forgotten", nil, func() bool { list, _ := registry.List(); return len(list) == 0 })
}
