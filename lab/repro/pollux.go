// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Pollux is the reproduction of the Pollux paper's simulations.
type Pollux struct {
	Rows         []ReferenceRow // every policy on every workload
	Exponents    []Variation    // p
	Loads        []Variation    // by policy
	Intervals    []Variation
	Interference []Variation
	Noise        []Variation        // of what agents measure
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

// PolluxPolicies are compared on every workload.
var PolluxPolicies = []string{"pollux", "pollux:genetic", "optimus", "tiresias"}

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
	}{{"exponents", a.exponents}, {"intervals", a.intervals}, {"interference", a.interference}, {"measurement noise", a.noise}, {"the life of a job", a.life}} {
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
			sums[k] = &Variation{Policy: r.Policy, X: load, Paper: 3600 * paperLoads[r.Policy][load]}
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

// Print writes the reproduction as Markdown; images is the folder of the plots,
// relative to the file.
func (p *Pollux) Print(w io.Writer, images string) {
	fmt.Fprint(w, `# Pollux against its reference simulator

Our simulator with the measured profiles of the Pollux artifact (OSDI'21), 60 s rounds and
16 nodes of 4 T4 GPUs, compared with the artifact's own simulator on the same workloads.
"The paper" is the published mean over eight workloads, three of which are public. As in
the reference, `+"`optimus`"+` is an oracle: it knows true step times and lengths. The others use
no estimates of run times.

    fairway repro pollux --data POLLUX_ARTIFACT --out docs/reproduction

## Every policy on every workload

Average JCT in seconds.

| workload | policy | reference | ours | difference |
|---|---|---|---|---|
`)
	for _, load := range loads {
		for _, r := range p.Rows {
			if r.Folder != load.workloads {
				continue
			}
			off := "-"
			ref := "-"
			if r.Reference > 0 {
				ref, off = fmt.Sprintf("%.1f", r.Reference), fmt.Sprintf("%+.1f %%", 100*r.Error())
			}
			fmt.Fprintf(w, "| %s/%s | %s | %s | %.1f | %s |\n", r.Folder, r.Workload, label(r.Policy, r.Result.Oracle), ref, r.Ours, off)
		}
	}
	fmt.Fprintf(w, "\n![average JCT by load](%s/pollux-load.svg)\n", images)
	p.printVariations(w, "The exponent p", "p", p.Exponents, "")
	p.printVariations(w, "The scheduling interval", "minutes", p.Intervals, images+"/pollux-interval.svg")
	p.printVariations(w, "Interference between distributed jobs that share a node", "speed lost, %", p.Interference, images+"/pollux-interference.svg")
	p.printVariations(w, "Noise in what agents measure", "standard deviation of the logarithm", p.Noise, "")
	fmt.Fprint(w, "\n## Finish-time fairness\n\nrho of the jobs of the tuned workloads; the paper reports 99 % below 2 for p = -1.\n\n| policy | rho < 2 | largest rho |\n|---|---|---|\n")
	for _, spec := range PolluxPolicies {
		fmt.Fprintf(w, "| %s | %.1f %% | %.1f |\n", label(spec, policy.Builtin().About(spec).Oracle), 100*p.Fair[spec], p.MaxRho[spec])
	}
	fmt.Fprintf(w, "\n![rho](%s/pollux-rho.svg)\n", images)
	fmt.Fprintf(w, "\n## The life of a job\n\n%s under `pollux` on workload 6: GPUs, batch size and statistical efficiency.\n\n![GPUs](%s/pollux-life-gpus.svg)\n![batch size](%s/pollux-life-batch.svg)\n![efficiency](%s/pollux-life-efficiency.svg)\n", p.LifeOf, images, images, images)
}

func (p *Pollux) printVariations(w io.Writer, title, x string, vs []Variation, image string) {
	fmt.Fprintf(w, "\n## %s\n\nMean of the average JCT over the tuned workloads, in seconds.\n\n| policy | %s | ours | reference, same workloads | the paper, eight workloads |\n|---|---|---|---|---|\n", title, x)
	for _, v := range vs {
		fmt.Fprintf(w, "| `%s` | %g | %.0f | %s | %s |\n", v.Policy, v.X, v.Ours, seconds(v.Reference), seconds(v.Paper))
	}
	if image != "" {
		fmt.Fprintf(w, "\n![%s](%s)\n", strings.ToLower(title), image)
	}
}

func seconds(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", x)
}

// Charts returns the plots by file name.
func (p *Pollux) Charts() map[string]Chart {
	charts := map[string]Chart{
		"pollux-load.svg":         {Title: "Average JCT as the load grows", X: "load (1 = 160 jobs in 8 h)", Y: "hours", Lines: variationLines(p.Loads)},
		"pollux-interval.svg":     {Title: "Average JCT by scheduling interval", X: "minutes between decisions", Y: "hours", LogX: true, Lines: variationLines(p.Intervals)},
		"pollux-interference.svg": {Title: "Average JCT under interference", X: "speed lost by distributed jobs that share a node, %", Y: "hours", Lines: variationLines(p.Interference)},
	}
	rho := Chart{Title: "Finish-time fairness, tuned workloads", X: "rho", Y: "share of jobs", MaxX: 5, MaxY: 1}
	for _, spec := range PolluxPolicies {
		l := Line{Name: spec}
		for i, v := range p.Rho[spec] {
			if v <= rho.MaxX {
				l.Points = append(l.Points, [2]float64{v, float64(i+1) / float64(len(p.Rho[spec]))})
			}
		}
		rho.Lines = append(rho.Lines, l)
	}
	charts["pollux-rho.svg"] = rho
	for name, of := range map[string]func(sim.Watched) float64{
		"GPUs":       func(w sim.Watched) float64 { return float64(w.GPUs) },
		"batch":      func(w sim.Watched) float64 { return float64(w.Batch) },
		"efficiency": func(w sim.Watched) float64 { return w.Efficiency },
	} {
		l := Line{Name: string(p.LifeOf)}
		for _, w := range p.Life {
			l.Points = append(l.Points, [2]float64{w.T / 3600, of(w)})
		}
		charts["pollux-life-"+strings.ToLower(name)+".svg"] = Chart{Title: name + " of " + string(p.LifeOf), X: "hours", Y: name, Step: true, Lines: []Line{l}}
	}
	return charts
}

// variationLines makes a line for each policy, and one for the reference.
func variationLines(vs []Variation) []Line {
	var out []Line
	for _, dashed := range []bool{false, true} {
		for _, v := range vs {
			y, name := v.Ours, v.Policy
			if dashed {
				y, name = v.Reference, v.Policy+", reference"
			}
			if y == 0 || (dashed && strings.Contains(v.Policy, "genetic")) {
				continue
			}
			i := slices.IndexFunc(out, func(l Line) bool { return l.Name == name })
			if i < 0 {
				i = len(out)
				out = append(out, Line{Name: name, Dashed: dashed})
			}
			out[i].Points = append(out[i].Points, [2]float64{v.X, y / 3600})
		}
	}
	return out
}
