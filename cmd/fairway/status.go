// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newStatus() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the daemon's status: GPUs, jobs, policy, tenants, problems, warnings",
		Long: `Show the daemon's status. Tenants with a quota or a parent are shown as a tree: the GPUs
that each, with those below it, would have by weight (SHARE), owns (QUOTA), holds (USED), and
holds beyond its quota (BORROWED). The exit code is 1 if no daemon answers or the daemon
reports a problem.`,
		Example: `  fairway status
  fairway status --json
  fairway status --address https://gpu-1:8460`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			var problem string
			err := query[status]{&r,
				func(ctx context.Context, daemon *client.Client) (status, error) {
					o, err := daemon.Overview(ctx)
					if err != nil {
						return status{}, err
					}
					problem = o.Problem
					tenants, err := daemon.Tenants(ctx)
					return status{o, treeOf(tenants)}, err
				},
				printStatus,
			}.run(c)
			if err == nil && problem != "" {
				err = errors.New("the daemon reports a problem")
			}
			return err
		},
	}
	r.registerJSON(c)
	return c
}

// status is what "fairway status" answers.
type status struct {
	api.Overview
	Tenants []tenantNode `json:"tenants,omitempty"`
}

func printStatus(w io.Writer, s status) {
	printOverview(w, s.Overview)
	if len(s.Tenants) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := grid{right: []bool{false, true, true, true, true}}
	g.add("TENANT", "SHARE", "QUOTA", "USED", "BORROWED")
	addTenants(&g, s.Tenants, "")
	g.print(w, "", 0)
}

func printOverview(w io.Writer, o api.Overview) {
	var g grid
	if o.Version != "" { // daemons before 0.2 do not say
		g.add("version", clean(o.Version))
	}
	g.add("policy", clean(o.Policy))
	g.add("GPUs", fmt.Sprintf("%d of %d allocated", o.Held, o.GPUs))
	g.add("jobs", fmt.Sprintf("%d running, %d waiting, %d paused", o.Running, o.Waiting, o.Paused))
	g.add("ended", fmt.Sprintf("%d finished, %d failed, %d cancelled", o.Finished, o.Failed, o.Cancelled))
	decisions := "none yet"
	if o.Decisions > 0 {
		decisions = fmt.Sprintf("%d, the last took %.1f ms", o.Decisions, o.LastMS)
	}
	g.add("decisions", decisions)
	g.add("up since", fmt.Sprintf("%s (%s)", clock(o.Now.Local(), o.Started), sched.Brief(o.Now.Sub(o.Started))))
	if o.Problem != "" {
		g.add("problem", clean(o.Problem))
	}
	for _, warning := range o.Warnings {
		g.add("warning", clean(warning))
	}
	for _, d := range o.Deliveries {
		if text := deliveryText(d); text != "" {
			g.add("notify", text)
		}
	}
	g.print(w, "", 0)
}

// deliveryText says what is wrong with a target of notifications; empty: nothing.
func deliveryText(d api.Delivery) string {
	var parts []string
	if d.Error != "" {
		parts = append(parts, fmt.Sprintf("%s, last: %s", several(int(d.Failed), "failure"), clean(d.Error)))
	}
	if d.Lost > 0 {
		parts = append(parts, several(int(d.Lost), "notice")+" given up")
	}
	if len(parts) == 0 {
		return ""
	}
	return clean(d.Target) + ": " + strings.Join(parts, "; ")
}

func newWhoami() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use: "whoami", Short: "Show the user, role and tenant the daemon sees you as",
		Long: `Say who the daemon takes you for. Through the socket it knows the user of the
operating system; over TCP it goes by the token.` + exitHelp,
		Example: "  fairway whoami",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return query[api.Identity]{&r,
				func(ctx context.Context, daemon *client.Client) (api.Identity, error) { return daemon.Whoami(ctx) },
				func(w io.Writer, i api.Identity) {
					fmt.Fprintf(w, "%s, role %s, tenant %s\n", orDash(i.User), i.Role, orDash(string(i.Tenant)))
				},
			}.run(c)
		},
	}
	r.registerJSON(c)
	return c
}

func newDashboard() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use: "dashboard", Short: "Print a link that logs your browser in to the dashboard",
		Long: `Print a link that logs a browser in to the dashboard, as the user that "fairway
whoami" shows. It works once, within ten minutes.` + exitHelp,
		Example: "  fairway dashboard",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return query[api.LoginLink]{&r,
				func(ctx context.Context, daemon *client.Client) (api.LoginLink, error) { return daemon.LoginLink(ctx) },
				func(w io.Writer, l api.LoginLink) { fmt.Fprintln(w, clean(l.URL)) },
			}.run(c)
		},
	}
	r.registerJSON(c)
	return c
}
