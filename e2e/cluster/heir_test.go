// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestLeaderKilled: with the lease that operators have by default, a killed leader is
// replaced after seconds, and one that is asked to stop hands over. How long it took is
// printed and not judged: this machine may stand still for as long, and then a leader may
// also step down by itself.
func TestLeaderKilled(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"killed-once"}})
	standard := map[string]any{"leader": map[string]any{}}
	started := 0
	another := func() *running {
		started++
		return w.standby(t, how{name: fmt.Sprintf("heir-%d", started), settings: standard})
	}
	// succeed waits until an operator leads, and starts another if this one ends.
	succeed := func(p *running) *running {
		eventually(t, "an operator leads", func() error {
			if !p.Running() {
				t.Logf("%s ended by itself", p.file)
				p = another()
			}
			if !p.leads() {
				return fmt.Errorf("its log ends: %s", p.Tail(3))
			}
			return nil
		})
		return p
	}
	leader := succeed(another())
	job := w.create(t, training{name: "through", gpus: 8, perPod: 4})
	w.wait(t, job, api.Running)
	for _, end := range []string{"killed", "stopped", "killed"} {
		next := another()
		eventually(t, "it is ready to lead", func() error {
			if next.Running() && !strings.Contains(next.log(), `"msg":"ready to lead"`) {
				return fmt.Errorf("its log ends: %s", next.Tail(3))
			}
			return nil
		})
		alone := leader.Running() && !next.leads()
		from := time.Now()
		if end == "killed" {
			leader.Kill()
		} else {
			leader.Stop(patience)
		}
		leader = succeed(next)
		if took := time.Since(from).Round(10 * time.Millisecond); alone && leader == next {
			t.Logf("the leader was %s; the next one led after %v", end, took)
		} else {
			t.Logf("the leader was to be %s, but lost its lease before that", end)
		}
	}
	leader.Kill()
	w.operator(t, how{})
	w.end(t, job)
	w.waitAll(t)
	w.account(t)
	if job.Status.Attempt != 1 {
		t.Errorf("the job was started %d times; want once", job.Status.Attempt)
	}
}
