// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// nodesOf returns the nodes of a job's attempt.
func (w *world) nodesOf(t *testing.T, job *v1alpha1.TrainingJob, number int32) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, p := range w.podsOf(t, job, number) {
		if p.Spec.NodeName != "" {
			out[p.Spec.NodeName] = true
		}
	}
	return out
}

// TestNodeLost: a gang that loses a node restarts as a whole elsewhere, and the node's
// GPUs count once.
func TestNodeLost(t *testing.T) {
	for _, x := range []struct {
		name string
		lose func(*testing.T, *world, string)
		back func(*testing.T, *world, string)
	}{
		{"silent", failNode, func(t *testing.T, w *world, node string) {
			if err := w.RecoverNode(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}},
		{"deleted", deleteNode, addNode},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := begin(t, setting{namespaces: []string{"node-" + x.name}})
			w.operator(t, how{})
			gang := w.create(t, training{name: "gang", gpus: 32, perPod: 4})
			other := w.create(t, training{name: "other", gpus: 64, perPod: 8})
			w.wait(t, gang, api.Running)
			w.wait(t, other, api.Running)
			first := gang.Status.Attempt
			lost := w.podsOf(t, gang, first)[0].Spec.NodeName
			x.lose(t, w, lost)
			eventually(t, "the gang runs again", func() error {
				if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(gang), gang); err != nil {
					return err
				}
				if gang.Status.State != api.Running || gang.Status.Attempt == first {
					return fmt.Errorf("it is %q in attempt %d: %q", gang.Status.State, gang.Status.Attempt, gang.Status.Why)
				}
				return nil
			})
			if got := w.podsOf(t, gang, gang.Status.Attempt); len(got) != 8 || w.nodesOf(t, gang, gang.Status.Attempt)[lost] {
				t.Errorf("it has %d pods on %v; want 8, none on %s", len(got), w.nodesOf(t, gang, gang.Status.Attempt), lost)
			}
			// A gang for all GPUs except those of the lost node fits; with them it does
			// not.
			w.end(t, gang)
			w.end(t, other)
			w.waitAll(t)
			full := w.create(t, training{name: "full", gpus: allGPUs - nodeGPUs, runFor: time.Second})
			over := w.create(t, training{name: "over", gpus: allGPUs, runFor: time.Second})
			w.wait(t, full, api.Finished)
			w.wait(t, over, api.Waiting)
			x.back(t, w, lost)
			w.wait(t, over, api.Finished)
			w.account(t)
			w.wait(t, other, api.Finished)
			if other.Status.Attempt != 1 {
				t.Errorf("the other job needed %d attempts; want 1", other.Status.Attempt)
			}
		})
	}
}

func failNode(t *testing.T, w *world, node string) {
	t.Helper()
	if err := w.FailNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

func deleteNode(t *testing.T, w *world, node string) {
	t.Helper()
	if err := w.admin.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}); err != nil {
		t.Fatal(err)
	}
}

// addNode creates a deleted node again.
func addNode(t *testing.T, w *world, node string) {
	t.Helper()
	var like corev1.Node
	other := gpuNode + "-0"
	if node == other {
		other = gpuNode + "-1"
	}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: other}, &like); err != nil {
		t.Fatal(err)
	}
	index, err := strconv.Atoi(strings.TrimPrefix(node, gpuNode+"-"))
	if err != nil {
		t.Fatal(err)
	}
	back := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: gpuNodes.LabelsOf(index), Annotations: like.Annotations},
		Status:     like.Status,
	}
	if err := w.admin.Create(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	if err := w.WaitNodes(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// TestNodeLostWhileBinding: a node is lost between the creation of a gang's pods and
// the end of their binding.
func TestNodeLostWhileBinding(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"node-binding"}})
	w.operator(t, how{})
	for round := range 2 {
		gang := w.create(t, training{name: fmt.Sprintf("gang-%d", round), gpus: 96, runFor: 2 * time.Second})
		var lost string
		eventually(t, "the first pods are bound", func() error {
			var pods corev1.PodList
			if err := w.admin.List(t.Context(), &pods, client.InNamespace(gang.Namespace), client.MatchingLabels{v1alpha1.LabelJob: gang.Name}); err != nil {
				return err
			}
			for i := range pods.Items {
				if lost = pods.Items[i].Spec.NodeName; lost != "" {
					return nil
				}
			}
			return fmt.Errorf("none of %d is", len(pods.Items))
		})
		failNode(t, w, lost)
		w.wait(t, gang, api.Running, api.Waiting, api.Finished)
		if err := w.RecoverNode(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		w.wait(t, gang, api.Finished)
	}
	w.account(t)
}
