// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairway-gpu/fairway/api"
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

// sayQuarantine tells people by an event of the node what was decided about it. The
// Node object itself is left alone: others read its taints too.
func (m *Mirror) sayQuarantine(r *api.Record) {
	c := r.Quarantine
	// Events of nodes are found by their name, as those of the kubelet are.
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Node, UID: types.UID(c.Node)},
	}
	kind, text := corev1.EventTypeWarning, r.Text
	if c.State == "in-use" {
		kind = corev1.EventTypeNormal
	}
	if text == "" {
		text = c.Why
	}
	m.Event(node, kind, camel(r.Kind()), cut(text))
}
