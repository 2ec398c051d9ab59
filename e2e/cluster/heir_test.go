// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
)

// TestHeirKnowsNodes: while no operator leads, the nodes are cordoned and the quota
// that a job waits for becomes free. The next leader's journal has the nodes as they
// were, but it must start nothing on that basis.
func TestHeirKnowsNodes(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"heir"}})
	first := w.operator(t, how{})
	w.tenant(t, "team", 8)
	holder := w.create(t, training{name: "holder", gpus: 8})
	w.wait(t, holder, api.Running)
	heir := w.create(t, training{name: "heir", gpus: 8})
	w.wait(t, heir, api.Waiting)
	first.Kill()
	t.Cleanup(func() { w.cordon(t, false) })
	w.cordon(t, true)
	w.end(t, holder)
	w.operator(t, how{})
	w.wait(t, holder, api.Finished)
	eventually(t, "it waits for nodes", func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(heir), heir); err != nil {
			return err
		}
		if !strings.Contains(heir.Status.Why, "0 are free in the cluster") && heir.Status.Attempt == 0 {
			return fmt.Errorf("it is %q: %q", heir.Status.State, heir.Status.Why)
		}
		return nil
	})
	if heir.Status.Attempt != 0 {
		t.Errorf("it was started %d times while every node was cordoned", heir.Status.Attempt)
	}
	w.cordon(t, false)
	w.end(t, heir)
	w.waitAll(t)
	w.account(t)
}

// cordon cordons or uncordons all nodes.
func (w *world) cordon(t *testing.T, closed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // it is also called at the test's end
	defer cancel()
	var nodes corev1.NodeList
	if err := w.admin.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, closed))
	for i := range nodes.Items {
		if err := w.admin.Patch(ctx, &nodes.Items[i], patch); err != nil {
			t.Fatal(err)
		}
	}
}
