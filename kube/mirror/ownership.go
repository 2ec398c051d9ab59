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

// OwnsPod reports whether a pod belongs to a job that Fairway runs. Anybody who can create
// pods can give them Fairway's scheduler name, labels and annotations, so these prove
// nothing. The proof is the pod's controller, which must be the job's object. The
// controller is in the pod's namespace, because Kubernetes deletes pods whose owner
// does not exist there. Names are unique in a namespace, so no pod can take the place
// of another.
//
// If the state does not know the job, or no longer does, the labels decide: no attempt
// wants such a pod, so it is deleted.
func (m *Mirror) OwnsPod(p *corev1.Pod) bool {
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
	case group == rayClusterKind.Group && owner.Kind == kindRayCluster:
		return m.index.isActive(origin(kindRayCluster, p.Namespace, owner.Name))
	case owner.Kind != "Job":
		return false
	}
	if _, known := m.index.job(string(owner.UID)); known {
		return true
	}
	set := p.Labels[jobSetLabel]
	return set != "" && strings.HasPrefix(owner.Name, set+"-") &&
		(m.index.isActive(origin(kindTrainJob, p.Namespace, set)) || m.index.isActive(origin(kindJobSet, p.Namespace, set)))
}

// emitQuarantine emits an event on a node that is put into quarantine or taken out of
// it. The Node object itself is not changed, because other programs act on its taints.
func (m *Mirror) emitQuarantine(r *api.Record) {
	c := r.Quarantine
	// As in the kubelet's events, the node's name stands in for its UID.
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
