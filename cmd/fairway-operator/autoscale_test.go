// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/nodepool"
	"github.com/fairway-gpu/fairway/sched"
)

// TestAutoscale: a gang that needs two nodes of a pool without any is waited for by two
// pending pods; when an autoscaler, here the test, has added the nodes, the gang runs and
// the pods are gone.
func TestAutoscale(t *testing.T) {
	c, admin := install(t)
	if err := c.Namespace(t.Context(), "elastic"); err != nil {
		t.Fatal(err)
	}
	// What the chart adds to the role with "autoscale".
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "autoscale"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: system, Name: "fairway-operator"}},
	}
	for _, o := range []ctrlclient.Object{role, binding} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	operatorPod(t, admin, "fairway-autoscale")
	labels := map[string]string{"karpenter.sh/nodepool": "elastic"}
	r := startOperator(t, c, "fairway-autoscale", func(c *config) {
		c.Scale.By, c.Scale.Max, c.Scale.Labels, c.Scale.Type, c.Scale.Every = nodepool.ByPods, 5, labels, "NVIDIA-H200", sched.Duration(time.Second)
	})
	eventually(t, "it leads", func() error { return leads(r) })
	job := gang("elastic", "wide", time.Second)
	job.Spec.Template.Spec.NodeSelector = labels
	if err := admin.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	pending := func(want int) func() error {
		return func() error {
			var pods corev1.PodList
			if err := admin.List(t.Context(), &pods, ctrlclient.InNamespace(system), ctrlclient.HasLabels{"fairway.dev/node-to-come"}); err != nil {
				return err
			}
			if len(pods.Items) != want {
				return fmt.Errorf("%d pods stand for nodes to come; want %d", len(pods.Items), want)
			}
			return nil
		}
	}
	eventually(t, "two nodes are asked for", pending(2))
	if err := c.AddNodes(t.Context(), kubetest.NodeSpec{Prefix: "came", Count: 2, GPUs: 8, Type: "NVIDIA-H200", Labels: labels}); err != nil {
		t.Fatal(err)
	}
	waitState(t, admin, job, api.Finished)
	eventually(t, "no more nodes are asked for", pending(0))
}
