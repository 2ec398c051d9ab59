// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package constraint decides on which nodes the pods of a template may run: those that
// match its nodeSelector and node affinity, whose taints it tolerates, that have the
// devices it requests, and that can use the volumes it claims.
//
// The scheduler does not know the labels and taints of Kubernetes. It has labels of its
// own (sched.Node.Labels), of which a job selects one. Every constraint has a label
// derived from its content, so jobs with the same constraint select the same label.
// Package nodes gives each node the labels of the constraints that it satisfies. A
// Registry holds the constraints in use.
package constraint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/volumes"
)

// Constraint is the part of a template that decides on which nodes it may run, in a
// normal form: constraints that mean the same are equal.
type Constraint struct {
	NodeSelector map[string]string         `json:"nodeSelector,omitempty"`
	Affinity     []corev1.NodeSelectorTerm `json:"affinity,omitempty"` // one of them must match
	Tolerations  []corev1.Toleration       `json:"tolerations,omitempty"`
	// Devices are what each pod requests of devices that are not GPUs, such as network
	// adapters.
	Devices map[corev1.ResourceName]int64 `json:"devices,omitempty"`
	// Claims are the volume claims of the pods, as volumes.Key names them. Which nodes
	// suit a claim changes with it, and the label stays.
	Claims []string `json:"claims,omitempty"`
}

// Rules say which taints keep pods off nodes, and where volumes can be used.
type Rules struct {
	// Open are the keys of taints that keep other pods off GPU nodes but not Fairway's,
	// which tolerate them: the names of GPU resources, and those that an administrator
	// adds.
	Open []string
	// Volumes are those of the cluster; nil: claims are not looked at.
	Volumes *volumes.View
}

// states are the keys of taints that mirror the state of a node, which package nodes
// reads from the node itself.
var states = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable}

// matters reports whether taints with this key decide where pods may run.
func (r Rules) matters(key string) bool {
	return !slices.Contains(r.Open, key) && !slices.Contains(states, key)
}

// Repels reports whether a taint keeps pods without a toleration off a node.
func (r Rules) Repels(t corev1.Taint) bool {
	return (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute) && r.matters(t.Key)
}

// Of returns the constraint of a pod in a namespace.
func (r Rules) Of(namespace string, pod *corev1.PodSpec) Constraint {
	var c Constraint
	if len(pod.NodeSelector) > 0 {
		c.NodeSelector = pod.NodeSelector
	}
	if a := pod.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		c.Affinity = inOrder(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
		if len(c.Affinity) == 0 {
			c.Affinity = []corev1.NodeSelectorTerm{{}} // an affinity without terms matches no node
		}
	}
	for _, t := range pod.Tolerations {
		if t.Effect == corev1.TaintEffectPreferNoSchedule || t.Key != "" && !r.matters(t.Key) {
			continue
		}
		t.TolerationSeconds = nil // this matters only to running pods
		if t.Operator == "" {
			t.Operator = corev1.TolerationOpEqual
		}
		if t.Operator == corev1.TolerationOpExists {
			t.Value = ""
		}
		c.Tolerations = append(c.Tolerations, t)
	}
	slices.SortFunc(c.Tolerations, func(a, b corev1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	c.Tolerations = slices.Compact(c.Tolerations)
	c.Devices = r.devicesOf(pod)
	if r.Volumes != nil {
		c.Claims = volumes.Named(namespace, pod)
	}
	return c
}

// For returns the constraint under which a pod is registered: claims whose volumes can be
// used anywhere do not count, so that jobs with claims of their own share a label. A job
// that has been submitted keeps the form that its selector stands for, whatever has become
// of its claims; nil: it is new.
func (r Rules) For(namespace string, pod *corev1.PodSpec, selector *string) Constraint {
	c := r.Of(namespace, pod)
	plain := c
	plain.Claims = nil
	if selector != nil && *selector == plain.Label() || selector == nil && !slices.ContainsFunc(c.Claims, r.confined) {
		return plain
	}
	return c
}

// confined reports whether only some nodes can use a claim, or that is not known yet.
func (r Rules) confined(claim string) bool { return !r.Volumes.Anywhere(claim) }

// devicesOf returns what a pod requests of extended resources that are not GPUs.
func (r Rules) devicesOf(pod *corev1.PodSpec) map[corev1.ResourceName]int64 {
	var out map[corev1.ResourceName]int64
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			for _, names := range []corev1.ResourceList{list[i].Resources.Requests, list[i].Resources.Limits} {
				for name := range names {
					if !strings.Contains(string(name), "/") || slices.Contains(r.Open, string(name)) {
						continue
					}
					if n := request.Peak(pod, name); n > 0 {
						if out == nil {
							out = map[corev1.ResourceName]int64{}
						}
						out[name] = n
					}
				}
			}
		}
	}
	return out
}

// inOrder sorts terms into an order that does not depend on how they were written.
func inOrder(terms []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	out := make([]corev1.NodeSelectorTerm, 0, len(terms))
	for i := range terms {
		t := terms[i].DeepCopy()
		for _, list := range [][]corev1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
			for k := range list {
				slices.Sort(list[k].Values)
			}
			sortBy(list)
		}
		out = append(out, *t)
	}
	sortBy(out)
	return out
}

// sortBy sorts values by their JSON.
func sortBy[T any](list []T) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(text(a), text(b)) })
}

// text returns a value as JSON. No value here can fail to marshal.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("constraint: " + err.Error())
	}
	return string(b)
}

// Empty reports whether the constraint is empty: it is satisfied by all nodes without
// taints.
func (c Constraint) Empty() bool {
	return len(c.NodeSelector) == 0 && len(c.Affinity) == 0 && len(c.Tolerations) == 0 && len(c.Devices) == 0 && len(c.Claims) == 0
}

// Label returns the label that jobs with this constraint select and nodes that satisfy
// it have; empty for the empty constraint.
func (c Constraint) Label() string {
	if c.Empty() {
		return ""
	}
	hash := sha256.Sum256([]byte(text(c)))
	return "c-" + hex.EncodeToString(hash[:6])
}

// Admits reports whether a pod with the constraint may run on a node.
func (r Rules) Admits(c Constraint, n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if r.Repels(t) && !slices.ContainsFunc(c.Tolerations, func(x corev1.Toleration) bool { return tolerates(x, t) }) {
			return false
		}
	}
	for name, need := range c.Devices {
		// What it has, not what of it works now: plugins that restart take their devices
		// away for a moment.
		if q := n.Status.Capacity[name]; q.Value() < need {
			return false
		}
	}
	return c.Selects(n) && !slices.ContainsFunc(c.Claims, func(claim string) bool { return r.Volumes.Unmet(claim, n) != "" })
}

// tolerates reports whether a toleration matches a taint.
func tolerates(x corev1.Toleration, t corev1.Taint) bool {
	switch {
	case x.Effect != "" && x.Effect != t.Effect, x.Key != "" && x.Key != t.Key, x.Key == "" && t.Key == partsKey:
		return false
	case x.Operator == corev1.TolerationOpExists:
		return true
	}
	return x.Operator == corev1.TolerationOpEqual && x.Key != "" && x.Value == t.Value
}

// Selects reports whether the labels and the name of a node match the constraint.
func (c Constraint) Selects(n *corev1.Node) bool {
	has := labels.Set(n.Labels)
	if !labels.SelectorFromSet(c.NodeSelector).Matches(has) {
		return false
	}
	name := labels.Set{metav1.ObjectNameField: n.Name}
	return len(c.Affinity) == 0 || slices.ContainsFunc(c.Affinity, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 && meets(t.MatchExpressions, has) && meets(t.MatchFields, name)
	})
}

// operators maps the operators of node affinity to those of label selectors.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

// meets reports whether a set of labels meets all requirements. No set meets an invalid
// requirement.
func meets(all []corev1.NodeSelectorRequirement, has labels.Set) bool {
	for _, q := range all {
		r, err := labels.NewRequirement(q.Key, operators[q.Operator], q.Values)
		if err != nil || !r.Matches(has) {
			return false
		}
	}
	return true
}
