// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

// jobOrder returns how a listing is sorted; the newer of equal jobs goes first, so no
// two jobs are equal. What it returns is called under the lock.
func (b *Store) jobOrder(by string) (func(a, c *entry) int, error) {
	newest := func(a, c *entry) int { return comparePlaces(c, a) }
	name, down := strings.CutPrefix(by, "-")
	var order func(a, c *entry) int
	switch name {
	case "":
		return newest, nil
	case "submitted":
		order = comparePlaces
	case "name":
		called := func(x *entry) string { return cmp.Or(x.Task.Name, string(x.Job.ID)) }
		order = func(a, c *entry) int { return cmp.Compare(called(a), called(c)) }
	case "user":
		order = func(a, c *entry) int { return cmp.Compare(a.Job.User, c.Job.User) }
	case "tenant":
		order = func(a, c *entry) int { return cmp.Compare(a.Job.Tenant, c.Job.Tenant) }
	case "state":
		order = func(a, c *entry) int { return cmp.Compare(b.stateOf(a), b.stateOf(c)) }
	case "gpus":
		held := func(x *entry) int { return cmp.Or(x.Job.Placement.GPUs(), x.Job.GPUs) }
		order = func(a, c *entry) int { return cmp.Compare(held(a), held(c)) }
	case "gpu_hours":
		now := b.now() // one moment for all, or the order would not be one
		order = func(a, c *entry) int { return cmp.Compare(a.Job.AttainedBy(now), c.Job.AttainedBy(now)) }
	default:
		return nil, api.Errorf(api.Invalid, "is %.40q", by).On("sort").Try("use " + strings.Join(api.JobOrders(), ", "))
	}
	return func(a, c *entry) int {
		d := order(a, c)
		if down {
			d = -d
		}
		return cmp.Or(d, newest(a, c))
	}, nil
}
