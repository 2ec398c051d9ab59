// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/lab/repro"
)

// reproPage is a page of docs/reproduction and the command that writes it.
type reproPage struct {
	name   string
	make   func() *cobra.Command
	folder bool   // its --out is a folder
	data   string // the flags of "repro all" that name its data, separated by commas; "": none
}

// reproSlow are the data whose runs take as long as all others of the flagship together:
// its page is made without them, and says so.
const reproSlow = "philly"

// reproPages are in the order in which they are made: the longest first, so that none is
// made alone at the end.
func reproPages() []reproPage {
	return []reproPage{
		{"flagship", newReproFlagship, true, "pollux,sia,shockwave,gavel"}, {"forecast", newReproForecast, false, ""}, {"clusters", newReproClusters, false, ""},
		{"themis", newReproThemis, true, ""}, {"philly", newReproPhilly, true, ""}, {"horus", newReproHorus, true, ""},
		{"failures", newReproFailures, true, ""}, {"mixed", newReproMixed, false, "sia"}, {"pollux", newReproPollux, true, "pollux"},
		{"experience", newReproExperience, false, ""}, {"autoscale", newReproAutoscale, false, "pollux"},
		{"search", newReproSearch, false, ""}, {"shockwave", newReproShockwave, false, "shockwave"},
		{"plans", newReproPlans, false, "rubick,sia"}, {"tiresias", newReproTiresias, false, "pollux"},
	}
}

// reproAll are the flags of "repro all".
type reproAll struct {
	out, only string
	check     bool
	share     float64
	workers   int
	data      map[string]*string
}

func newReproAll() *cobra.Command {
	f := reproAll{data: map[string]*string{}}
	c := &cobra.Command{
		Use:   "all",
		Short: "Write every page of docs/reproduction again, or check them against fresh runs",
		Long: `Run every reproduction and write its page and plots to a folder. With --check, write
nothing and compare each page with its fresh run: fail if a line or a number differs
by more than the spread that the page states, or --share of the number. Pages that
need the data of an artifact are skipped, with a message, if it is not named. A page
that fails does not keep the others from being made.`,
		Example: `  fairway repro all --check --pollux pollux-artifact/simulator --sia sia-artifact/sia-simulator --shockwave shockwave/scheduler --rubick rubick-artifact/simulator --gavel gavel/scheduler
  fairway repro all --check --only experience,search`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	c.Flags().StringVarP(&f.out, "out", "o", "docs/reproduction", "folder of the pages")
	c.Flags().BoolVar(&f.check, "check", false, "compare instead of writing; fail if a page differs")
	c.Flags().Float64Var(&f.share, "share", 0.05, "with --check: accepted difference of a number without a stated spread")
	c.Flags().IntVar(&f.workers, "workers", 0, "pages that are made at once; with 1, their progress is shown; 0: as many as there are cores")
	c.Flags().StringVar(&f.only, "only", "", "only these pages, separated by commas")
	for _, d := range repro.FlagshipData {
		if d.Name != reproSlow {
			f.data[d.Name] = c.Flags().String(d.Name, "", d.About)
		}
	}
	f.data["rubick"] = c.Flags().String("rubick", "", "simulator folder of the Rubick artifact")
	return c
}

func (f *reproAll) run(c *cobra.Command) error {
	pages, err := f.chosen()
	if err != nil {
		return err
	}
	if f.workers < 0 {
		return usagef("--workers %d: want 0 or more", f.workers)
	}
	workers := cmp.Or(f.workers, runtime.NumCPU())
	out := f.out
	if f.check {
		if out, err = os.MkdirTemp("", "fairway-repro-"); err != nil {
			return fmt.Errorf("repro all: %w", err)
		}
		defer os.RemoveAll(out)
	}
	progress := io.Discard // of several pages at once nobody could tell whose it is
	if workers == 1 {
		progress = c.ErrOrStderr()
	}
	var told sync.Mutex // one page at a time prints
	differ := 0
	one := func(p reproPage) error {
		args, missing := f.arguments(p)
		if missing != "" {
			told.Lock()
			defer told.Unlock()
			fmt.Fprintf(c.OutOrStdout(), "%s: skipped; it needs --%s\n", p.name, missing)
			return nil
		}
		began := time.Now()
		if err := p.write(c, out, args, progress); err != nil {
			return err
		}
		told.Lock()
		defer told.Unlock()
		fmt.Fprintf(c.ErrOrStderr(), "%s: made in %.0f s\n", p.name, time.Since(began).Seconds())
		if !f.check {
			return nil
		}
		n, err := f.compare(c.OutOrStdout(), p.name+".md", out)
		differ += n
		return err
	}
	var wait sync.WaitGroup
	next := make(chan int)
	errs := make([]error, len(pages))
	for range workers {
		wait.Go(func() {
			for i := range next {
				errs[i] = one(pages[i])
			}
		})
	}
	for i := range pages {
		next <- i
	}
	close(next)
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("repro all: %w", err)
	}
	if differ > 0 {
		return fmt.Errorf("repro all: %s of pages are not what runs give now", several(differ, "line"))
	}
	return nil
}

// chosen are the pages of --only, in the order of the table.
func (f *reproAll) chosen() ([]reproPage, error) {
	pages := reproPages()
	if f.only == "" {
		return pages, nil
	}
	var names []string
	for _, p := range pages {
		names = append(names, p.name)
	}
	wanted := strings.Split(f.only, ",")
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, usagef("--only %s: no such page; want %s", name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(pages, func(p reproPage) bool { return !slices.Contains(wanted, p.name) }), nil
}

// arguments are those of a page's command that name its data: --data, or a flag for each
// if it needs several.
func (f *reproAll) arguments(p reproPage) (args []string, missing string) {
	if p.data == "" {
		return nil, ""
	}
	names := strings.Split(p.data, ",")
	for _, name := range names {
		flag := name
		if len(names) == 1 {
			flag = "data"
		}
		if *f.data[name] == "" {
			return nil, name
		}
		args = append(args, "--"+flag, *f.data[name])
	}
	return args, ""
}

// write runs a page's command; what it prints goes to its file only, and what it tells
// of its progress to a writer.
func (p reproPage) write(c *cobra.Command, dir string, data []string, progress io.Writer) error {
	to := dir
	if !p.folder {
		to = filepath.Join(dir, p.name+".md")
	}
	sub := p.make()
	sub.SetArgs(append([]string{"--out", to}, data...))
	sub.SetOut(io.Discard)
	sub.SetErr(progress)
	sub.SilenceUsage, sub.SilenceErrors = true, true
	return sub.ExecuteContext(c.Context())
}

// compare prints how a page differs from a fresh one, and returns in how many lines.
func (f *reproAll) compare(w io.Writer, name, fresh string) (int, error) {
	page, err := os.ReadFile(filepath.Join(f.out, name))
	if err != nil {
		return 0, err
	}
	now, err := os.ReadFile(filepath.Join(fresh, name))
	if err != nil {
		return 0, err
	}
	list := repro.Check(string(page), string(now), f.share)
	if len(list) == 0 {
		fmt.Fprintf(w, "%s: as a fresh run gives it\n", name)
		return 0, nil
	}
	fmt.Fprintf(w, "%s: %s differ\n", name, several(len(list), "line"))
	for _, d := range list {
		fmt.Fprintf(w, "%s\n", d)
	}
	return len(list), nil
}
