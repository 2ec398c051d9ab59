// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/progress"
	"github.com/fairway-gpu/fairway/lab/repro"
	"github.com/fairway-gpu/fairway/sim"
)

// The parts of the Philly page.
const (
	phillyWaits     = "waits"
	phillyFragments = "fragments"
	phillyFailures  = "failures"
)

func newReproPhilly() *cobra.Command {
	cfg := repro.DefaultPhilly()
	parts := []string{phillyWaits, phillyFragments, phillyFailures}
	var out string
	c := &cobra.Command{
		Use:   "philly",
		Short: "Show why jobs wait and fail in a large cluster, and what helps, compared with the Philly paper",
		Long: `Replay workloads like that of the Philly study (ATC'19) in three parts: "waits" shows
why gangs wait; "fragments" compares relaxing locality, defragmentation and
reservations; "failures" compares adaptive retries, screening and quarantine. With
--out, write philly.md and its plots to a folder.`,
		Example: `  fairway repro philly --out docs/reproduction
  fairway repro philly --part waits --jobs 5000 --cluster 48x8/12 --seeds 2`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p := phillyPage{config: cfg, plots: map[string]repro.Bars{}}
			for _, part := range parts {
				if err := p.run(c, part); err != nil {
					return fmt.Errorf("repro philly: %w", err)
				}
			}
			p.Print(c.OutOrStdout(), "images")
			if out == "" {
				return nil
			}
			return writePage(filepath.Join(out, "philly.md"), &p, p.plots)
		},
	}
	c.Flags().StringSliceVar(&parts, "part", parts, "parts to run: waits, fragments, failures")
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "number of jobs in each workload of the part \"waits\"")
	c.Flags().IntVar(&cfg.Seeds, "seeds", cfg.Seeds, "number of workloads in the part \"waits\"")
	c.Flags().StringVarP(&cfg.Cluster, "cluster", "c", cfg.Cluster, "cluster of the part \"waits\", as in \"fairway sim\"")
	c.Flags().StringVarP(&out, "out", "o", "", "folder to write philly.md and images/*.svg to")
	return c
}

// phillyPage collects the parts.
type phillyPage struct {
	config repro.PhillyConfig
	parts  []func(w io.Writer, images string)
	plots  map[string]repro.Bars
}

// Print implements page.
func (p *phillyPage) Print(w io.Writer, images string) {
	for _, part := range p.parts {
		part(w, images)
	}
}

// run makes one part, with a progress bar.
func (p *phillyPage) run(c *cobra.Command, part string) error {
	bar := progress.New(c.ErrOrStderr())
	defer bar.Clear()
	show := func(name string, at sim.Progress) { showRun(bar, name)(at) }
	count := func(part string, done, all int) { bar.Show(part, done, all, fmt.Sprintf("%d/%d runs", done, all)) }
	switch part {
	case phillyWaits:
		p.config.Progress = count
		waits, err := repro.RunPhilly(p.config)
		if err != nil {
			return err
		}
		p.parts = append(p.parts, func(w io.Writer, _ string) { waits.Print(w) })
	case phillyFragments:
		cfg := repro.DefaultFragments()
		cfg.Progress = show
		f, err := repro.RunFragments(cfg)
		if err != nil {
			return err
		}
		p.add(f.Markdown, f.Charts())
		others, err := repro.OtherFragments(cfg, count)
		if err != nil {
			return err
		}
		p.parts = append(p.parts, func(w io.Writer, _ string) { repro.PrintFragmentsSeeds(w, others) })
	case phillyFailures:
		cfg := repro.DefaultFailures()
		cfg.Progress = show
		f, err := repro.Failures(cfg)
		if err != nil {
			return err
		}
		p.add(f.Markdown, f.Charts())
	default:
		return usagef("--part %q: want %s, %s or %s", part, phillyWaits, phillyFragments, phillyFailures)
	}
	return nil
}

func (p *phillyPage) add(print func(io.Writer, string) error, plots map[string]repro.Bars) {
	p.parts = append(p.parts, func(w io.Writer, images string) { _ = print(w, images) }) // the writer keeps its error
	maps.Copy(p.plots, plots)
}
