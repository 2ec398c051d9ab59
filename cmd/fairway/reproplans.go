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
	var rubick, sia, runs, out string
	c := &cobra.Command{
		Use:   "plans --rubick DIR --sia DIR",
		Short: "Check the model of execution plans against measured steps, and schedule with it",
		Long: `Fit the model of execution plans (data, tensor and pipeline parallelism, sharding,
offload, recomputation) to the measurements of the Rubick artifact, and print its errors:
for plans and sizes that it was fitted to, for those that were left out, and after a short
profiling; and for the pipelines of the Sia artifact. Then compare the memory formula with a
GPT on an H200, and replay Rubick's base workload under policies that choose among plans.

The folders are those of the artifacts, with traces/MODEL/placements.csv and
workloads/workload-base.csv, and with traces/gpt_pmp/placements-TYPE.csv.`,
		Example: `  fairway repro plans --rubick rubick-artifact/simulator --sia sia-artifact/sia-simulator`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if rubick == "" {
				return usagef("--rubick is missing: name the folder of the Rubick artifact that has traces and workloads")
			}
			if sia == "" {
				return usagef("--sia is missing: name the folder of the Sia artifact that has traces")
			}
			p, err := repro.ValidatePlans(os.DirFS(rubick))
			if err != nil {
				return fmt.Errorf("repro plans: %w", err)
			}
			pipelines, err := repro.ValidatePipelines(os.DirFS(sia))
			if err != nil {
				return fmt.Errorf("repro plans: %w", err)
			}
			memory, err := repro.ReadPlanMemory(os.DirFS(runs), "h200")
			if err != nil {
				return fmt.Errorf("repro plans: %w", err)
			}
			replayed, err := repro.Rubick(os.DirFS(rubick), memory, func(policy string) { fmt.Fprintln(c.ErrOrStderr(), policy) })
			if err != nil {
				return fmt.Errorf("repro plans: %w", err)
			}
			return printOrWrite(c, out, func(w io.Writer) {
				p.Print(w)
				repro.PrintPipelines(w, pipelines)
				memory.Print(w)
				repro.PrintRubick(w, replayed)
			})
		},
	}
	c.Flags().StringVar(&rubick, "rubick", "", "simulator folder of the Rubick artifact")
	c.Flags().StringVar(&sia, "sia", "", "simulator folder of the Sia artifact")
	c.Flags().StringVar(&runs, "runs", "lab/bench/gpu/results", "folder with the results of lab/bench/gpu/plans.py")
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file")
	return c
}
