// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/repro"
	"github.com/fairway-gpu/fairway/sim"
)

func newRepro() *cobra.Command {
	c := &cobra.Command{
		Use:   "repro",
		Short: "Hold our results against published ones",
		Example: `  fairway repro philly --jobs 5000
  fairway repro tiresias --data POLLUX_ARTIFACT/simulator`,
	}
	c.AddCommand(newReproTiresias(), newReproPhilly())
	return c
}

func newReproTiresias() *cobra.Command {
	var data, out string
	c := &cobra.Command{
		Use:   "tiresias --data DIR",
		Short: "Compare tiresias with the reference simulator of the Pollux paper",
		Long: `Replay the workloads of the Pollux artifact (OSDI'21) under tiresias, with its
measured profiles, and compare the average JCT with the reference simulator's.

The data folder has the artifact's layout: traces/MODEL/*.csv,
workloads*/workload-N.csv and results-jobload/tiresias-LOAD/summary.json.`,
		Example: `  fairway repro tiresias --data ../shared/data/pollux`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data is missing: name the folder of the Pollux artifact")
			}
			began := time.Now()
			artifact, err := repro.OpenArtifact(os.DirFS(data))
			if err != nil {
				return fmt.Errorf("repro tiresias: %w", err)
			}
			rows, err := artifact.Compare("tiresias", func() time.Duration { return time.Since(began) })
			if err != nil {
				return fmt.Errorf("repro tiresias: %w", err)
			}
			return printOrWrite(c, out, func(w io.Writer) { repro.PrintTiresias(w, rows) })
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder of the Pollux artifact")
	c.Flags().StringVarP(&out, "out", "o", "", "Markdown file to write as well")
	return c
}

func newReproPhilly() *cobra.Command {
	cfg := repro.DefaultPhilly()
	var out string
	c := &cobra.Command{
		Use:   "philly",
		Short: "Why jobs wait in a cluster with virtual clusters and gangs, beside the Philly paper",
		Example: `  fairway repro philly
  fairway repro philly --jobs 5000 --cluster 48x8/12 --seed 7`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			bars := map[string]*bar{}
			cfg.Progress = func(policy string, p sim.Progress) {
				if bars[policy] == nil {
					bars[policy] = newBar(c.ErrOrStderr(), policy)
				}
				bars[policy].update(p)
			}
			runs, err := repro.Philly(cfg)
			for _, b := range bars {
				b.done()
			}
			if err != nil {
				return fmt.Errorf("repro philly: %w", err)
			}
			return printOrWrite(c, out, func(w io.Writer) { repro.PrintPhilly(w, cfg, runs) })
		},
	}
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "number of jobs")
	c.Flags().Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of the workload")
	c.Flags().StringVarP(&cfg.Cluster, "cluster", "c", cfg.Cluster, "cluster, as in \"fairway sim\"")
	c.Flags().StringVarP(&out, "out", "o", "", "Markdown file to write as well")
	return c
}

// printOrWrite prints to standard output, and to a file if one is named.
func printOrWrite(c *cobra.Command, path string, write func(io.Writer)) error {
	write(c.OutOrStdout())
	if path == "" {
		return nil
	}
	return writeFile(path, func(w io.Writer) error { write(w); return nil })
}
