// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
)

func newPolicy() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show or switch the daemon's policy",
		Long: `Show or switch the policy of a running daemon. Policies are named as in the
simulator, with variants and knobs after colons. See "fairway policies" for what
each policy does.` + exitHelp,
		Example: `  fairway policy get
  fairway policy set tiresias:gittins --dry-run
  fairway policy set pollux
  fairway policy list`,
	}
	r.registerJSON(c)
	return group(c, newPolicyGet(&r), newPolicySet(&r), newPolicyList(&r))
}

func newPolicyGet(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "get", Short: "Print the current policy", Example: "  fairway policy get", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return query[api.PolicySpec]{r,
				func(ctx context.Context, daemon *client.Client) (api.PolicySpec, error) {
					spec, err := daemon.Policy(ctx)
					return api.PolicySpec{Policy: spec}, err
				},
				func(w io.Writer, p api.PolicySpec) { fmt.Fprintln(w, clean(p.Policy)) },
			}.run(c)
		},
	}
}

func newPolicySet(r *remote) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "set SPEC",
		Short: "Switch the policy, or preview the change",
		Long: `Switch the policy of a running daemon. With --dry-run nothing is switched: the
command prints what the new policy would do right now.`,
		Example: `  fairway policy set tiresias:gittins --dry-run
  fairway policy set las:lease=10m`,
		Args: exactly(1, "fairway policy set pollux"), ValidArgsFunction: completePolicy,
		RunE: func(c *cobra.Command, args []string) error {
			return query[api.PolicyChange]{r,
				func(ctx context.Context, daemon *client.Client) (api.PolicyChange, error) {
					return daemon.SetPolicy(ctx, args[0], dryRun)
				},
				printChange,
			}.run(c)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change without switching")
	return c
}

// printChange prints what a switch does, or would do.
func printChange(w io.Writer, p api.PolicyChange) {
	const most = 20
	happens := fmt.Sprintf("start %s, stop %d and move %d right away", several(p.Starts, "job"), p.Stops, p.Moves)
	if p.Starts+p.Stops+p.Moves == 0 {
		happens = "not start, stop or move any job right away"
	}
	if p.DryRun {
		fmt.Fprintf(w, "%s instead of %s would %s (dry run)\n", clean(p.To), clean(p.From), happens)
	} else {
		fmt.Fprintf(w, "switched from %[2]s to %[1]s, which will %[3]s\n", clean(p.To), clean(p.From), happens)
	}
	for i, a := range p.Actions {
		if i == most {
			fmt.Fprintf(w, "  … and %d more\n", len(p.Actions)-most)
			break
		}
		fmt.Fprintf(w, "  %s\n", clean(a))
	}
}

func newPolicyList(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the daemon's policies", Example: "  fairway policy list", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			width := widthOf(c.OutOrStdout())
			return query[api.PolicyList]{r,
				func(ctx context.Context, daemon *client.Client) (api.PolicyList, error) {
					list, err := daemon.Policies(ctx)
					return api.PolicyList{Policies: list}, err
				},
				func(w io.Writer, l api.PolicyList) {
					var g grid
					for _, p := range l.Policies {
						g.add(clean(p.Name), clean(p.Summary))
						for _, v := range p.Variants {
							g.add("  "+clean(p.Name+":"+v.Name), clean(v.Summary))
						}
					}
					g.print(w, "", width)
				},
			}.run(c)
		},
	}
}
