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

// refusal is why an object is not accepted.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

// Reasons of refusals that the state knows nothing of.
const (
	reasonAmbiguous = "AmbiguousTenant"
	reasonNotYours  = "NotYourTenant"
	reasonSuspended = "Suspended"
)

// tenantOf returns whose quota an object of a namespace uses: the tenant that names
// the namespace, or of several the one that was asked for. A namespace that no
// tenant names is a tenant of its own without a quota, unless that is the name of
// somebody else.
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
		return "", &refusal{reasonAmbiguous, fmt.Sprintf("namespace %s belongs to %s; say in spec.tenant which it is", namespace, oneOf(mine))}
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
