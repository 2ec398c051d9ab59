// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// TestPriorityClasses: a tenant says which classes its jobs may name, and what they
// stand for.
func TestPriorityClasses(t *testing.T) {
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Spec: v1alpha1.TenantSpec{MaxPriority: 3}}
	listed := []v1alpha1.PriorityClass{{Name: "low", Priority: -5}, {Name: "high", Priority: 10}}
	for _, c := range []struct {
		listed      []v1alpha1.PriorityClass
		class       string
		asked, want int
		refused     string
	}{
		{nil, "high", 0, 0, ""},
		{listed, "high", 0, 10, ""},
		{listed, "high", 2, 2, ""},
		{listed, "system-node-critical", 0, 0, `spec.template.spec.priorityClassName is "system-node-critical"; tenant blue may use low, high`},
	} {
		tenant.Spec.PriorityClasses = c.listed
		s := api.Submission{Spec: sched.Spec{Priority: c.asked}}
		text := ""
		if err := priorityOf(&s, tenant, c.class); err != nil {
			text = err.Error()
		}
		if s.Priority != c.want || text != c.refused {
			t.Errorf("%q of %v: priority %d, %q; want %d, %q", c.class, c.listed, s.Priority, text, c.want, c.refused)
		}
	}
	if got, err := tenantWanted(tenant); err != nil || got.MaxPriority != 10 {
		t.Errorf("tenant %+v, %v; want its jobs to have at most priority 10", got, err)
	}
}
