// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/policy"
)

func newPolicies() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "policies [NAME...]",
		Short: "List policies and layers with their knobs, defaults and papers",
		Long: `List every policy with its variants, knobs, defaults and paper, then every layer.
A policy is named as NAME[:VARIANT][:KNOB=VALUE]...; layers wrap it and follow as
@LAYER[:KNOB=VALUE], the first one innermost.`,
		Example: `  fairway policies
  fairway policies tiresias @share
  fairway sim --workload jobs.jsonl --policy tiresias:gittins:promote=8
  fairway sim --workload jobs.jsonl --policy tiresias@share,fifo@defrag:moves=2@reserve`,
		ValidArgs: policy.Builtin().Names(),
		RunE: func(c *cobra.Command, names []string) error {
			table := policy.Builtin()
			if len(names) == 0 {
				names = table.Names()
				for _, e := range table.Layers() {
					names = append(names, "@"+e.Name)
				}
			}
			entries := make([]policy.Entry, 0, len(names))
			for _, name := range names {
				e, ok := table[name]
				if !ok {
					if strings.HasPrefix(name, "@") {
						name = "fifo" + name // for the error about the layer
					}
					_, err := table.New(name)
					return usageError{err}
				}
				entries = append(entries, e)
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(entries)
			}
			for _, e := range entries {
				printPolicy(c.OutOrStdout(), e)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printPolicy(w io.Writer, e policy.Entry) {
	fmt.Fprintf(w, "%s%s: %s\n", e.Key(), oracle(e.Needs), e.Summary)
	if e.Paper != "" {
		fmt.Fprintf(w, "  from %s\n", e.Paper)
	}
	printTraits(w, "  ", e.Needs, e.Promises)
	for _, v := range e.Variants {
		fmt.Fprintf(w, "  %s:%s%s  %s\n", e.Name, v.Name, oracle(v.Needs), v.Summary)
		if v.Needs != e.Needs || v.Promises != e.Promises {
			printTraits(w, "    ", v.Needs, v.Promises)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range e.Knobs {
		fmt.Fprintf(t, "    %s=%s\t%s\n", k.Name, k.Default, k.Help)
	}
	t.Flush()
	fmt.Fprintln(w)
}

// oracle marks what plans with the truth.
func oracle(n policy.Needs) string {
	if n.Oracle {
		return " (oracle)"
	}
	return ""
}

func printTraits(w io.Writer, indent string, needs policy.Needs, promises policy.Promises) {
	if text := needs.String(); text != "" {
		fmt.Fprintf(w, "%sneeds %s\n", indent, text)
	}
	if promises != 0 {
		fmt.Fprintf(w, "%spromises: %s\n", indent, promises)
	}
}
