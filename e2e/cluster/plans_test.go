// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// TestPlans: a job with execution plans has the sizes of its plans, and the pods of each attempt
// are told the one for its GPUs: when it grows, it starts anew under another. The status
// names the plan, and the explanation also says what others would do.
func TestPlans(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"plans"}})
	p := w.operator(t, how{settings: map[string]any{"policy": "gandiva:pack=false:slice=10s:grow_after=1s"}})
	w.user(t, "plans", "trainer")
	gpt := w.object(training{name: "gpt"})
	gpt.Spec.Preemptible, gpt.Spec.Plans = new(true), &v1alpha1.Plans{
		Model: v1alpha1.PlanModel{Parameters: "1.3e9", Layers: 24, Hidden: 2048, Heads: 16, Sequence: 1024, Batch: 64},
		List:  []string{"fsdp2", "tp2", "fsdp4", "fsdp2-tp2"},
	}
	blocker := w.create(t, training{name: "blocker", gpus: allGPUs - 2, perPod: 2})
	w.wait(t, blocker, api.Running)
	if err := w.admin.Create(t.Context(), gpt); err != nil {
		t.Fatal(err)
	}
	// under waits until the job runs under one of some plans, and checks what its pods are told.
	under := func(gpus int, plans ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("it runs under one of %v", plans), func() error {
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(gpt), gpt); err != nil {
				return err
			}
			pods := w.podsOf(t, gpt, gpt.Status.Attempt)
			if gpt.Status.State != api.Running || len(pods) != gpus || !strings.Contains(" "+strings.Join(plans, " ")+" ", " "+gpt.Status.Plan+" ") {
				return fmt.Errorf("it is %s with %d pods under %q", gpt.Status.State, len(pods), gpt.Status.Plan)
			}
			for i := range pods {
				if told := variable(&pods[i], api.PlanVariable); told != gpt.Status.Plan {
					t.Errorf("pod %s is told %q; the plan is %s", pods[i].Name, told, gpt.Status.Plan)
				}
			}
			return nil
		})
	}
	under(2, "fsdp2", "tp2")
	was := gpt.Status.Plan
	w.end(t, blocker)
	under(4, "fsdp4", "fsdp2-tp2")
	x, err := p.dial(t, w.token(t, "plans", "trainer", "fairway", nil)).Explain(t.Context(), sched.JobID(gpt.Status.ID))
	if err != nil || !strings.HasPrefix(x.Plans, gpt.Status.Plan+", ") || !strings.Contains(x.Plans, " would be ") {
		t.Errorf("it is explained as %q (%v); want %s, and the others compared with it", x.Plans, err, gpt.Status.Plan)
	}
	t.Logf("attempt 1 under %s, attempt %d under %s: %s", was, gpt.Status.Attempt, gpt.Status.Plan, x.Plans)
	w.end(t, gpt)
	w.waitAll(t)
	w.account(t)
}

// variable returns the value of a variable of a pod.
func variable(p *corev1.Pod, name string) string {
	for _, v := range p.Spec.Containers[0].Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}
