// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/tune"
	"github.com/fairway-gpu/fairway/tune/search"
)

// nine returns a table of nine trials of nine epochs. The later a row, the better.
func nine(t *testing.T) *search.Table {
	t.Helper()
	var entries []search.Entry
	for i := range 9 {
		e := search.Entry{Values: []string{fmt.Sprint(i)}}
		for epoch := range 9 {
			e.Curve = append(e.Curve, float64(10*i+epoch+1))
		}
		entries = append(entries, e)
	}
	table, err := search.NewTable([]string{"row"}, entries)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// Successive halving of nine trials, three at a time: all run one epoch, three run
// three, one runs to the end. Trials wait at a rung for the others.
func TestHalvingInSimulation(t *testing.T) {
	with := func(rule tune.Rule) *sim.Result {
		c := searching(t, "2x8", "fifo", 9)
		c.Search.Problem, c.Search.Method, c.Search.AtOnce = nine(t), tune.Random, 3
		c.Search.Stopping = tune.Config{Rule: rule, Eta: 3}
		c.Search.Trial = sim.Work{Spec: sched.Spec{GPUs: 4}, RunTime: sched.Duration(90 * time.Minute)} // all epochs alike
		return run(t, c)
	}
	all, res := with(tune.None), with(tune.Halving)
	s := res.Search
	if s.Trials != 9 || s.Stopped != 8 || s.Best != all.Search.Best || s.Best != 89 || res.Unfinished != 0 {
		t.Fatalf("search %+v, %d unfinished; want 9 trials, 8 stopped, the best found", s, res.Unfinished)
	}
	// 21 of 81 epochs, and restarts of the trials that waited at a rung.
	restarts := 0
	killed := 0
	for _, j := range res.Jobs {
		restarts += j.Restarts
		if j.Outcome == sched.Cancelled {
			killed++
		}
	}
	restart := float64(4*restarts) * 62
	least := all.Search.GPUSeconds * 21 / 81
	if got := s.GPUSeconds; got < least-1 || got > least+restart+1 || got < least+restart-4*62 || restarts == 0 || killed != 8 {
		t.Errorf("%g GPU seconds with %d restarts, %d killed; want %g and the restarts, 8 killed", got, restarts, killed, least)
	}
	best := 0
	for _, trial := range res.Trials {
		if trial.Stopped == "" {
			best++
			if trial.Quality != 89 {
				t.Errorf("trial %+v ran to its end; want the best", trial)
			}
		}
	}
	if best != 1 {
		t.Errorf("%d trials ran to their end; want 1", best)
	}
}

// A search that stops trials early ends under every policy, whatever it does to them.
func TestStoppingUnderPolicies(t *testing.T) {
	for _, spec := range []string{"las", "pollux", "themis", "gandiva", "shockwave"} {
		for _, rule := range tune.Rules() {
			c := searching(t, "1x8", spec, 9)
			c.Search.Problem, c.Search.Method = nine(t), tune.Random
			c.Search.Stopping.Rule = rule
			res := run(t, c, job("other", 8, 0, 1e10))
			if res.Search.Trials != 9 || res.Unfinished != 0 || res.Search.Best < 80 {
				t.Errorf("%s, %s: %+v, %d unfinished; want 9 trials and one of the best", spec, rule, res.Search, res.Unfinished)
			}
		}
	}
}

// stageWatch remembers what a policy is told of what is left of the search.
type stageWatch struct {
	sched.Policy
	seen [][]sched.Stage
}

func (w *stageWatch) Schedule(s *sched.Snapshot) sched.Plan {
	if a, ok := s.App("search"); ok && (len(w.seen) == 0 || !slices.Equal(a.Stages, w.seen[len(w.seen)-1])) {
		w.seen = append(w.seen, a.Stages)
	}
	return w.Policy.Schedule(s)
}

// The policy learns what is left of a search: when all nine trials have run one epoch,
// three are to run two more, and then one to its end.
func TestStagesAreTold(t *testing.T) {
	c := searching(t, "2x8", "fifo", 9)
	c.Search.Problem, c.Search.Method, c.Search.AtOnce = nine(t), tune.Random, 3
	c.Search.Stopping = tune.Config{Rule: tune.Halving, Eta: 3}
	c.Search.Trial = sim.Work{Spec: sched.Spec{GPUs: 4}, RunTime: sched.Duration(90 * time.Minute)}
	w := &stageWatch{Policy: c.Policy}
	c.Policy = w
	run(t, c)
	want := []sched.Stage{{Jobs: 3, Part: 2. / 9}, {Jobs: 1, Part: 6. / 9}}
	if !slices.ContainsFunc(w.seen, func(s []sched.Stage) bool { return slices.Equal(s, want) }) {
		t.Errorf("told %v; want %v among them", w.seen, want)
	}
}
