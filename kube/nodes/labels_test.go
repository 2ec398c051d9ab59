// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/kube/constraint"
)

// TestLabels: nodes have the labels of the constraints that they satisfy, as long as
// these are in use, and that of their pool.
func TestLabels(t *testing.T) {
	registry := constraint.NewRegistry(RulesFor(nil, nil))
	w := New(Config{Constraints: registry})
	plain, fast, team := nodeOf("a"), nodeOf("b"), nodeOf("c")
	fast.Labels["disk"], fast.Labels[LabelPool] = "fast", "screening"
	team.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
	for _, n := range []*corev1.Node{plain, fast, team} {
		w.setNode(n)
	}
	use := func(user string, pod corev1.PodSpec) string {
		t.Helper()
		label, err := registry.Use(user, registry.Of("ns", &pod))
		if err != nil {
			t.Fatal(err)
		}
		return label
	}
	onFast := use("x", corev1.PodSpec{NodeSelector: map[string]string{"disk": "fast"}})
	tolerant := use("y", corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpEqual, Value: "x"}}})
	if label := use("z", corev1.PodSpec{}); label != "" {
		t.Errorf("the label of a pod that says nothing is %q; want none", label)
	}
	type seen struct {
		Marks []string
		Kept  bool
	}
	check := func(want map[string]seen) {
		t.Helper()
		list, _, _ := w.list()
		got := map[string]seen{}
		for _, n := range list {
			named := []string{}
			for _, m := range n.Labels {
				switch m {
				case onFast:
					m = "fast"
				case tolerant:
					m = "tolerant"
				}
				named = append(named, m)
			}
			got[n.Name] = seen{named, n.Dedicated}
		}
		if diff := cmp.Diff(want, got, cmp.Transformer("sorted", func(in []string) map[string]bool {
			out := map[string]bool{}
			for _, m := range in {
				out[m] = true
			}
			return out
		})); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	}
	check(map[string]seen{
		"a": {[]string{"tolerant"}, false}, "b": {[]string{"fast", "screening", "tolerant"}, false}, "c": {[]string{"tolerant"}, true},
	})
	again := plain.DeepCopy()
	again.Labels["disk"] = "fast"
	w.setNode(again)
	free := team.DeepCopy()
	free.Spec.Taints = nil
	w.setNode(free)
	registry.Drop("y")
	check(map[string]seen{"a": {[]string{"fast"}, false}, "b": {[]string{"fast", "screening"}, false}, "c": {[]string{}, false}})
}
