// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
)

func newReproShockwave() *cobra.Command {
	var data, out string
	c := &cobra.Command{
		Use:   "shockwave --data DIR",
		Short: "Compare shockwave with the results of its artifact",
		Long: `Replay the traces of the Shockwave artifact (NSDI'23), whose jobs change their batch
size by Accordion and GNS, under shockwave, themis and gavel, and compare makespan,
JCT and finish-time fairness with the results that the artifact contains.

The data folder is the artifact's scheduler folder, with traces/reproduce/*.trace.`,
		Example: `  fairway repro shockwave --data shockwave/scheduler`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data is missing: name the scheduler folder of the Shockwave artifact")
			}
			s, err := repro.RunShockwave(os.DirFS(data), func(what string) { fmt.Fprintln(c.ErrOrStderr(), what) })
			if err != nil {
				return fmt.Errorf("repro shockwave: %w", err)
			}
			return printOrWrite(c, out, s.Print)
		},
	}
	c.Flags().StringVar(&data, "data", "", "scheduler folder of the Shockwave artifact")
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file")
	return c
}
