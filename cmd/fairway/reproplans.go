// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
)

func newReproPlans() *cobra.Command {
	var data, out string
	c := &cobra.Command{
		Use:   "plans --data DIR",
		Short: "Check the model of execution plans against measured steps",
		Long: `Fit the model of execution plans (data, tensor and pipeline parallelism, sharding,
offload, recomputation) to the measurements of the Rubick artifact, and print its errors:
for plans and sizes that it was fitted to, for those that were left out, and after a short
profiling.

The data folder is the artifact's, with traces/MODEL/placements.csv.`,
		Example: `  fairway repro plans --data rubick-artifact/simulator`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data is missing: name the folder of the Rubick artifact that has traces")
			}
			p, err := repro.ValidatePlans(os.DirFS(data))
			if err != nil {
				return fmt.Errorf("repro plans: %w", err)
			}
			return printOrWrite(c, out, p.Print)
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder of the Rubick artifact")
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file")
	return c
}
