// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairway-gpu/fairway/api"
)

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
