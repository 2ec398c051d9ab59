// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// refusal says why an object is not accepted.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

// Reasons for refusals that come from the mirror, not from the state.
const (
	reasonAmbiguous = "AmbiguousTenant"
	reasonNotYours  = "NotYourTenant"
	reasonSuspended = "Suspended"
	reasonDepends   = "WaitsForJobs"
)

// tenantOf returns the tenant whose quota an object uses: the one that lists the
// namespace or, of several, the one that the object names. A namespace that no tenant
// lists is a tenant of its own, without a quota, unless another tenant has its name.
func tenantOf(tenants []v1alpha1.Tenant, namespace, asked string) (sched.TenantID, error) {
	var mine []string
	taken := false
	for i := range tenants {
		t := &tenants[i]
		if slices.Contains(t.Spec.Namespaces, namespace) {
			mine = append(mine, t.Name)
		}
		taken = taken || t.Name == namespace
	}
	slices.Sort(mine)
	switch {
	case asked != "" && (slices.Contains(mine, asked) || len(mine) == 0 && asked == namespace && !taken):
		return sched.TenantID(asked), nil
	case asked != "":
		return "", &refusal{reasonNotYours, fmt.Sprintf("spec.tenant is %q, and namespace %s belongs to %s; leave it out, or have an administrator add the namespace to spec.namespaces of that Tenant", asked, namespace, oneOf(mine))}
	case len(mine) == 1:
		return sched.TenantID(mine[0]), nil
	case len(mine) > 1:
		return "", &refusal{reasonAmbiguous, fmt.Sprintf("namespace %s belongs to %s; name one of them in spec.tenant", namespace, oneOf(mine))}
	case taken:
		return "", &refusal{reasonNotYours, fmt.Sprintf("namespace %s belongs to no tenant, and the Tenant of that name does not list it; have an administrator add it to spec.namespaces of a Tenant", namespace)}
	}
	return sched.TenantID(namespace), nil
}

func oneOf(names []string) string {
	if len(names) == 0 {
		return "no tenant"
	}
	return "tenant " + strings.Join(names, " and ")
}
