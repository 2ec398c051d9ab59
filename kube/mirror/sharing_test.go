// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// TestSharing: if no node lets jobs share GPUs, the policy and the jobs that ask for
// sharing say so.
func TestSharing(t *testing.T) {
	w := open(t)
	ns := w.namespace("sharing")
	w.create(tenantObject("sharers", nil, ns))
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.SchedulingPolicySpec{Policy: "horus"}}
	w.create(p)
	asks, other := trainingJob(ns, "asks", 1), trainingJob(ns, "other", 1)
	asks.Spec.Share = &v1alpha1.Share{Allow: true}
	w.create(asks)
	w.create(other)
	node := sched.Node{Name: "node-0", GPUs: 8, Type: "h200", CPUs: 128, Memory: 1 << 40}
	for _, c := range []struct {
		seats  int
		state  sched.NodeState
		status metav1.ConditionStatus
		reason string
	}{
		{1, sched.Ready, metav1.ConditionFalse, "NotOffered"},
		{4, sched.Ready, metav1.ConditionTrue, "Offered"},
		{4, sched.Cordoned, metav1.ConditionFalse, "NotUsable"},
	} {
		node.Seats, node.State = c.seats, c.state
		if err := w.state.SetNodes(t.Context(), []sched.Node{node}); err != nil {
			t.Fatal(err)
		}
		says := func(conditions []metav1.Condition) bool {
			status, reason, _ := condition(conditions, v1alpha1.Sharing)
			return status == c.status && reason == c.reason
		}
		w.until("the policy says "+c.reason, p, func() bool { return says(p.Status.Conditions) })
		w.until("the job says "+c.reason, asks, func() bool { return says(asks.Status.Conditions) })
	}
	w.until("the other runs", other, func() bool { return other.Status.ID != "" })
	if status, _, message := condition(other.Status.Conditions, v1alpha1.Sharing); status != "" {
		t.Errorf("a job that does not ask says %s, %s; want nothing", status, message)
	}
}

// TestConstraintPod: jobs that need a small part of a GPU may run on GPUs that are offered
// in parts.
func TestConstraintPod(t *testing.T) {
	for _, c := range []struct {
		share  *v1alpha1.Share
		perPod int32
		want   int
	}{
		{nil, 1, 0}, {&v1alpha1.Share{Allow: true}, 1, 0}, {&v1alpha1.Share{Allow: true, MilliGPU: ptr(int32(600))}, 1, 0},
		{&v1alpha1.Share{MilliGPU: ptr(int32(250))}, 1, 0}, {&v1alpha1.Share{Allow: true, MilliGPU: ptr(int32(250))}, 2, 0},
		{&v1alpha1.Share{Allow: true, MilliGPU: ptr(int32(250))}, 1, 3}, // in 2, 3 and 4 parts
	} {
		job := trainingJob("ns", "j", 2)
		job.Spec.Share, job.Spec.GPUsPerPod = c.share, &c.perPod
		if got := len(constraintPod(&job.Spec).Tolerations); got != c.want || len(job.Spec.Template.Spec.Tolerations) != 0 {
			t.Errorf("share %+v, %d GPUs a pod: %d tolerations; want %d, and the template as it was", c.share, c.perPod, got, c.want)
		}
	}
}
