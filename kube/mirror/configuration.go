// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// policyName is the name of the only SchedulingPolicy that counts.
const policyName = "cluster"

// configure updates the state from the tenants and the policy, before any job is
// reconciled. A faulty object is retried later and does not prevent the start.
func (m *Mirror) configure(ctx context.Context) error {
	keys, err := m.configuration(ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := m.reconcile(ctx, k); err != nil {
			m.queue.AddRateLimited(k)
		}
	}
	return nil
}

// sweepConfiguration enqueues the policy, the tenants and the apps.
func (m *Mirror) sweepConfiguration(ctx context.Context) {
	keys, err := m.configuration(ctx)
	if err != nil {
		m.Log.Warn("sweep", "err", err)
		return
	}
	for _, k := range keys {
		m.queue.Add(k)
	}
	var apps v1alpha1.AppList
	if err := m.Cache.List(ctx, &apps, client.UnsafeDisableDeepCopy); err != nil {
		m.Log.Warn("sweep", "err", err)
		return
	}
	for i := range apps.Items {
		if a := &apps.Items[i]; !api.HasEnded(a.Status.State) {
			m.queue.Add(key{kindApp, a.Namespace, a.Name})
		}
	}
}

// configuration returns the keys of the policy, of all Tenant objects, and of all
// tenants of the state.
func (m *Mirror) configuration(ctx context.Context) ([]key, error) {
	var tenants v1alpha1.TenantList
	if err := m.Cache.List(ctx, &tenants, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	keys := []key{{kind: kindPolicy, name: policyName}}
	for i := range tenants.Items {
		keys = append(keys, key{kind: kindTenant, name: tenants.Items[i].Name})
	}
	known, err := m.State.Tenants(cluster)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	for _, t := range known {
		if k := (key{kind: kindTenant, name: string(t.ID)}); t.ID != "" && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// tenant updates the state from a Tenant object, and the object's status from the
// state.
func (m *Mirror) tenant(ctx context.Context, k key) error {
	var object v1alpha1.Tenant
	err := m.Cache.Get(ctx, client.ObjectKey{Name: k.name}, &object)
	absent := apierrors.IsNotFound(err) || err == nil && object.DeletionTimestamp != nil
	if err != nil && !absent {
		return fmt.Errorf("read tenant: %w", err)
	}
	want := sched.Tenant{ID: sched.TenantID(k.name)}
	if !absent {
		if want, err = tenantWanted(&object); err != nil {
			return m.writeTenant(ctx, &object, api.TenantView{}, err)
		}
	}
	view, known, err := m.tenantView(want.ID)
	if err != nil {
		return err
	}
	if known && !reflect.DeepEqual(view.Tenant, want) || !known && !absent {
		view, err = m.State.SetTenant(ctx, cluster, want)
		m.forgetTenants()
		if err != nil {
			if why, final := refusalOf(err); why != nil && final && !absent {
				return m.writeTenant(ctx, &object, view, why)
			}
			return fmt.Errorf("set tenant: %w", err)
		}
		if err := m.retryRelatives(ctx, k.name, string(want.Parent)); err != nil {
			return err
		}
	}
	if err := m.retryRefused(ctx, k, &object, absent); err != nil || absent {
		return err
	}
	return m.writeTenant(ctx, &object, view, nil)
}

// tenantWanted returns the tenant of an object.
func tenantWanted(object *v1alpha1.Tenant) (sched.Tenant, error) {
	t := sched.Tenant{ID: sched.TenantID(object.Name), Parent: sched.TenantID(object.Spec.Parent), Quota: intOf(object.Spec.Quota), Max: intOf(object.Spec.Max), Borrow: object.Spec.Borrow}
	if err := copyFields(reflect.ValueOf(&t.Terms).Elem(), reflect.ValueOf(&object.Spec).Elem()); err != nil {
		return t, &refusal{"Invalid", "spec." + err.Error()}
	}
	for gpu, n := range object.Spec.MaxByType {
		if t.MaxByType == nil {
			t.MaxByType = map[sched.GPUType]int{}
		}
		t.MaxByType[sched.GPUType(gpu)] = int(n)
	}
	t.MaxCPUs = intOf(object.Spec.MaxCPUs)
	if m := object.Spec.MaxMemory; m != nil {
		if t.MaxMemory = m.Value(); t.MaxMemory <= 0 {
			return t, &refusal{"Invalid", fmt.Sprintf("spec.maxMemory is %s; use a positive amount, or leave it out", m)}
		}
	}
	for _, c := range object.Spec.PriorityClasses { // who may name it may have its priority
		t.MaxPriority = max(t.MaxPriority, int(c.Priority))
	}
	if object.Spec.Quota != nil && *object.Spec.Quota == 0 && !t.Borrow {
		return t, &refusal{"Invalid", "spec.quota is 0, and borrow is false: its jobs could never run; leave quota out, or set borrow to true"}
	}
	if object.Spec.Weight != "" {
		w, err := strconv.ParseFloat(object.Spec.Weight, 64)
		if err != nil || !(w > 0) {
			return t, &refusal{"Invalid", fmt.Sprintf("spec.weight is %q; use a number above 0", object.Spec.Weight)}
		}
		t.Weight = w
	}
	return t, nil
}

// forgetTenants drops the cache of tenantViews.
func (m *Mirror) forgetTenants() {
	m.tenants.Lock()
	defer m.tenants.Unlock()
	m.tenants.at = time.Time{}
}

func (m *Mirror) tenantView(id sched.TenantID) (api.TenantView, bool, error) {
	m.mu.Lock()
	changed := m.changed[id]
	m.mu.Unlock()
	all, err := m.tenantViews(changed)
	if err != nil {
		return api.TenantView{}, false, err
	}
	i := slices.IndexFunc(all, func(t api.TenantView) bool { return t.ID == id })
	if i < 0 {
		return api.TenantView{}, false, nil
	}
	return all[i], true, nil
}

// tenantViews returns all tenants of the state as they were after a time, from a cache
// because every tenant asks for them. That changes of a tenant are collected does not make
// the cache new enough: a change may be collected just before its tenant's turn.
func (m *Mirror) tenantViews(after time.Time) ([]api.TenantView, error) {
	m.tenants.Lock()
	defer m.tenants.Unlock()
	if now := m.Now(); !m.tenants.at.After(after) || now.Sub(m.tenants.at) > tenantAfter/2 {
		list, err := m.State.Tenants(cluster)
		if err != nil {
			return nil, fmt.Errorf("list tenants: %w", err)
		}
		m.tenants.at, m.tenants.list = now, list
	}
	return m.tenants.list, nil
}

// retryRelatives enqueues the tenants that may have been refused because of this one: they
// are below it, or have the same parent.
func (m *Mirror) retryRelatives(ctx context.Context, name, parent string) error {
	var all v1alpha1.TenantList
	if err := m.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list relatives of tenant %s: %w", name, err)
	}
	for i := range all.Items {
		if t := &all.Items[i]; t.Spec.Parent == name || parent != "" && (t.Spec.Parent == parent || t.Name == parent) {
			m.queue.Add(key{kind: kindTenant, name: t.Name})
		}
	}
	return nil
}

// retryRefused enqueues the jobs and apps that were refused for lack of a tenant, which
// may now be this one.
func (m *Mirror) retryRefused(ctx context.Context, k key, object *v1alpha1.Tenant, absent bool) error {
	if !absent && object.Status.ObservedGeneration == object.Generation {
		return nil
	}
	waits := func(conditions []metav1.Condition) bool {
		c := meta.FindStatusCondition(conditions, v1alpha1.Accepted)
		return c != nil && (c.Reason == reasonAmbiguous || c.Reason == reasonNotYours || c.Reason == camel(string(api.Denied)))
	}
	var jobs v1alpha1.TrainingJobList
	var apps v1alpha1.AppList
	for _, list := range []client.ObjectList{&jobs, &apps} {
		if err := m.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list refused objects for tenant %s: %w", k.name, err)
		}
	}
	for i := range jobs.Items {
		if j := &jobs.Items[i]; waits(j.Status.Conditions) {
			m.queue.Add(key{kindTrainingJob, j.Namespace, j.Name})
		}
	}
	for i := range apps.Items {
		if a := &apps.Items[i]; waits(a.Status.Conditions) {
			m.queue.Add(key{kindApp, a.Namespace, a.Name})
		}
	}
	return nil
}

func (m *Mirror) writeTenant(ctx context.Context, object *v1alpha1.Tenant, view api.TenantView, why error) error {
	next := object.DeepCopy()
	s := &next.Status
	if why == nil {
		s.GPUs, s.Running, s.Waiting = int32(view.GPUs), int32(view.Running), int32(view.Waiting)
		s.FairShare, s.Rho = digits(view.Share), digits(view.Rho)
		s.Metrics = v1alpha1.TenantMetrics{FairShare: numberIn(s.FairShare), Rho: numberIn(s.Rho)}
		s.GPUsBelow, s.Standing = int32(view.Below), view.Standing
	}
	s.ObservedGeneration = object.Generation
	accept(&s.Conditions, object.Generation, why, m.Now())
	if equality.Semantic.DeepEqual(&object.Status, s) {
		return nil
	}
	was := &object.Status
	if was.GPUs+was.GPUsBelow != s.GPUs+s.GPUsBelow {
		m.enqueueTenant(sched.TenantID(object.Spec.Parent))
	}
	news := was.ObservedGeneration != object.Generation || why != nil || was.GPUs != s.GPUs || was.GPUsBelow != s.GPUsBelow || was.Standing != s.Standing || was.Running != s.Running || was.Waiting != s.Waiting
	_, err := m.write(ctx, key{kind: kindTenant, name: object.Name}, object, next, news)
	return err
}

// accept sets the condition Accepted.
func accept(conditions *[]metav1.Condition, generation int64, why error, now time.Time) {
	c := metav1.Condition{
		Type: v1alpha1.Accepted, Status: metav1.ConditionTrue, Reason: "InForce", Message: "in force",
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if why != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Invalid", cut(why.Error())
		if r, ok := why.(*refusal); ok {
			c.Reason = r.reason
		}
	}
	meta.SetStatusCondition(conditions, c)
}

// policy updates the state from the SchedulingPolicy. An invalid one leaves the present
// policy in force.
func (m *Mirror) policy(ctx context.Context) error {
	var object v1alpha1.SchedulingPolicy
	err := m.Cache.Get(ctx, client.ObjectKey{Name: policyName}, &object)
	absent := apierrors.IsNotFound(err) || err == nil && object.DeletionTimestamp != nil
	if err != nil && !absent {
		return fmt.Errorf("read scheduling policy: %w", err)
	}
	want := object.Spec.Policy
	if absent {
		want = m.Standard
	}
	now, err := m.State.Policy(cluster)
	if err != nil {
		return fmt.Errorf("read the policy in force: %w", err)
	}
	var why error
	if now != want {
		_, err := m.State.SetPolicy(ctx, cluster, want, false)
		switch refused, _ := refusalOf(err); {
		case err == nil:
			now = want
		case api.CodeOf(err) == api.Unavailable || absent:
			return fmt.Errorf("set policy %s: %w", want, err)
		case refused != nil:
			why = refused
		default:
			why = err
		}
	}
	if err := m.updateSharing(); err != nil || absent {
		return err
	}
	next := object.DeepCopy()
	m.setSharing(&next.Status.Conditions, true, object.Generation, m.Now())
	next.Status.InForce, next.Status.ObservedGeneration = now, object.Generation
	accept(&next.Status.Conditions, object.Generation, why, m.Now())
	if equality.Semantic.DeepEqual(&object.Status, &next.Status) {
		return nil
	}
	_, err = m.write(ctx, key{kind: kindPolicy, name: policyName}, &object, next, true)
	return err
}
