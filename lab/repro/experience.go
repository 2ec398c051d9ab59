// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"time"

	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// ExperienceConfig is the experiment on reusing measurements of past jobs.
type ExperienceConfig struct {
	Jobs  int
	GPUs  int
	Seeds int
	Noise float64 // of what agents measure
}

// DefaultExperience is a stream of recurring jobs with the model mix and length of
// the Pollux evaluation.
func DefaultExperience() ExperienceConfig {
	return ExperienceConfig{Jobs: 160, GPUs: 64, Seeds: 5, Noise: 0.1}
}

// ExperienceRow is one way of starting new jobs, by seed.
type ExperienceRow struct {
	Name     string
	JCT, P50 []float64 // seconds
	Restarts []float64
}

// Experience replays the same stream of jobs with and without a pool of
// experience, and with a pool that is wrong.
func Experience(c ExperienceConfig) ([]ExperienceRow, error) {
	rows := []ExperienceRow{
		{Name: "off: no job knows of earlier ones"},
		{Name: "on: empty at first, filled by the jobs of the run"},
		{Name: "a full pool, from an earlier run"},
		{Name: "a wrong pool: every measured time 5 times too long"},
	}
	for seed := uint64(1); seed <= uint64(c.Seeds); seed++ {
		past := experience.New()
		if _, err := c.run(seed+1000, past); err != nil {
			return nil, err
		}
		wrong, err := c.wrongPool(past)
		if err != nil {
			return nil, err
		}
		for i, pool := range []*experience.Pool{nil, experience.New(), past, wrong} {
			res, err := c.run(seed, pool)
			if err != nil {
				return nil, err
			}
			rows[i].JCT = append(rows[i].JCT, res.AvgJCT)
			rows[i].P50 = append(rows[i].P50, res.P50JCT)
			rows[i].Restarts = append(rows[i].Restarts, float64(res.Restarts))
		}
	}
	return rows, nil
}

func (c ExperienceConfig) run(seed uint64, pool *experience.Pool) (*sim.Result, error) {
	cluster, err := sim.ParseCluster(fmt.Sprintf("%dx4", c.GPUs/4), "t4")
	if err != nil {
		return nil, err
	}
	w, err := trace.Generate(trace.Gen{Kind: "pollux", Jobs: c.Jobs, GPUs: c.GPUs, Seed: seed})
	if err != nil {
		return nil, err
	}
	cfg, err := configOf("pollux")
	if err != nil {
		return nil, err
	}
	cfg.Cluster, cfg.Seed, cfg.Interval, cfg.Agent = cluster, seed, time.Minute, 30*time.Second
	cfg.Noise, cfg.Experience = c.Noise, pool
	res, _, err := sim.Run(cfg, w)
	return res, err
}

// wrongPool makes a pool in which every measured time is five times too long.
func (c ExperienceConfig) wrongPool(past *experience.Pool) (*experience.Pool, error) {
	wrong := experience.New()
	for _, model := range []string{"cifar10", "ncf", "deepspeech2", "bert", "yolov3", "imagenet"} {
		k := experience.Key{Model: model}
		r, _, ok := past.Nearest(k)
		if !ok {
			continue
		}
		o := experience.Outcome{Profiles: map[string]*goodput.Profile{}, Noise: r.Noise}
		for t, samples := range r.Samples {
			o.Profiles[t] = &goodput.Profile{}
			for _, s := range samples {
				s.Step, s.Sync = 5*s.Step, 5*s.Sync
				if err := o.Profiles[t].Add(s); err != nil {
					return nil, err
				}
			}
		}
		if err := wrong.Learn(k, o); err != nil {
			return nil, err
		}
	}
	return wrong, nil
}

// PrintExperience writes the experiment as Markdown.
func PrintExperience(w io.Writer, c ExperienceConfig, rows []ExperienceRow) {
	fmt.Fprintf(w, `# Reusing the measurements of past jobs

%d jobs of the Pollux mix on %d GPUs under `+"`pollux`"+`, with %.0f %% noise on what agents
measure; means of %d seeds with their standard deviation, changes seed by seed. The pool holds
what earlier jobs of the same model measured; a new job starts from it and drops it when its own
measurements contradict it. On which seeds its rules were chosen is not recorded; take it that
these were among them.

The Pollux paper says that models measured beforehand shorten short jobs by 2 to 5 %% and long
ones not at all. Its artifact has no runs of that, so that there is no reference.

    fairway repro experience

| experience | avg JCT | against off | median JCT | restarts |
|---|---|---|---|---|
`, c.Jobs, c.GPUs, 100*c.Noise, c.Seeds)
	for _, r := range rows {
		jct, change, p50, restarts := meanOf(r.JCT), meanOf(ratios(r.JCT, rows[0].JCT)), meanOf(r.P50), meanOf(r.Restarts)
		fmt.Fprintf(w, "| %s | %.1f ± %.1f min | %+.1f ± %.1f %% | %.1f ± %.1f min | %.0f ± %.0f |\n", r.Name,
			jct.Mean/60, jct.Spread/60, change.Mean, change.Spread, p50.Mean/60, p50.Spread/60, restarts.Mean, restarts.Spread)
	}
}
