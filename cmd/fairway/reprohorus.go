// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
)

func newReproHorus() *cobra.Command {
	cfg := repro.DefaultHorusShare()
	var data, runs, gpu, out string
	c := &cobra.Command{
		Use:   "horus",
		Short: "Predict GPU use from model graphs and share GPUs by it, compared with the Horus paper",
		Long: `Cross-validate the predictions of utilisation, memory and slowdown on measured models
and pairs, then replay a mix of such jobs on 1,024 GPUs under horus, horus+ and policies
that share less or without predictions, and compare with the Horus paper (TPDS'22).
With --out, write horus.md and its plots to a folder.`,
		Example: `  fairway repro horus --out docs/reproduction
  fairway repro horus --jobs 2000 --seeds 1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			began := time.Now()
			tell := func(what string) {
				fmt.Fprintf(c.ErrOrStderr(), "%6.0f s  %s\n", time.Since(began).Seconds(), what)
			}
			cfg.Progress = func(part string, done, all int) { tell(fmt.Sprintf("%s: %d of %d runs", part, done, all)) }
			p, err := runHorus(os.DirFS(data), gpu, cfg, tell)
			if err == nil {
				p.runs, err = repro.ReadHorusRuns(os.DirFS(runs), gpu)
			}
			if err != nil {
				return fmt.Errorf("repro horus: %w", err)
			}
			p.Print(c.OutOrStdout(), "images")
			if out == "" {
				return nil
			}
			return writePage(filepath.Join(out, "horus.md"), p, p.plots())
		},
	}
	c.Flags().StringVar(&data, "data", "lab/profiling/data", "folder with measurements by lab/profiling/measure.py")
	c.Flags().StringVar(&runs, "runs", "lab/bench/gpu/results", "folder with the results of lab/bench/gpu/pairs.py and share.py")
	c.Flags().StringVar(&gpu, "gpu", "h200", "GPU type that was measured")
	c.Flags().IntVar(&cfg.Jobs, "jobs", cfg.Jobs, "number of jobs in each mix")
	seeds := c.Flags().Int("seeds", len(cfg.Seeds), "number of mixes")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *seeds < 1 || *seeds > 100 {
			return usagef("--seeds %d: want 1 to 100", *seeds)
		}
		cfg.Seeds = nil
		for s := range *seeds {
			cfg.Seeds = append(cfg.Seeds, uint64(s+1))
		}
		return nil
	}
	c.Flags().StringVarP(&out, "out", "o", "", "folder to write horus.md and images/*.svg to")
	return c
}

// horusPage is the parts of the page.
type horusPage struct {
	prediction *repro.HorusPrediction
	pairs      *repro.HorusPairs
	share      *repro.HorusShare
	runs       *repro.HorusRuns
}

func runHorus(data fs.FS, gpu string, cfg repro.HorusShareConfig, tell func(string)) (*horusPage, error) {
	var p horusPage
	var err error
	tell("cross-validate predictions of models")
	if p.prediction, err = repro.RunHorusPrediction(data, gpu); err != nil {
		return nil, err
	}
	tell("cross-validate predictions of pairs")
	if p.pairs, err = repro.RunHorusPairs(data, gpu, p.prediction.Loads()); err != nil {
		return nil, err
	}
	p.share, err = repro.RunHorusShare(cfg)
	return &p, err
}

// Print implements page.
func (p *horusPage) Print(w io.Writer, images string) {
	command := "fairway repro horus --out docs/reproduction"
	if c, usual := p.share.Config, repro.DefaultHorusShare(); c.Jobs != usual.Jobs || len(c.Seeds) != len(usual.Seeds) {
		command += fmt.Sprintf(" --jobs %d --seeds %d", c.Jobs, len(c.Seeds))
	}
	fmt.Fprintf(w, `# Horus: predict, then share

    %s

The paper's figures (TPDS'22) are for its own models and GPUs. We know of no public code of it, so
that there is no reference run.
`, command)
	repro.PrintClaims(w, append(append(p.prediction.Claims(), p.pairs.Claims()...), p.share.Claims()...))
	fmt.Fprintln(w, "\n"+p.prediction.Markdown(images))
	fmt.Fprintln(w, p.pairs.Markdown(images))
	p.runs.Print(w)
	p.share.Print(w, images)
}

func (p *horusPage) plots() map[string]repro.Plot {
	out := p.prediction.Charts()
	maps.Copy(out, p.pairs.Charts())
	for name, b := range p.share.Charts() {
		out[name] = b
	}
	return out
}
