// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/live"
)

// maxUnfit bounds the nodes that one exit names.
const maxUnfit = 200

// misplaced says that a node of an attempt is none that its template accepts. A
// scheduler that knows only GPUs may choose such a node; the kubelet would refuse
// the pod. All nodes of that kind are named at once, so that the next try is not
// in vain.
func (e *Executor) misplaced(r *run) *live.Exit {
	spec := &r.plan.from.Template.Spec
	if len(spec.NodeSelector) == 0 && (spec.Affinity == nil || spec.Affinity.NodeAffinity == nil) {
		return nil
	}
	at := slices.IndexFunc(r.nodes, func(name string) bool { return e.nodes[name] != nil && !accepts(spec, e.nodes[name]) })
	if at < 0 {
		return nil
	}
	var unfit []diagnose.Event
	others := 0
	for _, name := range slices.Sorted(maps.Keys(e.nodes)) {
		n := e.nodes[name]
		if q := n.Status.Capacity[r.plan.from.GPUResource]; q.IsZero() {
			continue
		}
		if accepts(spec, n) {
			others++
		} else if len(unfit) < maxUnfit {
			unfit = append(unfit, diagnose.Event{Kind: live.HostUnfit, Node: name})
		}
	}
	if others == 0 {
		return &live.Exit{Code: 126, Rank: at, Why: "no node with GPUs is one that the nodeSelector and the node affinity of its template accept"}
	}
	return &live.Exit{Lost: true, Rank: at, Host: unfit, Why: fmt.Sprintf(
		"node %s is none that the nodeSelector and the node affinity of its template accept; %d nodes are", r.nodes[at], others)}
}

// accepts reports whether a pod may be on a node by its nodeSelector and by what
// its node affinity requires.
func accepts(spec *corev1.PodSpec, n *corev1.Node) bool {
	has := labels.Set(n.Labels)
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(has) {
		return false
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	name := labels.Set{metav1.ObjectNameField: n.Name}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 && meets(t.MatchExpressions, has) && meets(t.MatchFields, name)
	})
}

// operators are those of node affinity as those of label selectors.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

// meets reports whether a set of labels meets all requirements; one that makes no
// sense is met by none.
func meets(all []corev1.NodeSelectorRequirement, has labels.Set) bool {
	for _, q := range all {
		r, err := labels.NewRequirement(q.Key, operators[q.Operator], q.Values)
		if err != nil || !r.Matches(has) {
			return false
		}
	}
	return true
}
