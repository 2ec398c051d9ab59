// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// setQuota changes a tenant's quota.
func (w *world) setQuota(t *testing.T, name string, quota int32) {
	t.Helper()
	eventually(t, "set quota", func() error {
		var tenant v1alpha1.Tenant
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: name}, &tenant); err != nil {
			return err
		}
		tenant.Spec.Quota, tenant.Spec.Max = &quota, &quota
		return w.admin.Update(t.Context(), &tenant)
	})
}

// tenant creates a tenant with the first namespace, and waits until it is in force.
func (w *world) tenant(t *testing.T, name string, quota int32) *v1alpha1.Tenant {
	t.Helper()
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TenantSpec{Namespaces: w.namespaces[:1], Quota: &quota, Max: &quota}}
	if err := w.admin.Create(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant is in force", func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(tenant.Status.Conditions, v1alpha1.Accepted) {
			return fmt.Errorf("its conditions are %v", tenant.Status.Conditions)
		}
		return nil
	})
	return tenant
}

// TestQuotaChanges: a tenant's quota grows, shrinks below what it uses, and goes away,
// while its jobs run.
func TestQuotaChanges(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"quota"}})
	w.operator(t, how{})
	tenant := w.tenant(t, "team", 16)
	var jobs []*v1alpha1.TrainingJob
	for i, state := range []string{api.Running, api.Running, api.Waiting} { // each is in before the next comes
		jobs = append(jobs, w.create(t, training{name: fmt.Sprintf("job-%d", i), gpus: 8}))
		w.wait(t, jobs[i], state)
	}
	if why := jobs[2].Status.Why; !strings.Contains(why, "tenant") {
		t.Errorf("the third waits because %q; want its tenant named", why)
	}
	w.setQuota(t, "team", 24)
	w.wait(t, jobs[2], api.Running)
	from := time.Now()
	eventually(t, "the tenant's status counts it", func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant); err != nil {
			return err
		}
		if tenant.Status.GPUs != 24 || tenant.Status.Running != 3 || tenant.Status.Waiting != 0 {
			return fmt.Errorf("it has %d GPUs, %d jobs that run and %d that wait", tenant.Status.GPUs, tenant.Status.Running, tenant.Status.Waiting)
		}
		return nil
	})
	t.Logf("the tenant's status followed %v after the job ran", time.Since(from).Round(10*time.Millisecond))
	w.setQuota(t, "team", 8)
	late := w.create(t, training{name: "late", gpus: 8, runFor: time.Second})
	w.wait(t, late, api.Waiting)
	for _, j := range jobs {
		w.wait(t, j, api.Running, api.Finished)
		if j.Status.Attempt != 1 {
			t.Errorf("job %s was started %d times; want 1: a smaller quota stops nobody under this policy", j.Name, j.Status.Attempt)
		}
	}
	if err := w.admin.Delete(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	w.wait(t, late, api.Running, api.Finished) // without a quota there is room at once
	free := w.create(t, training{name: "free", gpus: 32, runFor: time.Second})
	w.wait(t, free, api.Finished)
	if free.Status.Tenant != "quota" {
		t.Errorf("it belongs to tenant %q; want that of its namespace", free.Status.Tenant)
	}
	for _, j := range jobs {
		w.end(t, j)
	}
	w.waitAll(t)
	w.account(t)
}

// TestPolicyChanges: the policy is changed while jobs come and go. An invalid one is
// refused, and leaves the present one in force.
func TestPolicyChanges(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"policy"}})
	w.operator(t, how{})
	load, stop := w.arrive(t, 9, 400*time.Millisecond)
	object := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.SchedulingPolicySpec{Policy: "las"}}
	if err := w.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ spec, inForce string }{
		{"las", "las"}, {"tiresias", "tiresias"}, {"no-such-policy", "tiresias"}, {"themis", "themis"}, {"fifo", "fifo"},
	} {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"policy":%q}}`, x.spec))
		if err := w.admin.Patch(t.Context(), object, patch); err != nil {
			t.Fatal(err)
		}
		generation := object.Generation
		eventually(t, "policy "+x.spec, func() error {
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if object.Status.ObservedGeneration != generation || object.Status.InForce != x.inForce {
				return fmt.Errorf("%q is in force at generation %d; want %q at %d", object.Status.InForce, object.Status.ObservedGeneration, x.inForce, generation)
			}
			if ok := meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.Accepted); ok != (x.spec == x.inForce) {
				return fmt.Errorf("accepted: %v", ok)
			}
			return nil
		})
		time.Sleep(1500 * time.Millisecond)
	}
	stop()
	w.checkLoad(t, load)
}
