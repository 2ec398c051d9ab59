// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
)

func newReproPlans() *cobra.Command {
	var data, runs, out string
	c := &cobra.Command{
		Use:   "plans --data DIR",
		Short: "Check the model of execution plans against measured steps, and schedule with it",
		Long: `Fit the model of execution plans (data, tensor and pipeline parallelism, sharding,
offload, recomputation) to the measurements of the Rubick artifact, and print its errors:
for plans and sizes that it was fitted to, for those that were left out, and after a short
profiling. Then compare the memory formula with a GPT on an H200, and replay the artifact's base workload under policies that choose among plans.

The data folder is the artifact's, with traces/MODEL/placements.csv and
workloads/workload-base.csv.`,
		Example: `  fairway repro plans --data rubick-artifact/simulator`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data is missing: name the folder of the Rubick artifact that has traces and workloads")
			}
			p, err := repro.ValidatePlans(os.DirFS(data))
			if err != nil {
				return fmt.Errorf("repro plans: %w", err)
			}
			memory, err := repro.ReadPlanMemory(os.DirFS(runs), "h200")
			if err != nil {
				return fmt.Errorf("repro plans: %w", err)
			}
			replayed, err := repro.Rubick(os.DirFS(data), func(policy string) { fmt.Fprintln(c.ErrOrStderr(), policy) })
			if err != nil {
				return fmt.Errorf("repro plans: %w", err)
			}
			return printOrWrite(c, out, func(w io.Writer) {
				p.Print(w)
				memory.Print(w)
				repro.PrintRubick(w, replayed)
			})
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder of the Rubick artifact")
	c.Flags().StringVar(&runs, "runs", "lab/bench/gpu/results", "folder with the results of lab/bench/gpu/plans.py")
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file")
	return c
}
