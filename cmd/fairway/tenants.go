// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/sched"
)

func newTenants() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "tenants",
		Short: "List tenants with their shares, or change one",
		Long: `List tenants: allocated GPUs, share by weight, worst finish-time fairness (rho) of
their apps, and total use since the daemon's first start. A tenant below another is
shown as research/vision; 2+6 GPUs are 2 of its own jobs and 6 of tenants below it.` + exitHelp,
		Example: `  fairway tenants
  fairway tenants set vision --weight 2 --quota 8 --borrow`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			width := widthOf(c.OutOrStdout())
			return query[api.TenantList]{&r,
				func(ctx context.Context, daemon *client.Client) (api.TenantList, error) {
					tenants, err := daemon.Tenants(ctx)
					return api.TenantList{Tenants: tenants}, err
				},
				func(w io.Writer, l api.TenantList) { printTenants(w, l.Tenants, width) },
			}.run(c)
		},
	}
	r.registerJSON(c)
	return group(c, newSetTenant(&r))
}

func newSetTenant(r *remote) *cobra.Command {
	var given sched.Tenant
	var byType string
	var memory daemon.Size
	c := &cobra.Command{
		Use:   "set ID",
		Short: "Create a tenant, or change its share",
		Long: `Create a tenant, or change its share. Settings without a flag keep their value.

  parent    tenant whose share it has a part of: its quota comes out of the parent's, and
            its GPUs count against the parent's bounds
  weight    share relative to other tenants of the same parent
  quota     GPUs that belong to the tenant and those below it
  borrow    may use idle GPUs beyond its quota
  max-gpus  upper bound, borrowed GPUs included

  max-by-type           upper bounds of some types of GPU
  max-cpus, max-memory  upper bounds of what running jobs ask for beside GPUs

Jobs beyond the last three wait in order of priority and submission.

and what its jobs may ask for:

  preemptible      jobs may be stopped before they have shown that they can save their
                   work, unless they say otherwise
  non-preemptible  jobs may ask never to be stopped for others
  max-priority     highest priority of a job
  time-limit       how long a job may run if it does not say
  max-time-limit   longest time limit of a job`,
		Example: `  fairway tenants set vision --weight 2
  fairway tenants set interns --quota 4 --max-gpus 8 --borrow
  fairway tenants set interns --borrow=false
  fairway tenants set vision --parent research --quota 4 --borrow
  fairway tenants set interns --max-by-type h100=0,t4=32
  fairway tenants set interns --max-cpus 64 --max-memory 512GiB
  fairway tenants set interns --preemptible --max-time-limit 1d`,
		Args: exactly(1, "fairway tenants set vision --weight 2"), ValidArgsFunction: r.completeTenants(),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().NFlag() == 0 {
				return usagef("tenants set: nothing to change; use --weight, --quota or another flag")
			}
			bounds, err := boundsOf(byType)
			if err != nil {
				return err
			}
			return query[api.TenantView]{r,
				func(ctx context.Context, daemon *client.Client) (api.TenantView, error) {
					return setTenant(ctx, daemon, func(t *sched.Tenant) {
						changes := map[string]func(){
							"weight": func() { t.Weight = given.Weight }, "quota": func() { t.Quota = given.Quota },
							"borrow": func() { t.Borrow = given.Borrow }, "max-gpus": func() { t.Max = given.Max },
							"parent":      func() { t.Parent = given.Parent },
							"max-by-type": func() { t.MaxByType = bounds },
							"max-cpus":    func() { t.MaxCPUs = given.MaxCPUs }, "max-memory": func() { t.MaxMemory = int64(memory) },
							"preemptible": func() { t.Preemptible = given.Preemptible }, "non-preemptible": func() { t.NonPreemptible = given.NonPreemptible },
							"max-priority": func() { t.MaxPriority = given.MaxPriority }, "time-limit": func() { t.TimeLimit = given.TimeLimit },
							"max-time-limit": func() { t.MaxTimeLimit = given.MaxTimeLimit },
						}
						for flag, change := range changes {
							if c.Flags().Changed(flag) {
								change()
							}
						}
					}, sched.TenantID(args[0]))
				},
				func(w io.Writer, t api.TenantView) { printTenants(w, []api.TenantView{t}, 0) },
			}.run(c)
		},
	}
	fl := c.Flags()
	fl.StringVar((*string)(&given.Parent), "parent", "", "tenant whose share it has a part of; empty: none")
	fl.Float64Var(&given.Weight, "weight", 1, "share relative to other tenants of the same parent")
	fl.IntVar(&given.Quota, "quota", 0, "GPUs that belong to the tenant; 0: no quota")
	fl.BoolVar(&given.Borrow, "borrow", false, "may use idle GPUs beyond its quota")
	fl.IntVar(&given.Max, "max-gpus", 0, "upper bound, borrowed GPUs included; 0: none")
	fl.StringVar(&byType, "max-by-type", "", "upper bounds of some types of GPU, such as h100=8,t4=32; empty: none")
	fl.IntVar(&given.MaxCPUs, "max-cpus", 0, "upper bound of the CPUs that running jobs ask for; 0: none")
	fl.TextVar(&memory, "max-memory", daemon.Size(0), "upper bound of the memory that running jobs ask for, such as 512GiB; 0: none")
	fl.BoolVar(&given.Preemptible, "preemptible", false, "jobs may be stopped before they have shown that they can save their work, unless they say otherwise")
	fl.BoolVar(&given.NonPreemptible, "non-preemptible", false, "jobs may ask never to be stopped for others")
	fl.IntVar(&given.MaxPriority, "max-priority", 0, "highest priority of a job")
	fl.TextVar(&given.TimeLimit, "time-limit", sched.Duration(0), "how long a job may run if it does not say; 0s: no limit")
	fl.TextVar(&given.MaxTimeLimit, "max-time-limit", sched.Duration(0), "longest time limit of a job; 0s: none")
	return c
}

// boundsOf reads bounds by type, such as h100=8,t4=32.
func boundsOf(text string) (map[sched.GPUType]int, error) {
	if text == "" {
		return nil, nil
	}
	out := map[sched.GPUType]int{}
	for _, part := range strings.Split(text, ",") {
		gpu, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		if _, twice := out[sched.GPUType(gpu)]; err != nil || gpu == "" || twice {
			return nil, usagef("--max-by-type has %.40q; want types with numbers of GPUs, each once, such as h100=8,t4=32", part)
		}
		out[sched.GPUType(gpu)] = n
	}
	return out, nil
}

// setTenant changes a tenant as it is now.
func setTenant(ctx context.Context, daemon *client.Client, change func(*sched.Tenant), id sched.TenantID) (api.TenantView, error) {
	all, err := daemon.Tenants(ctx)
	if err != nil {
		return api.TenantView{}, err
	}
	t := sched.Tenant{ID: id}
	for _, have := range all {
		if have.ID == id {
			t = have.Tenant
		}
	}
	change(&t)
	if err := t.Validate(); err != nil {
		return api.TenantView{}, usageError{err}
	}
	return daemon.SetTenant(ctx, t)
}

func printTenants(w io.Writer, tenants []api.TenantView, width int) {
	tenants = slices.Clone(tenants)
	slices.SortStableFunc(tenants, func(a, b api.TenantView) int {
		return slices.Compare(strings.Split(tenantName(a), "/"), strings.Split(tenantName(b), "/"))
	})
	g := grid{right: []bool{false, true, true, true, true, true, true, true, true, true}}
	g.add("TENANT", "WEIGHT", "SHARE", "QUOTA", "MAX", "ALLOC", "RUNNING", "WAITING", "RHO", "GPU-HOURS", "BORROWS")
	for _, t := range tenants {
		borrows := "no"
		switch {
		case t.Quota == 0:
			borrows = "-"
		case t.Borrow:
			borrows = "yes"
		}
		g.add(orDash(tenantName(t)), number(t.Tenant.Share()), fmt.Sprintf("%.1f", t.Share), positive(t.Quota, fmt.Sprint(t.Quota)),
			positive(t.Max, fmt.Sprint(t.Max)), allocated(t), fmt.Sprint(t.Running), fmt.Sprint(t.Waiting),
			rhoText(t.Rho), fmt.Sprintf("%.1f", t.GPUTime/3600), borrows)
	}
	g.print(w, "", width)
	for _, t := range tenants {
		if t.Standing != "" {
			fmt.Fprintln(w, clean(t.Standing))
		}
		for _, gpu := range slices.Sorted(maps.Keys(t.MaxByType)) {
			fmt.Fprintf(w, "%s: at most %s of type %s\n", orDash(tenantName(t)), several(t.MaxByType[gpu], "GPU"), clean(string(gpu)))
		}
		for _, x := range sched.Besides {
			if most := x.Most(t.Tenant); most > 0 {
				fmt.Fprintf(w, "%s: at most %s %s\n", orDash(tenantName(t)), x.Amount(most), x)
			}
		}
		if text := termsText(t.Terms); text != "" {
			fmt.Fprintf(w, "%s: %s\n", orDash(string(t.ID)), text)
		}
	}
}

// tenantName returns the name of a tenant with those above it.
func tenantName(t api.TenantView) string { return cmp.Or(t.Path, string(t.ID)) }

// allocated prints the GPUs that a tenant holds, and those of tenants below it.
func allocated(t api.TenantView) string {
	if t.Below == 0 {
		return fmt.Sprint(t.GPUs)
	}
	return fmt.Sprintf("%d+%d", t.GPUs, t.Below)
}

// termsText says what the jobs of a tenant may ask for, where it differs from the
// defaults.
func termsText(t sched.Terms) string {
	var parts []string
	if t.Preemptible {
		parts = append(parts, "jobs are preemptible by default")
	}
	if t.NonPreemptible {
		parts = append(parts, "jobs may be non-preemptible")
	}
	if t.MaxPriority > 0 {
		parts = append(parts, fmt.Sprintf("priority up to %d", t.MaxPriority))
	}
	if t.TimeLimit > 0 {
		parts = append(parts, "time limit "+t.TimeLimit.String()+" by default")
	}
	if t.MaxTimeLimit > 0 {
		parts = append(parts, "time limit at most "+t.MaxTimeLimit.String())
	}
	return strings.Join(parts, ", ")
}
