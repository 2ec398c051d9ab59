// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// tenantNode is a tenant in the tree of all. Its numbers are those of the tenant and all
// below it, in GPUs.
type tenantNode struct {
	ID       sched.TenantID `json:"id"`
	Share    float64        `json:"share"`           // by weight, among tenants with jobs
	Quota    int            `json:"quota,omitempty"` // none: unbounded
	Used     int            `json:"used"`
	Borrowed int            `json:"borrowed"` // beyond what it owns
	Below    []tenantNode   `json:"tenants,omitempty"`
}

// treeOf returns the tenants by their parents. It is empty if no tenant has a quota or a
// parent: then there is nothing that "fairway tenants" would not say better.
func treeOf(list []api.TenantView) []tenantNode {
	known := map[sched.TenantID]bool{}
	told := false
	for _, t := range list {
		known[t.ID] = true
		told = told || t.Quota > 0 || t.Parent != ""
	}
	if !told {
		return nil
	}
	children := map[sched.TenantID][]api.TenantView{}
	for _, t := range list {
		parent := t.Parent
		if t.Path == "" || !known[parent] { // it has none, or one that the caller may not see
			parent = ""
		}
		children[parent] = append(children[parent], t)
	}
	return below(children, "")
}

func below(children map[sched.TenantID][]api.TenantView, parent sched.TenantID) (out []tenantNode) {
	for _, t := range children[parent] {
		n := tenantNode{ID: t.ID, Share: t.Share, Quota: t.Quota, Used: t.GPUs + t.Below, Borrowed: t.Borrowed}
		if t.ID != "" {
			n.Below = below(children, t.ID)
		}
		for _, b := range n.Below {
			n.Share += b.Share
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b tenantNode) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// addTenants adds a line for each tenant, indented by its depth.
func addTenants(g *grid, list []tenantNode, indent string) {
	for _, t := range list {
		g.add(indent+orDash(clean(string(t.ID))), fmt.Sprintf("%.1f", t.Share), positive(t.Quota, fmt.Sprint(t.Quota)), fmt.Sprint(t.Used), positive(t.Borrowed, fmt.Sprint(t.Borrowed)))
		addTenants(g, t.Below, indent+"  ")
	}
}
