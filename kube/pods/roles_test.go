// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/pods"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// withRoles submits a job whose first role is elastic.
func (w *world) withRoles() sched.JobID {
	w.t.Helper()
	return w.submitAs(sched.Spec{}, []api.JobRole{{Name: "rollout", GPUs: 1, MaxGPUs: 3}, {Name: "trainer", GPUs: 2}}, nil, new(true))
}

// TestRoles: each role has its own template and world, and all know where they meet. A role
// that is elastic has the last places, whatever its number, and the job ends with its first
// role. An operator that comes later judges in the same way.
func TestRoles(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 4}, nil)
	id := w.withRoles()
	w.plan(wants{id: {w.on(1, 0b0111), w.on(0, 0b1000)}})
	w.waitState(id, api.Running)
	at := func(rank int) string { return fmt.Sprintf("job0-1-%d.fairway-gangs.%s.svc", rank, w.namespace) }
	var got []string
	for _, p := range sorted(w.of(id)) {
		got = append(got, fmt.Sprintf("%s on %s:%s is %s %s, rank %s of %s at %s of %s, image %s, all meet at %s, %s", p.Name, p.Spec.NodeName, p.Annotations[v1alpha1.AnnotationGPUs],
			p.Labels[v1alpha1.LabelRole], env(p, "FAIRWAY_ROLE"), env(p, "RANK"), env(p, "WORLD_SIZE"), env(p, "MASTER_ADDR"), env(p, "FAIRWAY_ROLES"),
			p.Spec.Containers[0].Image, env(p, "FAIRWAY_MEET"), env(p, "FAIRWAY_MEET_HOST")))
	}
	const meet = "all meet at $(FAIRWAY_MEET_HOST):29501, "
	want := []string{
		fmt.Sprintf("job0-1-0 on %s-1:2 is rollout rollout, rank 0 of 2 at %s of rollout=2,trainer=2, image rollout, %s%s", w.prefix, at(0), meet, at(0)),
		fmt.Sprintf("job0-1-1 on %s-0:3 is rollout rollout, rank 1 of 2 at %s of rollout=2,trainer=2, image rollout, %s%s", w.prefix, at(0), meet, at(0)),
		fmt.Sprintf("job0-1-2 on %s-1:0 is trainer trainer, rank 0 of 2 at %s of rollout=2,trainer=2, image trainer, %s%s", w.prefix, at(2), meet, at(0)),
		fmt.Sprintf("job0-1-3 on %s-1:1 is trainer trainer, rank 1 of 2 at %s of rollout=2,trainer=2, image trainer, %s%s", w.prefix, at(2), meet, at(0)),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	w.endPod(sorted(w.of(id))[3], 0) // a trainer is done, and the others go on
	w.Restart(t)
	w.waitState(id, api.Running)
	for _, p := range sorted(w.of(id))[:2] {
		w.endPod(p, 0)
	}
	w.waitState(id, api.Finished)
	if left := w.of(id); len(left) > 0 {
		t.Errorf("%d pods are left; want none when the first role is done", len(left))
	}
}

// TestRolesFail: a pod of any role that fails while the first one runs fails the attempt.
func TestRolesFail(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, nil)
	id := w.withRoles()
	w.plan(wants{id: {w.on(0, 0b0111)}})
	w.waitState(id, api.Running)
	w.endPod(sorted(w.of(id))[2], 3)
	w.waitState(id, api.Failed)
	if got := w.job(id).Exit.Text(); got != "rank 2 exited with code 3" {
		t.Errorf("it ended: %s", got)
	}
}

// TestRolesByAddress: without names, each pod is told the addresses of the first of its role
// and of the gang.
func TestRolesByAddress(t *testing.T) {
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, func(c *pods.Config) { c.Rendezvous = pods.ByIP })
	id := w.withRoles()
	w.plan(wants{id: {w.on(0, 0b1111)}})
	w.waitState(id, api.Running)
	list := sorted(w.of(id))
	told := func(p *corev1.Pod, variable, annotation string) string {
		if path := env(p, variable); path != "metadata.annotations['"+annotation+"']" {
			return path
		}
		return p.Annotations[annotation]
	}
	for rank, want := range []struct{ master, meet string }{
		{"status.podIP", "status.podIP"}, {list[0].Status.PodIP, list[0].Status.PodIP},
		{"status.podIP", list[0].Status.PodIP}, {list[2].Status.PodIP, list[0].Status.PodIP},
	} {
		p := list[rank]
		if master, meet := told(p, "MASTER_ADDR", "fairway.dev/master"), told(p, "FAIRWAY_MEET_HOST", "fairway.dev/meet"); master != want.master || meet != want.meet {
			t.Errorf("rank %d finds its role at %q and the gang at %q; want %q and %q", rank, master, meet, want.master, want.meet)
		}
	}
}
