// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
)

func newReproFlagship() *cobra.Command {
	cfg := repro.DefaultFlagship()
	data := map[string]*string{}
	var out string
	c := &cobra.Command{
		Use:   "flagship",
		Short: "Measure what the policy fairway must show, on every kind of workload",
		Long: `Compare the policy fairway with its targets: on the workloads of the Pollux artifact,
at other loads, with wrong lengths, on adversarial streams, mixes with scripts, mixed GPU
types, searches, jobs that share GPUs, and traces; and with one part off at a time. Parts
that need the data of an artifact are not run if it is not named, and the page says so.
With --out, write flagship.md and its plots to a folder, again after each part.

Parts: ` + strings.Join(repro.FlagshipParts(), ", ") + `.`,
		Example: `  fairway repro flagship --only streams,plain
  fairway repro flagship --only pollux,rho --pollux pollux-artifact/simulator
  fairway repro flagship --pollux pollux-artifact/simulator --sia sia-artifact/sia-simulator --out docs/reproduction`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, part := range cfg.Only {
				if !slices.Contains(repro.FlagshipParts(), part) {
					return usagef("--only %s: no such part; want %s", part, strings.Join(repro.FlagshipParts(), ", "))
				}
			}
			if cfg.Seeds < 1 || cfg.Scale < 1 {
				return usagef("--seeds %d, --scale %d: want 1 or more", cfg.Seeds, cfg.Scale)
			}
			cfg.Data = map[string]fs.FS{}
			for name, dir := range data {
				if *dir != "" {
					cfg.Data[name] = os.DirFS(*dir)
				}
			}
			return runFlagship(c, cfg, out)
		},
	}
	c.Flags().StringVar(&cfg.Policy, "policy", cfg.Policy, "`policy` to judge")
	c.Flags().StringSliceVar(&cfg.Only, "only", nil, "only these parts, separated by commas")
	c.Flags().IntVar(&cfg.Seeds, "seeds", cfg.Seeds, "number of generated workloads of each kind")
	c.Flags().IntVar(&cfg.Scale, "scale", cfg.Scale, "divide the jobs of generated workloads, for a quick look")
	for _, d := range repro.FlagshipData {
		data[d.Name] = c.Flags().String(d.Name, "", d.About)
	}
	c.Flags().StringVarP(&out, "out", "o", "", "folder to write flagship.md and images/*.svg to")
	return c
}

func runFlagship(c *cobra.Command, cfg repro.FlagshipConfig, out string) error {
	began := time.Now()
	cfg.Progress = func(run string) {
		fmt.Fprintf(c.ErrOrStderr(), "%6.0f s  %s\n", time.Since(began).Seconds(), run)
	}
	if out != "" {
		cfg.Done = func(f *repro.Flagship) error {
			return writePage(filepath.Join(out, "flagship.md"), f, f.Charts())
		}
	}
	f, err := repro.RunFlagship(cfg)
	if err != nil {
		return fmt.Errorf("repro flagship: %w", err)
	}
	f.Print(c.OutOrStdout(), "images")
	return nil
}
