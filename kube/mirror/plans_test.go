// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched/plan"
)

func planned(t *testing.T, names ...string) *plan.Options {
	t.Helper()
	o := &plan.Options{Model: plan.Model{Parameters: 3.3e6, Layers: 4, Hidden: 256, Heads: 4, Sequence: 64, Vocabulary: 100, Batch: 16, Explicit: true}}
	for _, name := range names {
		p, err := plan.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		o.List = append(o.List, p)
	}
	return o
}

// TestPlans: the plans of a job file are those of the object, and of the job that is made from
// it, which has their sizes.
func TestPlans(t *testing.T) {
	s, _ := behind(t, 100)
	want := planned(t, "fsdp2", "fsdp2-tp2/4+recompute")
	jobs, err := s.Submit(t.Context(), ann, []api.Submission{{Task: api.Task{Name: "gpt", Command: []string{"train"}, Plans: want}}})
	if err != nil {
		t.Fatal(err)
	}
	j := jobs[0]
	if diff := cmp.Diff(want, j.Plans); diff != "" || j.GPUs != 2 || j.MinGPUs != 2 || j.MaxGPUs != 4 || len(j.Sizes) != 2 {
		t.Errorf("%d GPUs of %d to %d in sizes %v; plans (-want +got):\n%s", j.GPUs, j.MinGPUs, j.MaxGPUs, j.Sizes, diff)
	}
	o := &v1alpha1.TrainingJob{}
	if err := s.Mirror.Client.Get(t.Context(), client.ObjectKey{Namespace: "red", Name: strings.TrimPrefix(j.Origin, "TrainingJob/red/")}, o); err != nil {
		t.Fatal(err)
	}
	shape := v1alpha1.PlanModel{Parameters: "3300000", Layers: 4, Hidden: 256, Heads: 4, Sequence: 64, Vocabulary: 100, Batch: 16, Explicit: true}
	if diff := cmp.Diff(&v1alpha1.Plans{Model: shape, List: []string{"fsdp2", "fsdp2-tp2/4+recompute"}}, o.Spec.Plans); diff != "" {
		t.Errorf("the object's plans (-want +got):\n%s", diff)
	}
	j.Plan = &want.List[1]
	if got := statusOf(&j, o, time.Now()).Plan; got != "fsdp2-tp2/4+recompute" {
		t.Errorf("the status says %q", got)
	}
	for want, edit := range map[string]func(*v1alpha1.Plans){
		`spec.plans list plan "fsdp2-xp2"; want`: func(p *v1alpha1.Plans) { p.List[1] = "fsdp2-xp2" },
		`spec.plans generator "xp"; want`:        func(p *v1alpha1.Plans) { p.Generate = []string{"xp"} },
	} {
		bad := o.DeepCopy()
		edit(bad.Spec.Plans)
		sub, err := submissionOf(bad)
		if err == nil {
			err = sub.Complete()
		}
		if why, _ := refusalOf(err); why == nil || !strings.Contains(why.message, want) {
			t.Errorf("%v; want it refused: %s", err, want)
		}
	}
	unknown := api.Errorf(api.Unavailable, "no node with GPUs is known").On("plans")
	if why, final := refusalOf(unknown); why == nil || final {
		t.Errorf("without nodes: %v, final %t; want a reason, and another try", why, final)
	}
}
