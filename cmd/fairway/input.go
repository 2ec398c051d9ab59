// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// workloadFlags say which workload to read and how.
type workloadFlags struct {
	path, format string
	skipBad      bool
}

// register adds the flags; more is said after the usage of --workload.
func (f *workloadFlags) register(c *cobra.Command, standard, more string) {
	c.Flags().StringVarP(&f.path, "workload", "w", standard, "workload file to read (\"-\": standard input)"+more)
	c.Flags().StringVar(&f.format, "format", "", "format of the workload: "+formatNames()+" (default: detected)")
	c.Flags().BoolVar(&f.skipBad, "skip-bad", false, "skip and report malformed rows instead of stopping at the first")
	_ = c.RegisterFlagCompletionFunc("format", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return strings.Split(formatNames(), ", "), cobra.ShellCompDirectiveNoFileComp
	})
}

func formatNames() string {
	var names []string
	for _, f := range trace.Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// read reads the workload and tells on stderr what was skipped.
func (f *workloadFlags) read(c *cobra.Command) (*sim.Workload, error) {
	if f.path == "" {
		return nil, usagef("--workload is missing: name a workload file, or generate one with \"fairway trace gen\"")
	}
	in := c.InOrStdin()
	if f.path != "-" {
		file, err := os.Open(f.path)
		if err != nil {
			return nil, fmt.Errorf("read workload: %w", err)
		}
		defer file.Close()
		in = file
	}
	base := filepath.Base(f.path)
	w, report, err := trace.Read(in, trace.Options{Format: trace.Format(f.format), SkipBad: f.skipBad, Name: base})
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	if report.Skipped > 0 || len(report.Dropped) > 0 || len(report.Notes) > 0 {
		printReport(c.ErrOrStderr(), f.path, report)
	}
	return w, nil
}

// printReport says what of a file did not become a job.
func printReport(w io.Writer, path string, r *trace.Report) {
	fmt.Fprintf(w, "%s: %d rows, %d jobs\n", path, r.Rows, r.Jobs)
	if r.Skipped > 0 {
		fmt.Fprintf(w, "  %d malformed rows skipped, such as:\n", r.Skipped)
		for _, b := range r.Bad {
			fmt.Fprintf(w, "    line %d, column %d, %s = %q: %s\n", b.Line, b.Column, b.Field, b.Value, b.Text)
		}
	}
	for _, d := range r.Dropped {
		fmt.Fprintf(w, "  %d dropped: %s\n", d.Rows, d.Reason)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  %d kept: %s\n", n.Rows, n.Reason)
	}
}

// clusterFlags say which cluster to simulate.
type clusterFlags struct {
	shape, file, gpuType string
}

func (f *clusterFlags) register(c *cobra.Command) {
	c.Flags().StringVarP(&f.shape, "cluster", "c", "16x4", "NODESxGPUS[:TYPE][/NODES-PER-RACK], groups joined by +, such as 6x4:t4+2x8:a100/1")
	c.Flags().StringVar(&f.file, "cluster-file", "", "JSON file with mixed nodes, racks and NVLink islands, or the node list of Alibaba's 2023 trace, instead of --cluster")
	c.Flags().StringVar(&f.gpuType, "gpu-type", "t4", "GPU type of nodes without one")
}

func (f *clusterFlags) read() (*sched.Cluster, error) {
	if f.file == "" {
		c, err := sim.ParseCluster(f.shape, sched.GPUType(strings.ToLower(f.gpuType)))
		if err != nil {
			return nil, usageError{err}
		}
		return c, nil
	}
	file, err := os.Open(f.file)
	if err != nil {
		return nil, fmt.Errorf("read cluster file: %w", err)
	}
	defer file.Close()
	return sim.ReadCluster(file)
}

// genPrefix marks a workload that is generated on the spot.
const genPrefix = "gen:"

// generate makes the workload that "gen:KIND:JOBS" asks for.
func generate(spec string, seed uint64, c *sched.Cluster) (*sim.Workload, error) {
	kind, count, ok := strings.Cut(strings.TrimPrefix(spec, genPrefix), ":")
	jobs, err := strconv.Atoi(count)
	if !ok || err != nil || jobs < 1 {
		return nil, usagef("--workload %q: want gen:KIND:JOBS, such as gen:pollux:160", spec)
	}
	w, err := trace.Generate(trace.Gen{Kind: kind, Jobs: jobs, GPUs: c.GPUs(), Seed: seed})
	if err != nil {
		return nil, usageError{fmt.Errorf("--workload %q: %w", spec, err)}
	}
	return w, nil
}
