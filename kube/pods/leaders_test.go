// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/journal"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/pods"
	"github.com/fairway-gpu/fairway/sched"
)

// TestOldLeader: an operator that another has replaced sees pods of attempts that it does
// not know, one of which has ended a day ago by its clock. It deletes none.
func TestOldLeader(t *testing.T) {
	isOld := false
	var refused, allowed atomic.Int32
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4, Type: "NVIDIA-A100-SXM4-80GB"}, func(c *pods.Config) {
		if !isOld {
			return
		}
		c.Resync = 100 * time.Millisecond
		c.Now = func() time.Time { return time.Now().Add(24 * time.Hour) }
		confirm := c.Confirm
		c.Confirm = func(ctx context.Context) error {
			err := confirm(ctx)
			switch {
			case errors.Is(err, journal.ErrFenced):
				refused.Add(1)
			case err == nil:
				allowed.Add(1)
			}
			return err
		}
	})
	w.stop() // the journal knows the nodes, and the next one need not write
	isOld = true
	w.bootBlind()
	t.Cleanup(w.stop)
	isOld = false
	w.boot()
	ended := w.submit(sched.Spec{GPUs: 1}, nil)
	lasting := w.submit(sched.Spec{GPUs: 2, TaskGPUs: 1}, nil)
	w.plan(wants{ended: {w.on(0, 0b1)}, lasting: {w.on(0, 0b110)}})
	w.wait("pods of both exist", func() bool { return w.Starts(ended) > 0 && w.Starts(lasting) > 0 })
	// Without a word of the new leader, the old one would have deleted them by now.
	w.wait("the old leader has looked at them", func() bool { return refused.Load() > 1 || w.Starts(lasting) > 1 || len(w.of(lasting)) == 0 })
	w.wait("the gang runs", func() bool { return len(w.of(lasting)) == 2 })
	w.End(t, ended, 0)
	w.wait("the new leader knows that one has ended", func() bool { return w.Phase(ended) == sched.Finished })
	before := refused.Load()
	w.wait("the old leader has looked again", func() bool { return refused.Load() > before+1 })
	list := &corev1.PodList{}
	if err := w.client.List(t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp != nil {
			t.Errorf("pod %s is being deleted", p.Name)
		}
	}
	if len(list.Items) != 3 || w.Starts(lasting) != 1 || w.Starts(ended) != 1 || allowed.Load() > 0 {
		t.Errorf("%d pods are left, the jobs started %d and %d times, and the old leader was confirmed %d times; want 3, 1, 1 and 0: %v",
			len(list.Items), w.Starts(ended), w.Starts(lasting), allowed.Load(), w.text())
	}
}
