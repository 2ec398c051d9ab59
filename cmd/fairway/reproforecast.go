// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/progress"
	"github.com/fairway-gpu/fairway/lab/repro"
)

func newReproForecast() *cobra.Command {
	var out string
	var traces workloadFlags
	cfg := repro.DefaultForecast()
	var seeds []uint
	var policies []string
	c := &cobra.Command{
		Use:   "forecast",
		Short: "Measure how well expected starts are calibrated",
		Long: `Simulate workloads and forecast the start of every job when it first waits, as
"fairway explain" does. Print how often the range of 90 % holds the actual start, how
often an expected start is told, and its median error as a part of the wait; also for the
forecast that the daemon makes where a policy is too slow to be played forward. With
--workload, parts of recorded workloads are used beside the generated ones.`,
		Example: `  fairway repro forecast
  fairway repro forecast --policy fifo,las --jobs 100
  fairway repro forecast --workload cluster_job_log,helios.csv`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			bar := progress.New(c.ErrOrStderr())
			bar.Interval = 10 * time.Second
			cfg.Progress = func(part string, done, all int) { bar.Show(part, done, all, fmt.Sprintf("%d/%d runs", done, all)) }
			for path := range strings.SplitSeq(traces.path, ",") {
				if one := traces; path != "" {
					one.path = path
					w, err := one.read(c)
					if err != nil {
						return err
					}
					cfg.Traces = append(cfg.Traces, w)
				}
			}
			if len(policies) > 0 {
				cfg.Policies, cfg.Dear = policies, nil
			}
			if len(seeds) > 0 {
				cfg.Seeds = nil
			}
			for _, seed := range seeds {
				cfg.Seeds = append(cfg.Seeds, uint64(seed))
			}
			rows, err := repro.Forecast(cfg)
			bar.Clear()
			if err != nil {
				return fmt.Errorf("repro forecast: %w", err)
			}
			return printOrWrite(c, out, func(w io.Writer) { repro.PrintForecast(w, cfg, rows) })
		},
	}
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "jobs of each workload")
	c.Flags().StringVar(&cfg.Cluster, "cluster", cfg.Cluster, "cluster, such as 8x4:t4")
	c.Flags().StringSliceVar(&policies, "policy", nil, "policies (default: those of the page)")
	c.Flags().UintSliceVar(&seeds, "seeds", nil, "seeds of the workloads, such as 21,22 (default: those of the page)")
	c.Flags().StringSliceVar(&cfg.Kinds, "kind", cfg.Kinds, "kinds of generated workloads")
	traces.register(c, "", "; several: joined by commas")
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file")
	return c
}
