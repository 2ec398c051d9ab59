// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestOwnsPod: labels alone do not make a pod one of Fairway's.
func TestOwnsPod(t *testing.T) {
	m := &Mirror{index: newIndex()}
	m.index.put(state.Mirrored{ID: "net-1", Origin: "TrainingJob/team/net", Key: "u1"})
	m.index.put(state.Mirrored{ID: "batch-1", Origin: "Job/team/batch", Key: "u2"})
	m.index.put(state.Mirrored{ID: "tj-1", Origin: "TrainJob/team/tj", Key: "u3"})
	m.index.put(state.Mirrored{ID: "js-1", Origin: "JobSet/team/js", Key: "u4"})
	m.index.put(state.Mirrored{ID: "ray-1", Origin: "RayCluster/team/ray", Key: "u5"})
	pod := func(edit ...func(*corev1.Pod)) *corev1.Pod {
		yes := true
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "net-2-0",
				Labels:          map[string]string{v1alpha1.LabelJob: "net", v1alpha1.LabelID: "net-1", v1alpha1.LabelAttempt: "2", v1alpha1.LabelRank: "0"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob", Name: "net", Controller: &yes}},
			},
			Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName},
		}
		for _, e := range edit {
			e(p)
		}
		return p
	}
	owner := func(version, kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = version, kind, name
		}
	}
	uid := func(p *corev1.Pod) { p.OwnerReferences[0].UID = "u2" }
	batch := owner(batchv1.SchemeGroupVersion.String(), "Job", "batch")
	for name, x := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"as it should be":              {pod(), true},
		"of a job that nobody knows":   {pod(func(p *corev1.Pod) { p.Labels[v1alpha1.LabelID] = "old-7" }), true},
		"without an owner":             {pod(func(p *corev1.Pod) { p.OwnerReferences = nil }), false},
		"with another scheduler":       {pod(func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }), false},
		"with another name":            {pod(func(p *corev1.Pod) { p.Name = "net-2-0-x" }), false},
		"in another namespace":         {pod(func(p *corev1.Pod) { p.Namespace = "others" }), false},
		"of another job's object":      {pod(owner(v1alpha1.GroupVersion.String(), "TrainingJob", "other")), false},
		"of another kind":              {pod(owner("apps/v1", "ReplicaSet", "net")), false},
		"of somebody's TrainingJob":    {pod(owner("example.org/v1", "TrainingJob", "net")), false},
		"of a batch Job of Fairway's":  {pod(batch, uid), true},
		"of a batch Job of others":     {pod(batch), false},
		"of a TrainJob":                {pod(owner("batch/v1", "Job", "tj-node-0"), func(p *corev1.Pod) { p.Labels[jobSetLabel] = "tj" }), true},
		"of a TrainJob, elsewhere":     {pod(owner("batch/v1", "Job", "tj-node-0"), func(p *corev1.Pod) { p.Labels[jobSetLabel], p.Namespace = "tj", "others" }), false},
		"of a TrainJob that is over":   {pod(owner("batch/v1", "Job", "x-node-0"), func(p *corev1.Pod) { p.Labels[jobSetLabel] = "x" }), false},
		"of a JobSet":                  {pod(owner("batch/v1", "Job", "js-workers-0"), func(p *corev1.Pod) { p.Labels[jobSetLabel] = "js" }), true},
		"of a RayCluster":              {pod(owner("ray.io/v1", "RayCluster", "ray")), true},
		"of a RayCluster of others":    {pod(owner("ray.io/v1", "RayCluster", "other")), false},
		"of somebody's RayCluster":     {pod(owner("example.org/v1", "RayCluster", "ray")), false},
		"of another Job than its sets": {pod(owner("batch/v1", "Job", "mine"), func(p *corev1.Pod) { p.Labels[jobSetLabel] = "tj" }), false},
	} {
		if got := m.OwnsPod(x.pod); got != x.want {
			t.Errorf("%s: %v; want %v", name, got, x.want)
		}
	}
}
