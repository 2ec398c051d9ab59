// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// Made reports whether a pod is one of a job that Fairway runs. Whoever may create
// pods can give them Fairway's scheduler, labels and annotations; what counts is the
// object that controls the pod, which has to be that of the job and, because
// Kubernetes removes pods whose owner does not exist, is one of their namespace. A
// name is given once in a namespace, so no pod stands in for another.
//
// Of a job that is not known, or no longer, its pods are taken at their word: nobody
// has ordered them, and they go.
func (m *Mirror) Made(p *corev1.Pod) bool {
	if p.Spec.SchedulerName != v1alpha1.SchedulerName {
		return false
	}
	if group := groupOf(p); group != "" && m.index.isActive(origin(kindPodGroup, p.Namespace, group)) {
		return true
	}
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return false
	}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	switch {
	case group == v1alpha1.GroupVersion.Group && (owner.Kind == kindTrainingJob || owner.Kind == kindApp):
		l := p.Labels
		if p.Name != fmt.Sprintf("%s-%s-%s", l[v1alpha1.LabelJob], l[v1alpha1.LabelAttempt], l[v1alpha1.LabelRank]) {
			return false
		}
		from := m.index.originOf(sched.JobID(l[v1alpha1.LabelID]))
		return from == "" || from == origin(owner.Kind, p.Namespace, owner.Name)
	case owner.Kind != "Job":
		return false
	}
	if _, known := m.index.job(string(owner.UID)); known {
		return true
	}
	set := p.Labels[jobSetLabel]
	return set != "" && strings.HasPrefix(owner.Name, set+"-") && m.index.isActive(origin(kindTrainJob, p.Namespace, set))
}
