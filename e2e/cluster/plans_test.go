// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
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
	w.under(t, gpt, 2, "fsdp2", "tp2")
	was := gpt.Status.Plan
	w.end(t, blocker)
	w.under(t, gpt, 4, "fsdp4", "fsdp2-tp2")
	x, err := p.dial(t, w.token(t, "plans", "trainer", "fairway", nil)).Explain(t.Context(), sched.JobID(gpt.Status.ID))
	if err != nil || !strings.HasPrefix(x.Plans, gpt.Status.Plan+", ") || !strings.Contains(x.Plans, " would be ") {
		t.Errorf("it is explained as %q (%v); want %s, and the others compared with it", x.Plans, err, gpt.Status.Plan)
	}
	t.Logf("attempt 1 under %s, attempt %d under %s: %s", was, gpt.Status.Attempt, gpt.Status.Plan, x.Plans)
	w.end(t, gpt)
	w.waitAll(t)
	w.account(t)
}

// TestAnotherPlan: when its steps turn out to compute for so long that replicas would lose less
// than halves of layers do, a job starts anew under another plan on the GPUs that it has. The
// pods of the new attempt are told that plan; those of the old one are gone.
func TestAnotherPlan(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"another-plan"}})
	p := w.operator(t, how{})
	gpt := w.object(training{name: "gpt"})
	gpt.Spec.Preemptible, gpt.Spec.Plans = new(true), &v1alpha1.Plans{
		Model: v1alpha1.PlanModel{Parameters: "1.3e9", Layers: 24, Hidden: 2048, Heads: 16, Sequence: 16, Batch: 64},
		List:  []string{"fsdp2", "tp2"},
	}
	if err := w.admin.Create(t.Context(), gpt); err != nil {
		t.Fatal(err)
	}
	w.under(t, gpt, 2, "tp2")
	at := w.nodesOf(t, gpt, 1)
	const slow = `{"done": 64, "work": 6400000, "rate": 1, "can": "resizes", "training": {"limits": {"initial": 64, "max": 64, "local_min": 1, "local_max": 64},
		"fixed": 64, "samples": [{"nodes": 1, "gpus": 2, "local": 32, "step": 60, "count": 10}]}}`
	if got := p.report(t, w.token(t, gpt.Namespace, "default", "fairway-agents", &w.podsOf(t, gpt, 1)[0]), slow); got != http.StatusOK {
		t.Fatalf("the report of slow steps: %d; want 200", got)
	}
	w.under(t, gpt, 2, "fsdp2")
	if now := w.nodesOf(t, gpt, 2); !maps.Equal(now, at) {
		t.Errorf("attempt 2 of %d is on %v; want %v, as the one before", gpt.Status.Attempt, now, at)
	}
	if old := w.podsOf(t, gpt, 1); len(old) > 0 {
		t.Errorf("%d pods of the first attempt are beside those of the second", len(old))
	}
	w.end(t, gpt)
	w.waitAll(t)
	w.account(t)
}

// under waits until a job runs under one of some plans, and checks what its pods are told.
func (w *world) under(t *testing.T, job *v1alpha1.TrainingJob, gpus int, plans ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("it runs under one of %v", plans), func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		pods := w.podsOf(t, job, job.Status.Attempt)
		if job.Status.State != api.Running || len(pods) != gpus || !slices.Contains(plans, job.Status.Plan) {
			return fmt.Errorf("it is %s with %d pods under %q", job.Status.State, len(pods), job.Status.Plan)
		}
		for i := range pods {
			if told := variable(&pods[i], api.PlanVariable); told != job.Status.Plan {
				t.Errorf("pod %s is told %q; the plan is %s", pods[i].Name, told, job.Status.Plan)
			}
		}
		return nil
	})
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
