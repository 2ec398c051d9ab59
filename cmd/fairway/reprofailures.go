// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
)

func newReproFailures() *cobra.Command {
	cfg := repro.DefaultRecovery()
	var out string
	var seeds []uint
	c := &cobra.Command{
		Use:   "failures",
		Short: "Measure what failing hardware costs a large job, and what each part of the recovery saves",
		Long: `Simulate one job on 9,600 GPUs, and a mix of jobs on as many, while GPUs and nodes fail
at rates from public reports. Print the effective training time with restarts from disk,
with each part of the recovery alone and added to those before it, with other rates, and
with more or fewer spare nodes. With --out, write failures.md and its plot to a folder.`,
		Example: `  fairway repro failures --out docs/reproduction
  fairway repro failures --nodes 128 --days 10 --jobs 200 --seeds 1,2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if cfg.Nodes < 2 || cfg.Days < 1 || cfg.Jobs < 1 {
				return usagef("--nodes %d --days %d --jobs %d: want at least 2 nodes, 1 day and 1 job", cfg.Nodes, cfg.Days, cfg.Jobs)
			}
			began := time.Now()
			cfg.Progress = func(what string) {
				fmt.Fprintf(c.ErrOrStderr(), "%6.0f s  %s\n", time.Since(began).Seconds(), what)
			}
			if len(seeds) > 0 {
				cfg.Seeds = nil
			}
			for _, seed := range seeds {
				cfg.Seeds = append(cfg.Seeds, uint64(seed))
			}
			r, err := repro.RunRecovery(cfg)
			if err != nil {
				return fmt.Errorf("repro failures: %w", err)
			}
			r.Print(c.OutOrStdout(), "images")
			if out == "" {
				return nil
			}
			return writePage(filepath.Join(out, "failures.md"), r, r.Charts())
		},
	}
	c.Flags().IntVar(&cfg.Nodes, "nodes", cfg.Nodes, "nodes of 8 GPUs that the one job needs")
	c.Flags().IntVar(&cfg.Days, "days", cfg.Days, "days of its training")
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "number of jobs in the mix")
	c.Flags().UintSliceVar(&seeds, "seeds", nil, "seeds, such as 1,2 (default: those of the page)")
	c.Flags().StringVarP(&out, "out", "o", "", "folder to write failures.md and images/failures.svg to")
	return c
}
