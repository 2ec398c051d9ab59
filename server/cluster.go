// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func overview(c *call) (any, error) {
	o, err := c.Cluster.Overview(c.who)
	o.Version, o.Warnings = c.Version, append(o.Warnings, c.Warnings...)
	if c.Deliveries != nil && c.who.Role == api.Admin {
		o.Deliveries = c.Deliveries()
	}
	return o, err
}

func listNodes(c *call) (any, error) {
	nodes, err := c.Cluster.Nodes(c.who)
	return api.NodeList{Nodes: list(nodes)}, err
}

func setNode(c *call) (any, error) {
	var state sched.NodeState
	switch v := c.body.(*api.NodeChange).State; v {
	case "ready":
		state = sched.Ready
	case "cordoned":
		state = sched.Cordoned
	default:
		return nil, api.Errorf(api.Invalid, "is %.40q", v).On("state").Try("use ready or cordoned")
	}
	return c.Cluster.SetNode(c.r.Context(), c.who, c.r.PathValue("name"), state)
}

func acknowledgeDamage(c *call) (any, error) {
	known, err := c.Cluster.AcknowledgeDamage(c.r.Context(), c.who)
	return api.DamageList{Damages: list(known)}, err
}

func listTenants(c *call) (any, error) {
	tenants, err := c.Cluster.Tenants(c.who)
	return api.TenantList{Tenants: list(tenants)}, err
}

func setTenant(c *call) (any, error) {
	t := *c.body.(*sched.Tenant)
	id := sched.TenantID(c.r.PathValue("id"))
	if t.ID != "" && t.ID != id {
		return nil, api.Errorf(api.Invalid, "is %.60q, and the path says %.60q", t.ID, id).On("id").Try("leave it out")
	}
	t.ID = id
	if err := t.Validate(); err != nil {
		return nil, api.Errorf(api.Invalid, "%w", err)
	}
	return c.Cluster.SetTenant(c.r.Context(), c.who, t)
}

func showPolicy(c *call) (any, error) {
	spec, err := c.Cluster.Policy(c.who)
	return api.PolicySpec{Policy: spec}, err
}

func setPolicy(c *call) (any, error) {
	p := c.body.(*api.PolicySwitch)
	if p.Policy == "" {
		return nil, api.Errorf(api.Invalid, "is empty").On("policy").Try("name a policy; GET /v1/policies lists them")
	}
	change, err := c.Cluster.SetPolicy(c.r.Context(), c.who, p.Policy, p.DryRun)
	change.Actions = list(change.Actions)
	return change, err
}

func listPolicies(c *call) (any, error) { return api.PolicyList{Policies: list(c.Policies)}, nil }
