// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// ForecastConfig is the experiment on how well expected starts are calibrated.
type ForecastConfig struct {
	Kinds    []string        // of generated workloads
	Traces   []*sim.Workload // recorded ones
	Cluster  string
	Jobs     int                      // of each workload
	Gaps     map[string]time.Duration // mean time between submissions, by kind
	Seeds    []uint64                 // on which no constant of the forecast was chosen
	Policies []string
	Dear     []string // policies whose simulation takes minutes: measured with what agents report alone
	Progress func(part string, done, all int)
}

// DefaultForecast is a cluster on which jobs wait for hours.
func DefaultForecast() ForecastConfig {
	return ForecastConfig{
		Kinds: []string{trace.KindPhilly, trace.KindPollux}, Cluster: "8x4:t4", Jobs: 300,
		Gaps:  map[string]time.Duration{trace.KindPhilly: 288 * time.Hour / 300, trace.KindPollux: 96 * time.Hour / 300},
		Seeds: seedsFrom(101, 10), Policies: []string{"fifo"}, Dear: []string{"fairway"},
	}
}

// chosenSeeds are those on which the constants of the forecast were chosen.
const chosenSeeds = "21 to 30"

// otherGap is the mean time between submissions of kinds that have none of their own.
const otherGap = 10 * time.Minute

func seedsFrom(first, n uint64) (out []uint64) {
	for i := range n {
		out = append(out, first+i)
	}
	return out
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

// forecastTask is a row: what is simulated on each of the seeds.
type forecastTask struct {
	workload, policy string
	knowledge
	floors int // on so many of the seeds the floor is measured
}

// floorSeeds is the number of seeds on which the floor is measured, which costs half as
// much as the forecast.
const floorSeeds = 2

// tasks returns the rows.
func (c ForecastConfig) tasks() (out []forecastTask) {
	for _, policy := range c.Policies {
		for _, workload := range c.workloads() {
			for _, k := range knowledges() {
				out = append(out, forecastTask{workload, policy, k, floorSeeds})
			}
		}
	}
	for _, policy := range c.Dear {
		for _, workload := range c.workloads() {
			out = append(out, forecastTask{workload, policy, knowledges()[0], 0})
		}
	}
	return out
}

// Forecast forecasts the start of every job when it first waits, and compares.
func Forecast(c ForecastConfig) ([]ForecastRow, error) {
	tasks := c.tasks()
	cases := make([][][]foreseen, len(tasks))
	var runs [][2]int // task and seed
	for i := range tasks {
		cases[i] = make([][]foreseen, len(c.Seeds))
		for k := range c.Seeds {
			runs = append(runs, [2]int{i, k})
		}
	}
	err := each("forecasts", runtime.NumCPU(), len(runs), c.Progress, func(n int) (err error) {
		i, k := runs[n][0], runs[n][1]
		if cases[i][k], err = c.run(tasks[i], c.Seeds[k]); err != nil {
			err = fmt.Errorf("%s, %s, seed %d: %w", tasks[i].workload, tasks[i].policy, c.Seeds[k], err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var rows []ForecastRow
	for i, t := range tasks {
		row := ForecastRow{Workload: t.workload, Policy: t.policy, Known: t.name}
		rows = append(rows, rate(row, cases[i]))
		row.Coarse = true
		rows = append(rows, rate(row, without(cases[i])))
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
	return piece(c.Traces[i], c.Jobs, seed, cluster.GPUs()), nil
}

func (c ForecastConfig) gen(kind string, seed uint64) trace.Gen {
	gap := cmp.Or(c.Gaps[kind], otherGap)
	return trace.Gen{Kind: kind, Jobs: c.Jobs, GPUs: 8, Seed: seed, Span: time.Duration(c.Jobs) * gap}
}

// mostGPUs is the size of the largest job that is taken from a trace, as a part of the
// cluster.
const mostGPUs = 0.25

// piece returns jobs of a trace that follow each other, beginning at another place for
// each seed. The times between their submissions are stretched so that they need as much
// GPU time as the cluster has within them.
func piece(w *sim.Workload, jobs int, seed uint64, gpus int) *sim.Workload {
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
func (c ForecastConfig) run(t forecastTask, seed uint64) ([]foreseen, error) {
	w, err := c.workload(t.workload, seed)
	if err != nil {
		return nil, err
	}
	o, err := c.oddsOf(t.workload, seed)
	if err != nil {
		return nil, err
	}
	var told *seer
	for range 2 {
		s := newSeer(t.policy, t.knowledge, seed, told)
		if slices.Index(c.Seeds, seed) < t.floors {
			s.odds = o
		}
		_, err := simulate(t.policy, c.Cluster, w, func(cfg *sim.Config) {
			s.inner, cfg.Policy, cfg.Estimates, cfg.Seed, cfg.Interval = cfg.Policy, s, t.estimates, seed, 0
		})
		if err := cmp.Or(err, s.err); err != nil {
			return nil, err
		}
		told = s
	}
	return told.cases, nil
}
