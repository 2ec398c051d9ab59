// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// prioritise gives a job the priority of the PriorityClass that its pods name, if its
// tenant lists classes.
func (m *Mirror) prioritise(ctx context.Context, s *api.Submission, class string) error {
	if class == "" {
		return nil
	}
	var tenant v1alpha1.Tenant
	if err := m.Cache.Get(ctx, client.ObjectKey{Name: string(s.Tenant)}, &tenant); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // a namespace without a Tenant
		}
		return fmt.Errorf("read tenant: %w", err)
	}
	return priorityOf(s, &tenant, class)
}

func priorityOf(s *api.Submission, tenant *v1alpha1.Tenant, class string) error {
	var names []string
	for _, c := range tenant.Spec.PriorityClasses {
		if c.Name == class {
			s.Priority = cmp.Or(s.Priority, int(c.Priority))
			return nil
		}
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return nil
	}
	return &refusal{camel(string(api.Denied)), fmt.Sprintf("spec.template.spec.priorityClassName is %q; tenant %s may use %s", class, tenant.Name, strings.Join(names, ", "))}
}
