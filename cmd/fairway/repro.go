// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
)

func newRepro() *cobra.Command {
	c := &cobra.Command{
		Use:   "repro",
		Short: "Reproduce published results",
		Example: `  fairway repro philly --jobs 5000
  fairway repro tiresias --data pollux-artifact/simulator
  fairway repro all --check`,
		// Nothing has to be tidied up: a signal ends an experiment at once.
		PersistentPreRun: func(*cobra.Command, []string) { signal.Reset(os.Interrupt, syscall.SIGTERM) },
	}
	c.AddCommand(newReproTiresias(), newReproPhilly(), newReproPollux(), newReproExperience(), newReproAutoscale(), newReproSearch(), newReproThemis(), newReproMixed(), newReproHorus(), newReproForecast(), newReproFailures(), newReproShockwave(), newReproPlans(), newReproFlagship(), newReproClusters(), newReproAll())
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
		Example: `  fairway repro tiresias --data pollux-artifact/simulator`,
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
			rows, err := artifact.Compare(repro.ReferenceTiresias, func() time.Duration { return time.Since(began) })
			if err != nil {
				return fmt.Errorf("repro tiresias: %w", err)
			}
			return printOrWrite(c, out, func(w io.Writer) { repro.PrintTiresias(w, rows) })
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder of the Pollux artifact")
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file")
	return c
}

func newReproPollux() *cobra.Command {
	var data, out string
	c := &cobra.Command{
		Use:   "pollux --data DIR",
		Short: "Compare pollux, optimus and tiresias with the reference simulator of the Pollux paper",
		Long: `Replay the workloads of the Pollux artifact (OSDI'21) with its measured profiles
and compare the average JCT with the reference simulator: every policy on every
workload, the exponent p, scheduling intervals, interference, finish-time
fairness. With --out, write pollux.md and its plots to a folder.`,
		Example: `  fairway repro pollux --data pollux-artifact/simulator --out docs/reproduction`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data is missing: name the folder of the Pollux artifact")
			}
			artifact, err := repro.OpenArtifact(os.DirFS(data))
			if err != nil {
				return fmt.Errorf("repro pollux: %w", err)
			}
			began := time.Now()
			p, err := artifact.RunPollux(func() time.Duration { return time.Since(began) }, func(what string) {
				fmt.Fprintf(c.ErrOrStderr(), "%6.0f s  %s\n", time.Since(began).Seconds(), what)
			})
			if err != nil {
				return fmt.Errorf("repro pollux: %w", err)
			}
			p.Print(c.OutOrStdout(), "images")
			if out == "" {
				return nil
			}
			return writePollux(out, p)
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder of the Pollux artifact")
	c.Flags().StringVarP(&out, "out", "o", "", "folder to write pollux.md and images/*.svg to")
	return c
}

func writePollux(dir string, p *repro.Pollux) error {
	return writePage(filepath.Join(dir, "pollux.md"), p, p.Charts())
}

// page is an experiment that is written as Markdown, with plots in a folder.
type page interface {
	Print(w io.Writer, images string)
}

// writePage writes the Markdown file, and the plots to images beside it.
func writePage[P repro.Plot](path string, p page, plots map[string]P) error {
	images := filepath.Join(filepath.Dir(path), "images")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	for name, plot := range plots {
		if err := writeFile(filepath.Join(images, name), plot.Write); err != nil {
			return err
		}
	}
	return writeFile(path, func(w io.Writer) error {
		p.Print(w, "images")
		return nil
	})
}

func newReproExperience() *cobra.Command {
	cfg := repro.DefaultExperience()
	c := simpleRepro("experience", "Measure what experience from past jobs gains, and what wrong experience costs", func() (func(io.Writer), error) {
		rows, err := repro.Experience(cfg)
		return func(w io.Writer) { repro.PrintExperience(w, cfg, rows) }, err
	})
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "number of jobs")
	c.Flags().IntVar(&cfg.Seeds, "seeds", cfg.Seeds, "number of workloads to average over")
	return c
}

func newReproAutoscale() *cobra.Command {
	var data, out string
	c := &cobra.Command{
		Use:   "autoscale",
		Short: "Autoscale a cluster for one large job, by goodput and by throughput",
		Long: `Train single large jobs in a simulated cloud autoscaled by throughput, by goodput with
several bands, and by utility, and compare cost and time with the Pollux paper. With
--data, also use the artifact's measured profiles.`,
		Example: `  fairway repro autoscale
  fairway repro autoscale --data pollux-artifact/simulator --out docs/reproduction/autoscale.md`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var artifact *repro.Artifact
			if data != "" {
				var err error
				if artifact, err = repro.OpenArtifact(os.DirFS(data)); err != nil {
					return fmt.Errorf("repro autoscale: %w", err)
				}
			}
			runs, err := repro.Autoscale(artifact, repro.Bands())
			if err != nil {
				return fmt.Errorf("repro autoscale: %w", err)
			}
			if err := printOrWrite(c, out, func(w io.Writer) { runs.Print(w, "images") }); err != nil || out == "" {
				return err
			}
			images := filepath.Join(filepath.Dir(out), "images")
			if err := os.MkdirAll(images, 0o755); err != nil {
				return err
			}
			return writeFile(filepath.Join(images, "autoscale.svg"), runs.Chart().Write)
		},
	}
	c.Flags().StringVar(&data, "data", "", "folder of the Pollux artifact")
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file, with images/autoscale.svg beside it")
	return c
}

func newReproClusters() *cobra.Command {
	cfg := repro.DefaultClusters()
	var c *cobra.Command
	c = simpleRepro("clusters", "Compare ten clusters and a choice among them with one cluster of all their GPUs", func() (func(io.Writer), error) {
		began := time.Now()
		cfg.Progress = func(part string, done, all int) {
			fmt.Fprintf(c.ErrOrStderr(), "%6.0f s  %s: %d of %d runs\n", time.Since(began).Seconds(), part, done, all)
		}
		rows, err := repro.Clusters(cfg)
		return func(w io.Writer) { repro.PrintClusters(w, cfg, rows) }, err
	})
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "number of jobs")
	c.Flags().IntVar(&cfg.Clusters, "clusters", cfg.Clusters, "number of clusters")
	c.Flags().IntVar(&cfg.Nodes, "nodes", cfg.Nodes, "nodes of each cluster, with 8 GPUs")
	c.Flags().Float64SliceVar(&cfg.Loads, "load", cfg.Loads, "mean demand, as a part of all GPUs")
	return c
}

func newReproSearch() *cobra.Command {
	cfg := repro.DefaultSearch()
	var c *cobra.Command
	c = simpleRepro("search", "Run hyper-parameter searches with every tuner, on static GPUs and under pollux", func() (func(io.Writer), error) {
		s, err := repro.RunSearches(cfg, func(what string) { fmt.Fprintln(c.ErrOrStderr(), what) })
		if err != nil {
			return nil, err
		}
		return s.Print, nil
	})
	c.Flags().IntVar(&cfg.Seeds, "seeds", cfg.Seeds, "number of searches to average over")
	c.Flags().IntVar(&cfg.Trials, "trials", cfg.Trials, "trials of each search")
	return c
}

func newReproThemis() *cobra.Command {
	cfg := repro.DefaultThemis()
	var out string
	c := &cobra.Command{
		Use:   "themis",
		Short: "Compare themis with other policies, with wrong and dishonest bids",
		Long: `Replay mixes of hyper-parameter searches under themis and other policies, with
several values of f and lease, with inaccurate bids, and with dishonest apps, and
compare with the Themis paper (NSDI'20). With --out, write themis.md and its plots to
a folder.`,
		Example: `  fairway repro themis --out docs/reproduction
  fairway repro themis --jobs 1000 --seeds 1 --lies 5`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			began := time.Now()
			var told time.Time
			cfg.Progress = func(part string, done, all int) {
				if done == 0 || done == all || time.Since(told) > 5*time.Second {
					told = time.Now()
					fmt.Fprintf(c.ErrOrStderr(), "%6.0f s  %s: %d of %d\n", time.Since(began).Seconds(), part, done, all)
				}
			}
			t, err := repro.RunThemis(cfg)
			if err != nil {
				return fmt.Errorf("repro themis: %w", err)
			}
			t.Print(c.OutOrStdout(), "images")
			if out == "" {
				return nil
			}
			return writePage(filepath.Join(out, "themis.md"), t, t.Charts())
		},
	}
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "number of jobs in each mix")
	c.Flags().IntVar(&cfg.Seeds, "seeds", cfg.Seeds, "number of mixes")
	c.Flags().IntVar(&cfg.LieSeeds, "lies", cfg.LieSeeds, "number of smaller mixes with dishonest apps")
	c.Flags().StringVarP(&out, "out", "o", "", "folder to write themis.md and images/*.svg to")
	return c
}

// simpleRepro is an experiment that needs no data.
func simpleRepro(name, short string, run func() (func(io.Writer), error)) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: name, Short: short, Example: "  fairway repro " + name, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			write, err := run()
			if err != nil {
				return fmt.Errorf("repro %s: %w", name, err)
			}
			return printOrWrite(c, out, write)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file")
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

func newReproMixed() *cobra.Command {
	cfg := repro.DefaultMixed()
	var data, out string
	c := &cobra.Command{
		Use:   "mixed",
		Short: "Compare all policies on a cluster with several GPU types",
		Long: `Simulate every policy on a cluster with several GPU types. With --data, also replay
workloads of the Sia artifact (SOSP'23) with its measured tables under sia and
gavel, and compare them with its simulator.`,
		Example: `  fairway repro mixed
  fairway repro mixed --data sia-artifact/sia-simulator
  fairway repro mixed --cluster 2x8:a100+6x4:t4 --jobs 80`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg.Progress = func(policy string, largest int, seed uint64) {
				fmt.Fprintf(c.ErrOrStderr(), "%s, gangs of up to %d, seed %d\n", policy, largest, seed)
			}
			var reference []repro.SiaRow
			if data != "" {
				var err error
				if reference, err = repro.Sia(os.DirFS(data), func(policy, workload string) {
					fmt.Fprintf(c.ErrOrStderr(), "%s on %s\n", policy, workload)
				}); err != nil {
					return fmt.Errorf("repro mixed: %w", err)
				}
			}
			runs, err := repro.Mixed(cfg)
			if err != nil {
				return fmt.Errorf("repro mixed: %w", err)
			}
			return printOrWrite(c, out, func(w io.Writer) {
				repro.PrintMixed(w, cfg, runs)
				if reference != nil {
					repro.PrintSia(w, reference)
				}
			})
		},
	}
	c.Flags().StringVarP(&cfg.Cluster, "cluster", "c", cfg.Cluster, "cluster, as in \"fairway sim\"")
	c.Flags().StringVar(&data, "data", "", "folder of the Sia artifact's simulator: traces and workloads")
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "number of jobs")
	c.Flags().StringVarP(&out, "out", "o", "", "also write this Markdown file")
	return c
}
