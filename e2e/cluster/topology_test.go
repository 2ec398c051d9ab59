// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// TestLevels: gangs, and segments of them, are in one domain of the levels that the operator's
// configuration names; one that fits in none is told so.
func TestLevels(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"levels"}})
	w.operator(t, how{settings: map[string]any{"nodes": map[string]any{
		"grace": "1s", "levels": []any{map[string]any{"name": "zone", "label": corev1.LabelTopologyZone}, map[string]any{"name": "rack"}},
	}}})
	submit := func(name string, gpus int32, rules ...v1alpha1.TopologyRule) *v1alpha1.TrainingJob {
		o := w.object(training{name: name, gpus: gpus, perPod: nodeGPUs})
		o.Spec.Topology = rules
		if err := w.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	// Six of the eight nodes of the first zone, of which each rack has four; then all four of the
	// third rack, the only one that is still empty.
	both := submit("both", 48, v1alpha1.TopologyRule{Required: "zone"}, v1alpha1.TopologyRule{Required: "rack", Segment: 16})
	w.wait(t, both, api.Running)
	rack := submit("rack", 32, v1alpha1.TopologyRule{Required: "rack"})
	w.wait(t, rack, api.Running)
	if got := w.domains(t, both, corev1.LabelTopologyZone, 48); len(got) != 1 {
		t.Errorf("its pods are in zones %q; want one", got)
	}
	if got := w.domains(t, both, kubetest.LabelRack, 16); len(got) != 3 {
		t.Errorf("its segments are in racks %q; want one each", got)
	}
	if got := w.domains(t, rack, kubetest.LabelRack, 32); len(got) != 1 {
		t.Errorf("its pods are in racks %q; want one", got)
	}
	wide := submit("wide", 40, v1alpha1.TopologyRule{Required: "rack"})
	eventually(t, "a gang that no rack holds is told so", func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(wide), wide); err != nil {
			return err
		}
		if text := wide.Status.Why; !strings.Contains(text, "rack") {
			return fmt.Errorf("it is %q: %q", wide.Status.State, text)
		}
		return nil
	})
	for _, j := range []*v1alpha1.TrainingJob{both, rack} {
		w.end(t, j)
		w.wait(t, j, api.Finished)
	}
	if err := w.admin.Delete(t.Context(), wide); err != nil {
		t.Fatal(err)
	}
	w.account(t)
}

// domains returns the domain of each segment of a job's pods, in the order of their ranks, by a
// label of their nodes. A segment that is in several counts with each.
func (w *world) domains(t *testing.T, job *v1alpha1.TrainingJob, label string, segment int) []string {
	t.Helper()
	pods := w.podsOf(t, job, job.Status.Attempt)
	rank := func(p corev1.Pod) int {
		n, err := strconv.Atoi(p.Labels[v1alpha1.LabelRank])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(rank(a), rank(b)) })
	var out []string
	for i, p := range pods {
		var node corev1.Node
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: p.Spec.NodeName}, &node); err != nil {
			t.Fatal(err)
		}
		if d := node.Labels[label]; d == "" {
			t.Errorf("node %s has no %s", node.Name, label)
		} else if i*nodeGPUs%segment == 0 || d != out[len(out)-1] {
			out = append(out, d)
		}
	}
	return out
}
