// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/report"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

func newTrace() *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Import, generate and describe workloads",
		Example: `  fairway trace import --workload cluster_job_log --format philly --out jobs.jsonl
  fairway trace gen --kind philly --jobs 10000 --gpus 2490 --out jobs.jsonl
  fairway trace stats --workload jobs.jsonl`,
	}
	c.AddCommand(newTraceImport(), newTraceGen(), newTraceStats())
	return c
}

func newTraceImport() *cobra.Command {
	var in workloadFlags
	var out string
	c := &cobra.Command{
		Use:   "import --workload FILE --out FILE",
		Short: "Convert a public trace to Fairway's workload format",
		Example: `  fairway trace import --workload workload-6.csv --out jobs.jsonl
  fairway trace import --workload cluster_job_log --format philly --skip-bad --out jobs.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w, err := in.read(c)
			if err != nil {
				return err
			}
			return writeWorkload(c, out, w)
		},
	}
	in.register(c, "", "")
	c.Flags().StringVarP(&out, "out", "o", "-", "file to write (\"-\": standard output)")
	return c
}

func newTraceGen() *cobra.Command {
	g := trace.Gen{Kind: "philly", Jobs: 1000, GPUs: 256, Seed: 1}
	var span, longest sched.Duration
	var out string
	c := &cobra.Command{
		Use:   "gen --kind KIND --jobs N --gpus N --out FILE",
		Short: "Generate a workload from published statistics",
		Long: `Generate a workload with the statistics of a published one. The same seed gives
the same workload, byte for byte.

  flood    one tenant submits thousands of small jobs, another a gang every hour
  giant    days of small jobs, and gangs of all and of half of the GPUs among them
  helios   sizes and run times as in SenseTime's Helios clusters (SC'21)
  horus    jobs with low GPU utilisation, drawn from measured profiles, with
           imperfect predictions of utilisation (as in Horus, TPDS'22)
  philly   arrivals, sizes, durations, virtual clusters, outcomes and failures
           as in Microsoft's Philly cluster (ATC'19)
  pollux   the model mix of the Pollux evaluation (OSDI'21)
  themis   apps of one or many jobs, as in the Themis evaluation (NSDI'20)
  tiny     thousands of jobs that take seconds

flood, giant and tiny are made to break promises: on 64 GPUs, generate 3012, 4309
and 4004 jobs.`,
		Example: `  fairway trace gen --kind philly --jobs 100000 --gpus 2490 --seed 1 --out philly.jsonl
  fairway trace gen --kind pollux --jobs 160 --gpus 64 --out pollux.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			g.Span, g.Longest = span.D(), longest.D()
			w, err := trace.Generate(g)
			if err != nil {
				return usageError{err}
			}
			return writeWorkload(c, out, w)
		},
	}
	fl := c.Flags()
	fl.StringVar(&g.Kind, "kind", g.Kind, "workload to imitate: "+strings.Join(trace.Kinds(), ", "))
	fl.IntVar(&g.Jobs, "jobs", g.Jobs, "number of jobs")
	fl.IntVar(&g.GPUs, "gpus", g.GPUs, "GPUs of the intended cluster")
	fl.Uint64Var(&g.Seed, "seed", g.Seed, "seed of all randomness")
	fl.Float64Var(&g.Load, "load", 0, "fraction of GPUs in use if no job had to wait, after a warm-up; 0: as in the original")
	fl.Float64Var(&g.Light, "light", 0, "horus: fraction of jobs with GPU utilisation below 60 %; 0: 0.8")
	fl.Float64Var(&g.Error, "error", 0.133, "horus: RMSLE of predicted utilisation")
	fl.Float64Var(&g.Bursts, "bursts", 0, fmt.Sprintf("philly: how uneven the arrivals of a virtual cluster are from week to week, as the standard deviation of the logarithm of their rate; the original has %g", trace.PhillyBursts))
	fl.TextVar(&longest, "longest", longest, "maximum run time, such as 2d; 0s: as in the original (weeks)")
	fl.TextVar(&span, "span", span, "period over which jobs arrive; 0s: derived from jobs, GPUs and load")
	fl.StringVarP(&out, "out", "o", "-", "file to write (\"-\": standard output)")
	_ = c.RegisterFlagCompletionFunc("kind", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return trace.Kinds(), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

func newTraceStats() *cobra.Command {
	var in workloadFlags
	var asJSON bool
	var out string
	c := &cobra.Command{
		Use:   "stats --workload FILE",
		Short: "Describe a workload the way the Philly paper describes its cluster",
		Example: `  fairway trace gen --kind philly --jobs 10000 --gpus 2490 --out jobs.jsonl
  fairway trace stats --workload jobs.jsonl --out stats.html`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w, err := in.read(c)
			if err != nil {
				return err
			}
			s := trace.Stats(w)
			if out != "" {
				if err := writeFile(out, func(f io.Writer) error { return report.WriteStats(f, s) }); err != nil {
					return err
				}
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(s)
			}
			if err := s.Print(c.OutOrStdout()); err != nil {
				return err
			}
			if out != "" {
				fmt.Fprintf(c.OutOrStdout(), "\nwrote plots to %s; open it in a browser\n", out)
			}
			return nil
		},
	}
	in.register(c, "", "")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVarP(&out, "out", "o", "", "HTML file to write the plots to")
	return c
}

func writeWorkload(c *cobra.Command, path string, w *sim.Workload) error {
	if path == "-" {
		return trace.Write(c.OutOrStdout(), w)
	}
	if err := writeFile(path, func(f io.Writer) error { return trace.Write(f, w) }); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "wrote %d jobs to %s (%.1f MB)\n", len(w.Work), path, float64(info.Size())/1e6)
	return nil
}
