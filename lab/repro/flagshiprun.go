// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// trial is one run: a policy in a place.
type trial struct {
	policy string
	place
}

// place is a workload in a setting.
type place struct {
	source
	setting
}

// source is a workload: a file of the data, or generated for the setting's cluster from
// its seed.
type source struct {
	data, file string
	format     trace.Format
	gen        trace.Gen
}

// generated is the workload of "gen:KIND:JOBS".
func generated(kind string, jobs int) source { return source{gen: trace.Gen{Kind: kind, Jobs: jobs}} }

// setting is how a workload is run. The zero value is what "fairway sim" does without
// flags.
type setting struct {
	cluster     string
	tables      string // data with measured tables; "": the zoo
	optimistic  bool
	restart     time.Duration
	lengthError float64
	noLengths   bool
	noHistory   bool // of measurements, although the policy learns from them
	plain       float64
	estimates   sim.Estimates
	interval    time.Duration // 0: that of the policy
	seed        uint64        // 0: 1
}

// most jobs of a run whose result is kept for other parts.
const keptJobs = 500

// run simulates, or returns the result of another part.
func (f *flagship) run(t trial) (*sim.Result, error) {
	f.mu.Lock()
	once := f.runs[t]
	if once == nil {
		once = sync.OnceValues(func() (*sim.Result, error) { return f.simulate(t) })
		f.runs[t] = once
	}
	f.mu.Unlock()
	res, err := once()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	if len(res.Jobs) > keptJobs {
		f.mu.Lock()
		delete(f.runs, t)
		f.mu.Unlock()
	}
	return res, nil
}

func (f *flagship) simulate(t trial) (*sim.Result, error) {
	slot := <-f.slots
	defer func() { f.slots <- slot }()
	cfg, err := f.config(&t, slot)
	if err != nil {
		return nil, err
	}
	if f.Progress != nil {
		f.mu.Lock()
		f.Progress(t.String())
		f.mu.Unlock()
	}
	w, err := f.workload(&t, cfg.Cluster)
	if err != nil {
		return nil, err
	}
	res, _, err := sim.Run(cfg, w)
	if err != nil {
		return nil, err
	}
	res.Series = nil
	return res, nil
}

// String names a run for progress and errors.
func (t trial) String() string { return t.policy + " on " + t.name() }

// name is that of the workload.
func (p place) name() string {
	if p.file != "" {
		return strings.TrimSuffix(p.file, path.Ext(p.file))
	}
	return fmt.Sprintf("%s, seed %d", p.gen.Kind, cmp.Or(p.seed, 1))
}

// config is that of "fairway sim" with the flags of the setting.
func (f *flagship) config(t *trial, known tables) (sim.Config, error) {
	cfg, err := configOf(t.policy)
	if err != nil {
		return cfg, err
	}
	if cfg.Cluster, err = clusterOf(t.cluster); err != nil {
		return cfg, err
	}
	cfg.Seed, cfg.Retry, cfg.Sharing = cmp.Or(t.seed, 1), time.Minute, &sim.Sharing{Scatter: true}
	cfg.Interval, cfg.Agent = cmp.Or(t.interval, time.Minute), 30*time.Second
	cfg.Estimates, cfg.Optimistic, cfg.Restart = t.estimates, t.optimistic, t.restart
	cfg.LengthError, cfg.NoLengths, cfg.Plain = t.lengthError, t.noLengths, t.plain
	if t.tables != "" {
		cfg.Interference, cfg.Agent = 0, cfg.Interval
		if cfg.Profiles, err = f.profiles(t.tables, known); err != nil {
			return cfg, err
		}
	}
	about := policy.Builtin().About(t.policy)
	if about.Events && t.interval == 0 {
		cfg.Interval = 0
	}
	if about.Learns && !t.noHistory {
		cfg.Experience = experience.New()
	}
	return cfg, nil
}

// themisMix and lightMix are the cluster of the page about Themis, and a rack of that
// about Horus.
const themisMix, lightMix = "themis", "horus"

func clusterOf(name string) (*sched.Cluster, error) {
	switch name {
	case themisMix:
		return themisCluster(1)
	case lightMix:
		c, err := shareCluster()
		if err != nil {
			return nil, err
		}
		return sched.NewCluster(c.Nodes[:32])
	}
	return sim.ParseCluster(name, "t4")
}

// profiles reads the measured tables of some data, if they are not known yet.
func (f *flagship) profiles(data string, known tables) (*profile.Tables, error) {
	if t := known[data]; t != nil {
		return t, nil
	}
	traces, err := fs.Sub(f.Data[data], "traces")
	if err != nil {
		return nil, err
	}
	known[data], err = profile.Read(traces)
	return known[data], err
}

func (f *flagship) workload(t *trial, c *sched.Cluster) (*sim.Workload, error) {
	if t.file == "" {
		g := t.gen
		g.Jobs, g.GPUs, g.Seed = max(1, g.Jobs/max(1, f.Scale)), c.GPUs(), cmp.Or(t.seed, 1)
		return trace.Generate(g)
	}
	file, err := f.Data[t.data].Open(t.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	w, _, err := trace.Read(file, trace.Options{Format: t.format, Name: path.Base(t.file)})
	return w, err
}

// files are the workloads of some data by pattern, in order.
func (f *flagship) files(data, pattern string, format trace.Format, s setting) ([]place, error) {
	names, err := fs.Glob(f.Data[data], pattern)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no %s in the folder of --%s", pattern, data)
	}
	var out []place
	for _, name := range names {
		out = append(out, place{source{data: data, file: name, format: format}, s})
	}
	return out, nil
}

// seeds are 1 to Seeds.
func (f *flagship) seeds() (out []uint64) {
	for i := range max(1, f.Seeds) {
		out = append(out, uint64(i+1))
	}
	return out
}

// seeded are places with a generated workload, one for each seed.
func (f *flagship) seeded(src source, s setting) (out []place) {
	for _, s.seed = range f.seeds() {
		out = append(out, place{src, s})
	}
	return out
}

// compare runs several policies in each place, adds their rows, and returns the results
// by place and policy.
func (f *flagship) compare(p *FlagshipPart, places []place, policies ...string) ([][]*sim.Result, error) {
	out, err := f.each(places, policies...)
	if err != nil {
		return nil, err
	}
	for i, at := range places {
		for j, spec := range policies {
			p.figures(trial{spec, at}, out[i][j])
		}
	}
	return out, nil
}

// each runs several policies in each place, all at once, as many as there are slots.
func (f *flagship) each(places []place, policies ...string) ([][]*sim.Result, error) {
	out, errs := make([][]*sim.Result, len(places)), make([]error, len(places)*len(policies))
	var wait sync.WaitGroup
	for i, at := range places {
		out[i] = make([]*sim.Result, len(policies))
		for j, spec := range policies {
			wait.Go(func() { out[i][j], errs[i*len(policies)+j] = f.run(trial{spec, at}) })
		}
	}
	wait.Wait()
	return out, errors.Join(errs...)
}

// figureHead is the head of a table of runs.
var figureHead = []string{"workload", "policy", "avg JCT", "p99", "makespan", "largest rho", "restarts"}

// figures adds the row of a run.
func (p *FlagshipPart) figures(t trial, res *sim.Result) {
	p.Head = figureHead
	p.row(t.name(), label(t.policy, res.Oracle), hours(res.AvgJCT), hours(res.P99JCT), hours(res.Makespan), fmt.Sprintf("%.2f", res.MaxRho), res.Restarts)
}

// hours prints seconds: as seconds below an hour or two, else as hours.
func hours(seconds float64) string {
	if seconds < 2*3600 {
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.2f h", seconds/3600)
}
