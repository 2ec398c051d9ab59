// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// Pollux is the reproduction of the Pollux paper's simulations.
type Pollux struct {
	Rows         []ReferenceRow // every policy on every workload
	Exponents    []Variation    // p
	Loads        []Variation    // by policy
	Drawn        []DrawnRow     // on generated workloads
	Intervals    []Variation
	Interference []Variation
	Noise        []Variation        // of what agents measure
	Full         []FullRow          // without the reference's simplifications
	Fair         map[string]float64 // by policy: share of jobs with rho < 2, on the tuned workloads
	MaxRho       map[string]float64
	Rho          map[string][]float64 // by policy, of the tuned workloads, ascending
	Life         []sim.Watched        // of the largest job of workload 6, under pollux
	LifeOf       sched.JobID
}

// Variation is the mean of the average JCT over the available workloads, with one
// setting changed.
type Variation struct {
	Policy    string
	X         float64
	Ours      float64 // seconds
	Reference float64 // the reference simulator on the same workloads; 0: unknown
	Paper     float64 // the published mean over all eight workloads; 0: unknown
}

// DrawnRow is a policy on workloads that are drawn from the paper's mix at load 1.0.
type DrawnRow struct {
	Policy string
	JCT    []float64 // average JCT in seconds, by seed
}

// FullRow compares a run with the same without the reference's simplifications.
type FullRow struct {
	Policy, Workload string
	Optimistic, Full *sim.Result
	Saving           *sim.Result // with a checkpoint every five minutes
}

// PolluxPolicies are compared on every workload.
var PolluxPolicies = []string{"pollux", "pollux:genetic", "optimus", ReferenceTiresias}

// RunPollux runs the reproduction. say, if not nil, is called with the name of
// each part.
func (a *Artifact) RunPollux(elapsed func() time.Duration, say func(string)) (*Pollux, error) {
	if say == nil {
		say = func(string) {}
	}
	p := &Pollux{Fair: map[string]float64{}, MaxRho: map[string]float64{}, Rho: map[string][]float64{}}
	for _, spec := range PolluxPolicies {
		var folders []string
		if strings.Contains(spec, "genetic") {
			folders = []string{tuned} // it is slow
		}
		say(spec + " on the workloads")
		rows, err := a.Compare(spec, elapsed, folders...)
		if err != nil {
			return nil, err
		}
		p.Rows = append(p.Rows, rows...)
	}
	p.fairness()
	p.loads()
	for _, step := range []struct {
		what string
		run  func(*Pollux) error
	}{{"drawn workloads", a.drawn}, {"exponents", a.exponents}, {"intervals", a.intervals}, {"interference", a.interference}, {"measurement noise", a.noise}, {"without simplifications", a.full}, {"the life of a job", a.life}} {
		say(step.what)
		if err := step.run(p); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return p, nil
}

// tuned is the folder of the workloads at load 1.0.
const tuned = "workloads"

func (p *Pollux) fairness() {
	for _, r := range p.Rows {
		if r.Folder != tuned {
			continue
		}
		for i := range r.Result.Jobs {
			p.Rho[r.Policy] = append(p.Rho[r.Policy], r.Result.Jobs[i].Rho)
		}
	}
	for policy, rho := range p.Rho {
		slices.Sort(rho)
		below, _ := slices.BinarySearch(rho, 2)
		p.Fair[policy] = float64(below) / float64(len(rho))
		p.MaxRho[policy] = rho[len(rho)-1]
	}
}

// paperLoads is the published mean over eight workloads, in hours.
var paperLoads = map[string]map[float64]float64{
	"pollux":   {0.5: 0.43, 1: 0.76, 1.5: 1.02, 2: 1.47},
	"optimus":  {0.5: 0.67, 1: 1.58, 1.5: 2.01, 2: 2.70},
	"tiresias": {0.5: 0.58, 1: 1.12, 1.5: 1.72, 2: 2.79},
}

func (p *Pollux) loads() {
	type key struct {
		policy string
		load   float64
	}
	sums := map[key]*Variation{}
	counts := map[key]float64{}
	var order []key
	for _, r := range p.Rows {
		load := map[string]float64{"workloads-0.5": 0.5, "workloads": 1, "workloads-1.5": 1.5, "workloads-2.0": 2}[r.Folder]
		if load == 0 {
			continue
		}
		k := key{r.Policy, load}
		if sums[k] == nil {
			name, _, _ := strings.Cut(r.Policy, ":")
			sums[k] = &Variation{Policy: r.Policy, X: load, Paper: 3600 * paperLoads[name][load]}
			order = append(order, k)
		}
		sums[k].Ours += r.Ours
		sums[k].Reference += r.Reference
		counts[k]++
	}
	for _, k := range order {
		v := *sums[k]
		v.Ours /= counts[k]
		v.Reference /= counts[k]
		p.Loads = append(p.Loads, v)
	}
}

// drawnSeeds is the number of generated workloads.
const drawnSeeds = 5

// drawn replays generated workloads: the artifact has three at each load, too few to tell
// how much is the luck of a workload.
func (a *Artifact) drawn(p *Pollux) error {
	for _, spec := range PolluxPolicies {
		if strings.Contains(spec, "genetic") {
			continue // it is slow
		}
		row := DrawnRow{Policy: spec}
		for seed := uint64(1); seed <= drawnSeeds; seed++ {
			w, err := trace.Generate(trace.Gen{Kind: trace.KindPollux, Jobs: 160, GPUs: 64, Seed: seed})
			if err != nil {
				return err
			}
			res, err := a.simulate(Run{Policy: spec}, w)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", spec, seed, err)
			}
			row.JCT = append(row.JCT, res.AvgJCT)
		}
		p.Drawn = append(p.Drawn, row)
	}
	return nil
}

// mean replays the tuned workloads and averages.
func (a *Artifact) mean(r Run) (float64, error) {
	files, err := fs.Glob(a.data, tuned+"/workload-*.csv")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, file := range files {
		r.Workload = file
		res, err := a.Replay(r)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += res.AvgJCT
	}
	return sum / float64(len(files)), nil
}

// referenceMean averages the artifact's results over the available tuned workloads.
func (a *Artifact) referenceMean(folder string) (float64, error) {
	results, err := a.summary(folder)
	if err != nil {
		return 0, err
	}
	files, err := fs.Glob(a.data, tuned+"/workload-*.csv")
	if err != nil || len(files) == 0 {
		return 0, err
	}
	sum := 0.0
	for _, file := range files {
		jobs := results[strings.TrimSuffix(path.Base(file), ".csv")]
		mean := 0.0
		for _, jct := range jobs {
			mean += jct
		}
		sum += mean / float64(len(jobs))
	}
	return sum / float64(len(files)), nil
}

func (a *Artifact) exponents(p *Pollux) error {
	for _, x := range []float64{1, -1, -10} {
		v := Variation{Policy: fmt.Sprintf("pollux:p=%g", x), X: x}
		var err error
		if v.Ours, err = a.mean(Run{Policy: v.Policy}); err != nil {
			return err
		}
		p.Exponents = append(p.Exponents, v)
	}
	return nil
}

func (a *Artifact) intervals(p *Pollux) error {
	for _, x := range []struct {
		name     string
		interval time.Duration
		paper    float64 // hours
	}{{"30s", 30 * time.Second, 0.758}, {"1m", time.Minute, 0.764}, {"2m", 2 * time.Minute, 0.779}, {"4m", 4 * time.Minute, 0.825}, {"8m", 8 * time.Minute, 0.932}} {
		v := Variation{Policy: "pollux", X: x.interval.Minutes(), Paper: 3600 * x.paper}
		var err error
		if v.Ours, err = a.mean(Run{Policy: fmt.Sprintf("pollux:interval=%s", x.interval), Interval: x.interval}); err != nil {
			return err
		}
		if v.Reference, err = a.referenceMean("results-period/pollux-" + x.name); err != nil {
			return err
		}
		p.Intervals = append(p.Intervals, v)
	}
	return nil
}

func (a *Artifact) interference(p *Pollux) error {
	for _, x := range []struct {
		policy, results string
		loss, paper     float64
	}{
		{"pollux", "avoid", 0, 0.764}, {"pollux", "avoid", 0.25, 0.764}, {"pollux", "avoid", 0.5, 0.764},
		{"pollux:apart=false", "noavoid", 0, 0.766}, {"pollux:apart=false", "inter25", 0.25, 0.883}, {"pollux:apart=false", "inter50", 0.5, 1.084},
	} {
		v := Variation{Policy: x.policy, X: 100 * x.loss, Paper: 3600 * x.paper}
		var err error
		if v.Ours, err = a.mean(Run{Policy: x.policy, Interference: x.loss}); err != nil {
			return err
		}
		if v.Reference, err = a.referenceMean("results-inter/" + x.results); err != nil {
			return err
		}
		p.Interference = append(p.Interference, v)
	}
	return nil
}

// noise blurs what agents measure: step times and gradient statistics.
func (a *Artifact) noise(p *Pollux) error {
	for _, x := range []float64{0, 0.1, 0.2, 0.4} {
		v := Variation{Policy: "pollux", X: x}
		var err error
		if v.Ours, err = a.mean(Run{Policy: v.Policy, Noise: x}); err != nil {
			return err
		}
		p.Noise = append(p.Noise, v)
	}
	return nil
}

// full replays the tuned workloads without the reference's simplifications.
func (a *Artifact) full(p *Pollux) error {
	for _, r := range p.Rows {
		if r.Folder != tuned || strings.Contains(r.Policy, "genetic") {
			continue
		}
		row := FullRow{Policy: r.Policy, Workload: r.Workload, Optimistic: r.Result}
		again := Run{Workload: path.Join(r.Folder, r.Workload+".csv"), Policy: r.Policy, Full: true}
		var err error
		if row.Full, err = a.Replay(again); err != nil {
			return fmt.Errorf("%s: %w", r.Workload, err)
		}
		again.Checkpoint = 5 * time.Minute
		if row.Saving, err = a.Replay(again); err != nil {
			return fmt.Errorf("%s: %w", r.Workload, err)
		}
		p.Full = append(p.Full, row)
	}
	return nil
}

// life watches the job with the most GPU time of workload 6.
func (a *Artifact) life(p *Pollux) error {
	lives := map[sched.JobID][]sim.Watched{}
	res, err := a.Replay(Run{Workload: tuned + "/workload-6.csv", Policy: "pollux", Watch: func(w sim.Watched) {
		lives[w.Job] = append(lives[w.Job], w)
	}})
	if err != nil {
		return err
	}
	most := 0.0
	for i := range res.Jobs {
		if j := &res.Jobs[i]; j.GPUSeconds > most {
			most, p.LifeOf = j.GPUSeconds, j.ID
		}
	}
	p.Life = lives[p.LifeOf]
	return nil
}

// Mean returns the mean over the tuned workloads of a policy's average JCT, and
// of the reference's.
func (p *Pollux) Mean(policy, folder string) (ours, reference float64) {
	n := 0.0
	for _, r := range p.Rows {
		if r.Policy == policy && r.Folder == folder {
			ours += r.Ours
			reference += r.Reference
			n++
		}
	}
	return ours / max(1, n), reference / max(1, n)
}
