// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// TenantObjects implements Tenants by the Tenant objects of the cluster. A
// namespace that none of them lists is its own tenant, of the same name.
type TenantObjects struct {
	// Reader should read from a cache.
	Reader client.Reader
}

var _ Tenants = TenantObjects{}

func (t TenantObjects) list(ctx context.Context) ([]v1alpha1.Tenant, error) {
	var list v1alpha1.TenantList
	if err := t.Reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Tenant) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list.Items, nil
}

// Of implements Tenants.
func (t TenantObjects) Of(ctx context.Context, namespace string) ([]sched.TenantID, error) {
	all, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	var out []sched.TenantID
	taken := false // another tenant has the namespace's name
	for _, x := range all {
		if slices.Contains(x.Spec.Namespaces, namespace) {
			out = append(out, sched.TenantID(x.Name))
		}
		taken = taken || x.Name == namespace
	}
	if len(out) == 0 && !taken {
		out = append(out, sched.TenantID(namespace))
	}
	return out, nil
}

// Namespaces implements Tenants.
func (t TenantObjects) Namespaces(ctx context.Context, tenant sched.TenantID) ([]string, error) {
	all, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		if x.Name == string(tenant) {
			return x.Spec.Namespaces, nil
		}
	}
	return []string{string(tenant)}, nil
}

// All implements Tenants.
func (t TenantObjects) All(ctx context.Context) ([]sched.TenantID, error) {
	all, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]sched.TenantID, 0, len(all))
	for _, x := range all {
		out = append(out, sched.TenantID(x.Name))
	}
	return out, nil
}
