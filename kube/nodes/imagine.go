// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/sched"
)

// Imagine returns a node as the state would see it if the cluster had it, ready and idle;
// ok is false if Fairway would not use it.
func (w *Watcher) Imagine(n *corev1.Node) (out sched.Node, ok bool) {
	f, ok := w.factsOf(n)
	if !ok {
		return sched.Node{}, false
	}
	all, version := w.Constraints.List()
	f.setLabels(w.Constraints.Rules, all, version)
	return f.node, true
}
