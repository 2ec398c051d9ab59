// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"math"
	"slices"
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
	Policies []string
	Progress func(string)
}

// DefaultForecast is a cluster on which jobs wait. Its seeds were not used to choose the
// constants of packages experience and forecast; 1 to 8 were looked at.
func DefaultForecast() ForecastConfig {
	return ForecastConfig{
		Kinds: []string{trace.KindPhilly, trace.KindPollux}, Cluster: "8x4:t4", Jobs: 150, Span: 24 * time.Hour, Seeds: []uint64{11, 12, 13},
		Policies: []string{"fifo", "fifo:backfill", "las", "tiresias", "srtf"},
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
	// RunTimes is the error of a forecast that knows how long each job runs, Oracle of
	// one that also knows which jobs are submitted later.
	RunTimes, Oracle float64
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
				var all []foreseen
				for _, seed := range c.Seeds {
					w, err := c.workload(name, seed)
					if err != nil {
						return nil, err
					}
					cases, err := c.run(w, spec, k, seed)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", spec, err)
					}
					all = append(all, cases...)
				}
				rows = append(rows, rate(ForecastRow{Workload: name, Policy: spec, Known: k.name}, all))
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
		return trace.Generate(trace.Gen{Kind: name, Jobs: c.Jobs, GPUs: 8, Seed: seed, Span: c.Span})
	}
	cluster, err := sim.ParseCluster(c.Cluster, "t4")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Traces, func(w *sim.Workload) bool { return w.Name == name })
	return part(c.Traces[i], c.Jobs, seed, cluster.GPUs()), nil
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
func (c ForecastConfig) run(w *sim.Workload, spec string, k knowledge, seed uint64) ([]foreseen, error) {
	var told *seer
	for range 2 {
		s := newSeer(spec, k, seed, told)
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

// foreseen is one start: what was expected, and when it came.
type foreseen struct {
	forecast.Asked                // before the ledger corrects it
	told           forecast.Range // after
	known          bool
	// runTimes and oracle are the starts foreseen with more knowledge; zero: none.
	runTimes, oracle time.Time
	start            time.Time
}

// rate fills in how good forecasts were.
func rate(row ForecastRow, cases []foreseen) ForecastRow {
	var errors, widths, runTimes, oracle []float64
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
		errors, widths = append(errors, off(f.told.Middle)), append(widths, width)
		runTimes, oracle = append(runTimes, off(f.runTimes)), append(oracle, off(f.oracle))
	}
	if n := float64(row.Cases); n > 0 {
		row.Inside, row.Raw = float64(inside)/n, float64(raw)/n
		row.Error, row.Width, row.RunTimes, row.Oracle = median(errors), median(widths), median(runTimes), median(oracle)
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
