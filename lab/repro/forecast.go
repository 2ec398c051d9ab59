// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/sched/forecast"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// ForecastConfig is the experiment on how well expected starts are calibrated.
type ForecastConfig struct {
	Kinds    []string        // of generated workloads
	Traces   []*sim.Workload // recorded ones
	Cluster  string
	Jobs     int // of each workload
	Span     time.Duration
	Seeds    []uint64
	Others   []uint64 // seeds on which only the ranges are judged
	Policies []string
	Progress func(string)
}

// DefaultForecast is a cluster on which jobs wait. The constants of packages experience and
// forecast were chosen on the first seeds; nobody has looked at the others.
func DefaultForecast() ForecastConfig {
	return ForecastConfig{
		Kinds: []string{trace.KindPhilly, trace.KindPollux}, Cluster: "8x4:t4", Jobs: 150, Span: 24 * time.Hour,
		Seeds: []uint64{21, 22}, Others: []uint64{51, 52},
		Policies: []string{"fifo"},
	}
}

// knowledge is what a forecast knows about the jobs that run.
type knowledge struct {
	name      string
	estimates sim.Estimates
	reports   bool // agents report how much is left
}

func knowledges() []knowledge {
	return []knowledge{
		{"agents report progress", sim.User, true},
		{"users estimate", sim.User, false},
		{"past jobs only", sim.None, false},
	}
}

// ForecastRow is how well the starts of one kind of workload were foreseen.
type ForecastRow struct {
	Workload, Policy, Known string
	Cases, None             int     // with and without a forecast
	Inside                  float64 // share of starts within the range of 90 %
	Error                   float64 // median of |expected - actual| over the actual wait
	Width                   float64 // median of the range over the actual wait
	Raw                     float64 // share of starts within the range before the ledger corrects it
	Other                   float64 // share of starts within the range on other seeds
	OtherCases              int
	// Floor is the error of a forecast that knows how the run times are drawn, RunTimes of
	// one that knows them, Oracle of one that also knows which jobs are submitted later.
	Floor, RunTimes, Oracle float64
}

// Forecast forecasts the start of every job when it first waits, and compares.
func Forecast(c ForecastConfig) ([]ForecastRow, error) {
	var rows []ForecastRow
	for _, name := range c.workloads() {
		for _, spec := range c.Policies {
			for _, k := range knowledges() {
				if c.Progress != nil {
					c.Progress(name + " " + spec + " " + k.name)
				}
				all, err := c.runs(name, spec, k, c.Seeds)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", spec, err)
				}
				others, err := c.runs(name, spec, k, c.Others)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", spec, err)
				}
				row := rate(ForecastRow{Workload: name, Policy: spec, Known: k.name}, all)
				if other := rate(ForecastRow{}, others); other.Cases > 0 {
					row.Other, row.OtherCases = other.Inside, other.Cases
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func (c ForecastConfig) workloads() []string {
	names := slices.Clone(c.Kinds)
	for _, w := range c.Traces {
		names = append(names, w.Name)
	}
	return names
}

// workload generates a workload, or takes a part of a recorded one.
func (c ForecastConfig) workload(name string, seed uint64) (*sim.Workload, error) {
	if slices.Contains(c.Kinds, name) {
		return trace.Generate(c.gen(name, seed))
	}
	cluster, err := sim.ParseCluster(c.Cluster, "t4")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Traces, func(w *sim.Workload) bool { return w.Name == name })
	return part(c.Traces[i], c.Jobs, seed, cluster.GPUs()), nil
}

func (c ForecastConfig) gen(kind string, seed uint64) trace.Gen {
	return trace.Gen{Kind: kind, Jobs: c.Jobs, GPUs: 8, Seed: seed, Span: c.Span}
}

// mostGPUs is the size of the largest job that is taken from a trace, as a part of the
// cluster.
const mostGPUs = 0.25

// part returns jobs of a trace that follow each other, beginning at another place for
// each seed. The times between their submissions are stretched so that they need as much
// GPU time as the cluster has within them.
func part(w *sim.Workload, jobs int, seed uint64, gpus int) *sim.Workload {
	out := &sim.Workload{Name: w.Name, Source: w.Source, Start: w.Start}
	most := int(mostGPUs * float64(gpus))
	fits := slices.DeleteFunc(slices.Clone(w.Work), func(j sim.Work) bool { return j.GPUs > most })
	first := int(float64(max(0, len(fits)-jobs)) * math.Mod(float64(seed)*math.Phi, 1))
	out.Work = fits[first:min(len(fits), first+jobs)]
	need := 0.0
	for _, j := range out.Work {
		need += j.RunTime.D().Seconds() * float64(j.GPUs)
	}
	from := out.Work[0].Submitted
	span := out.Work[len(out.Work)-1].Submitted.Sub(from).Seconds()
	for i := range out.Work {
		at := out.Work[i].Submitted.Sub(from).Seconds() / max(1, span) * need / float64(gpus)
		out.Work[i].Submitted = w.Start.Add(time.Duration(at) * time.Second)
	}
	return out
}

// run simulates a workload twice: the first time to know what will happen, for the
// forecasts that know it.
func (c ForecastConfig) run(name, spec string, k knowledge, seed uint64) ([]foreseen, error) {
	w, err := c.workload(name, seed)
	if err != nil {
		return nil, err
	}
	o, err := c.oddsOf(name, seed)
	if err != nil {
		return nil, err
	}
	var told *seer
	for range 2 {
		s := newSeer(spec, k, seed, told)
		s.odds = o
		_, err := simulate(spec, c.Cluster, w, func(cfg *sim.Config) {
			s.inner, cfg.Policy, cfg.Estimates, cfg.Seed, cfg.Interval = cfg.Policy, s, k.estimates, seed, 0
		})
		if err != nil {
			return nil, err
		}
		told = s
	}
	return told.cases, nil
}

// runs simulates the workloads of all seeds, side by side.
func (c ForecastConfig) runs(name, spec string, k knowledge, seeds []uint64) ([]foreseen, error) {
	cases, errs := make([][]foreseen, len(seeds)), make([]error, len(seeds))
	var wait sync.WaitGroup
	for i, seed := range seeds {
		wait.Go(func() { cases[i], errs[i] = c.run(name, spec, k, seed) })
	}
	wait.Wait()
	return slices.Concat(cases...), errors.Join(errs...)
}

// foreseen is one start: what was expected, and when it came.
type foreseen struct {
	forecast.Asked                // before the ledger corrects it
	told           forecast.Range // after
	known          bool
	// floor, runTimes and oracle are the starts foreseen with more knowledge; zero: none.
	floor, runTimes, oracle time.Time
	start                   time.Time
}

// rate fills in how good forecasts were.
func rate(row ForecastRow, cases []foreseen) ForecastRow {
	var offs, widths, floor, runTimes, oracle []float64
	inside, raw := 0, 0
	for _, f := range cases {
		wait := f.start.Sub(f.At).Seconds()
		if f.start.IsZero() || !f.known || wait < 1 {
			if !f.known {
				row.None++
			}
			continue
		}
		row.Cases++
		inside += holds(f.told, f.start)
		raw += holds(f.Range, f.start)
		off := func(t time.Time) float64 {
			if t.IsZero() {
				return math.Inf(1)
			}
			return math.Abs(t.Sub(f.start).Seconds()) / wait
		}
		width := math.Inf(1)
		if !f.told.Late.IsZero() {
			width = f.told.Late.Sub(f.told.Early).Seconds() / wait
		}
		offs, widths = append(offs, off(f.told.Middle)), append(widths, width)
		floor, runTimes, oracle = append(floor, off(f.floor)), append(runTimes, off(f.runTimes)), append(oracle, off(f.oracle))
	}
	if n := float64(row.Cases); n > 0 {
		row.Inside, row.Raw = float64(inside)/n, float64(raw)/n
		row.Error, row.Width = median(offs), median(widths)
		row.Floor, row.RunTimes, row.Oracle = median(floor), median(runTimes), median(oracle)
	}
	return row
}

// holds is 1 if a range holds a time, else 0.
func holds(r forecast.Range, at time.Time) int {
	if at.Before(r.Early) || !r.Late.IsZero() && at.After(r.Late) {
		return 0
	}
	return 1
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
