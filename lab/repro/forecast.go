// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// ForecastConfig is the experiment on how well expected starts are calibrated.
type ForecastConfig struct {
	Kinds    []string // of generated workloads
	Cluster  string
	Jobs     int
	Span     time.Duration
	Seeds    []uint64
	Policies []string
	Progress func(string)
}

// DefaultForecast is a cluster on which jobs wait. Its seeds were not used to choose the
// constants of experience.Lengths; 1 to 3 were.
func DefaultForecast() ForecastConfig {
	return ForecastConfig{
		Kinds: []string{trace.KindPhilly, trace.KindPollux}, Cluster: "8x4:t4", Jobs: 150, Span: 24 * time.Hour, Seeds: []uint64{4, 5, 6},
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
}

// Forecast forecasts the start of every job when it first waits, and compares.
func Forecast(c ForecastConfig) ([]ForecastRow, error) {
	var rows []ForecastRow
	for _, kind := range c.Kinds {
		for _, spec := range c.Policies {
			for _, k := range knowledges() {
				if c.Progress != nil {
					c.Progress(kind + " " + spec + " " + k.name)
				}
				var all []foreseen
				for _, seed := range c.Seeds {
					cases, err := c.run(kind, spec, k, seed)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", spec, err)
					}
					all = append(all, cases...)
				}
				rows = append(rows, rate(ForecastRow{Workload: kind, Policy: spec, Known: k.name}, all))
			}
		}
	}
	return rows, nil
}

func (c ForecastConfig) run(kind, spec string, k knowledge, seed uint64) ([]foreseen, error) {
	w, err := trace.Generate(trace.Gen{Kind: kind, Jobs: c.Jobs, GPUs: 8, Seed: seed, Span: c.Span})
	if err != nil {
		return nil, err
	}
	s := &seer{spec: spec, knowledge: k, seed: seed, last: map[sched.JobID]sched.Job{}, open: map[sched.JobID]int{}}
	_, err = simulate(spec, c.Cluster, w, func(cfg *sim.Config) {
		s.inner, cfg.Policy, cfg.Estimates, cfg.Seed, cfg.Interval = cfg.Policy, s, k.estimates, seed, 0
	})
	return s.cases, err
}

// foreseen is one start: what was expected, and when it came.
type foreseen struct {
	asked time.Time
	forecast.Range
	known bool
	start time.Time
}

// seer is a policy that forecasts the starts of jobs that begin to wait. It sees what a
// daemon would see.
type seer struct {
	knowledge
	inner   sched.Policy
	spec    string
	seed    uint64
	lengths experience.Lengths
	last    map[sched.JobID]sched.Job // as of the last decision
	open    map[sched.JobID]int       // index of the case
	cases   []foreseen
}

// Schedule implements sched.Policy.
func (p *seer) Schedule(s *sched.Snapshot) sched.Plan {
	p.learn(s)
	plan := p.inner.Schedule(s)
	for i, j := range s.Jobs {
		at, asked := p.open[j.ID]
		starts := len(plan.Want[i]) > 0
		switch {
		case starts && asked && p.cases[at].start.IsZero():
			p.cases[at].start = s.Now
		case !starts && !asked && j.Starts == 0 && plan.Why[i].Code != sched.Impossible:
			p.open[j.ID] = len(p.cases)
			p.cases = append(p.cases, p.ask(s, j))
		}
	}
	return plan
}

// learn notes the jobs that have ended since the last decision.
func (p *seer) learn(s *sched.Snapshot) {
	now := make(map[sched.JobID]sched.Job, len(s.Jobs))
	for _, j := range s.Jobs {
		now[j.ID] = *j
	}
	for id, j := range p.last {
		if _, there := now[id]; !there {
			p.lengths.Learn(likeOf(&j), j.Estimate.D(), j.RanBy(s.Now))
		}
	}
	p.last = now
}

func likeOf(j *sched.Job) experience.JobKey {
	return experience.JobKey{App: string(j.App), Tenant: string(j.Tenant), User: j.User, Model: j.Model, GPUs: j.GPUs}
}

func (p *seer) ask(s *sched.Snapshot, j *sched.Job) foreseen {
	inner, err := policy.Builtin().New(p.spec)
	if err != nil {
		return foreseen{}
	}
	lengths := p.lengths // with the jobs that run now
	for _, o := range s.Jobs {
		if o.Phase == sched.Running {
			lengths.Watch(likeOf(o), o.Estimate.D(), o.RanBy(s.Now))
		}
	}
	starts, err := forecast.Starts(s, forecast.Config{Policy: inner, Seed: p.seed, Most: forecast.MostJobs / 4, Future: func(r *rand.Rand) forecast.Left {
		draw := lengths.Future(r)
		return func(j *sched.Job) (time.Duration, bool) {
			if p.reports && j.Work > 0 && j.Rate > 0 {
				left := (j.Work - j.DoneBy(s.Now)) / j.Rate
				return time.Duration(left * math.Exp(experience.ReportSpread*r.NormFloat64()) * float64(time.Second)), true
			}
			total, basis := draw(likeOf(j), j.Estimate.D(), j.RanBy(s.Now))
			return total - j.RanBy(s.Now), basis != experience.Nothing
		}
	}}, j.ID)
	f := foreseen{asked: s.Now}
	f.Range, f.known = starts[j.ID]
	f.known = f.known && err == nil
	return f
}

// rate fills in how good forecasts were.
func rate(row ForecastRow, cases []foreseen) ForecastRow {
	var errors, widths []float64
	inside := 0
	for _, f := range cases {
		wait := f.start.Sub(f.asked).Seconds()
		if f.start.IsZero() || !f.known || wait < 1 {
			if !f.known {
				row.None++
			}
			continue
		}
		row.Cases++
		if !f.start.Before(f.Early) && (f.Late.IsZero() || !f.start.After(f.Late)) {
			inside++
		}
		off, width := math.Inf(1), math.Inf(1)
		if !f.Middle.IsZero() {
			off = math.Abs(f.Middle.Sub(f.start).Seconds()) / wait
		}
		if !f.Late.IsZero() {
			width = f.Late.Sub(f.Early).Seconds() / wait
		}
		errors, widths = append(errors, off), append(widths, width)
	}
	if row.Cases > 0 {
		slices.Sort(errors)
		slices.Sort(widths)
		row.Inside, row.Error, row.Width = float64(inside)/float64(row.Cases), errors[len(errors)/2], widths[len(widths)/2]
	}
	return row
}

// PrintForecast writes the experiment as Markdown.
func PrintForecast(w io.Writer, c ForecastConfig, rows []ForecastRow) {
	fmt.Fprintf(w, `# How well the expected start is calibrated

When a job begins to wait, its start is forecast as `+"`fairway explain`"+` does; when it starts,
the two are compared. The range should hold the start in 85 to 95 %% of cases, and the median
error should be below 20 %% of the wait. Where a row misses a target, the figure is bold.

    fairway repro forecast

Cluster %s, %d seeds, generated workloads of %d jobs within %s. A forecast knows what agents report
about running jobs (within 10 %%), or what users estimate (with the errors users make), or only
how long past jobs ran. It does not know which jobs will be submitted later: policies that let
those overtake are foreseen less well. A row counts every job that waited, and jobs of one
busy hour are early or late together, so the figures of a row scatter by several per cent.

| workload | policy | known | starts | no forecast | within the range | median error | width of the range |
|---|---|---|---|---|---|---|---|
`, c.Cluster, len(c.Seeds), c.Jobs, c.Span)
	for _, r := range rows {
		inside, off := fmt.Sprintf("%.0f %%", 100*r.Inside), fmt.Sprintf("%.0f %%", 100*r.Error)
		if r.Cases == 0 {
			inside, off = "-", "-"
		} else if r.Inside < 0.85 || r.Inside > 0.95 {
			inside = "**" + inside + "**"
		}
		if r.Cases > 0 && r.Error >= 0.2 {
			off = "**" + off + "**"
		}
		fmt.Fprintf(w, "| %s | `%s` | %s | %d | %d | %s | %s | %.1f waits |\n", r.Workload, r.Policy, r.Known, r.Cases, r.None, inside, off, r.Width)
	}
}
