// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/autoscale"
	"github.com/fairway-gpu/fairway/sim/trace"
	"github.com/fairway-gpu/fairway/tune"
	"github.com/fairway-gpu/fairway/tune/search"
)

// goodputFlags are those of runs with agents, experience, autoscaling and
// searches.
type goodputFlags struct {
	experience string
	autoscale  string
	rule       string
	search     int
	method     string
	stop       string
	curves     string
}

// The words that --experience takes instead of a file.
const (
	experienceAuto = "auto"
	experienceOff  = "off"
	experienceOn   = "on"
)

func (f *goodputFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.experience, "experience", experienceAuto, "for policies with agents: start new jobs from the measurements of past ones: on (within this run), off, a file to load and save, or auto: as the policy would on a real cluster, on for fairway")
	fl.StringVar(&f.autoscale, "autoscale", "", "scale between MIN:MAX nodes in a simulated cloud, up to the nodes of --cluster")
	fl.StringVar(&f.rule, "autoscale-rule", string(autoscale.Utility), "autoscaling rule: utility, goodput (one large job) or throughput")
	fl.IntVar(&f.search, "search", 0, "add a hyper-parameter search with this many trials, four at a time")
	fl.StringVar(&f.method, "search-method", string(tune.TPE), "how the search samples trials: random, grid or tpe")
	fl.StringVar(&f.stop, "search-stop", string(tune.None), "which trials stop early: none, median, halving, hyperband, asha or pop")
	fl.StringVar(&f.curves, "search-curves", formulaCurves, "what trials learn: surface (a formula), digits (a table of real trainings), or a file with learning curves: CSV, or LCBench's JSON as FILE#DATASET")
}

// apply sets what the flags ask for. save, if not nil, must be called after
// the run.
func (f *goodputFlags) apply(cfg *sim.Config, about policy.About) (save func() error, err error) {
	if f.autoscale != "" {
		least, most, err := autoscale.ParseRange(f.autoscale)
		if err != nil {
			return nil, usageError{fmt.Errorf("--autoscale: %w", err)}
		}
		a := sim.DefaultAutoscale(least, most)
		a.Rule = autoscale.Rule(f.rule)
		cfg.Autoscale = &a
	}
	if f.search > 0 {
		s := sim.DefaultSearch(cfg.Seed)
		s.Trials, s.Method, s.Stopping.Rule = f.search, tune.Method(f.method), tune.Rule(f.stop)
		if s.Problem, err = f.problem(); err != nil {
			return nil, fmt.Errorf("--search-curves: %w", err)
		}
		cfg.Search = &s
	}
	if f.experience == experienceAuto && about.Learns {
		cfg.Experience = experience.New()
		return nil, nil
	}
	return f.openExperience(cfg)
}

// The words that --search-curves takes instead of a file.
const (
	formulaCurves = "surface"
	digitsCurves  = "digits"
)

// problem returns what a search is about.
func (f *goodputFlags) problem() (search.Problem, error) {
	switch f.curves {
	case formulaCurves:
		return search.CIFAR10(), nil
	case digitsCurves:
		return trace.Digits()
	}
	name, dataset, _ := strings.Cut(f.curves, "#")
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	table, err := trace.ReadCurves(file, dataset)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return table, nil
}

func (f *goodputFlags) openExperience(cfg *sim.Config) (save func() error, err error) {
	switch f.experience {
	case experienceOff, experienceAuto:
		return nil, nil
	case experienceOn:
		cfg.Experience = experience.New()
		return nil, nil
	}
	file, err := os.Open(f.experience)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		cfg.Experience = experience.New()
	case err != nil:
		return nil, fmt.Errorf("read experience: %w", err)
	default:
		defer file.Close()
		if cfg.Experience, err = experience.Read(file); err != nil {
			return nil, fmt.Errorf("read experience %s: %w", f.experience, err)
		}
	}
	return func() error {
		return writeFile(f.experience, func(w io.Writer) error { return cfg.Experience.Write(w) })
	}, nil
}
