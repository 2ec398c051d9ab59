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

	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// rigid is a trace of jobs with a size and a length. Its clusters were chosen so that
// jobs have to wait.
type rigid struct {
	name, cluster string
	source
	rivals []string // none: traceRivals
	gangs  bool     // compare the wait of large gangs
}

// reserving is the policy whose queueing of large gangs is to be beaten.
const reserving = "philly@defrag@reserve"

// traceRivals are the policies among which the best one counts: none is an oracle,
// because they see estimates from history only. On a first Helios-like trace the other
// policies were behind the best of these, or took too long.
var traceRivals = []string{"fifo:backfill", "srsf", "las", "tiresias", "tiresias:gittins", "philly", "sia", "gavel:sjf"}

// crowded is a generated trace in which jobs have to wait, without the few that run for
// weeks and have most of the GPU time.
func crowded(kind string) source {
	return source{gen: trace.Gen{Kind: kind, Jobs: 2500, Load: 0.95, Longest: 48 * time.Hour}}
}

// rigidTraces are compared. The real jobs of Philly take as long as all others together,
// so that only two other policies are run on them.
var rigidTraces = []rigid{
	{name: "Philly-like, 2,500 jobs", cluster: "64x8/8", source: crowded(trace.KindPhilly), gangs: true},
	{name: "Helios-like, 2,500 jobs", cluster: "64x8/8", source: crowded(trace.KindHelios), gangs: true},
	{name: "Gavel, 96 jobs", cluster: "4x8", source: source{data: "gavel", file: "traces/physical_cluster/max_min_fairness.trace", format: trace.Gavel}},
	{name: "Gavel, 951 jobs", cluster: "4x8", source: source{data: "gavel", file: "traces/msr/seed=0/ed69ec.trace", format: trace.Gavel}},
	{name: "Shockwave, 120 jobs", cluster: "8x4", source: source{data: "shockwave", file: "120"}, rivals: append([]string{"shockwave"}, traceRivals...)},
	{name: "Shockwave, 220 jobs", cluster: "16x4", source: source{data: "shockwave", file: "220"}, rivals: append([]string{"shockwave"}, traceRivals...)},
	{name: "Philly, 109,524 jobs", cluster: "240x8/20+285x2/38", source: source{data: "philly", file: "philly_jobs_reconstructed.csv"},
		rivals: []string{"las", "tiresias:gittins"}, gangs: true},
}

func (f *flagship) tracesPart(p *FlagshipPart) error {
	p.About = fmt.Sprintf("Jobs that run at the size they ask for and have no agent, with estimates from history. The best other policy is the best of %s, on the same workload. Large gangs are those of more than 8 GPUs.", "`"+strings.Join(traceRivals, "`, `")+"`, and `shockwave` on its own traces")
	p.Commands = []string{
		"fairway trace gen --kind KIND --jobs 2500 --gpus 512 --load 0.95 --longest 2d --seed S --out FILE",
		fmt.Sprintf("fairway sim --workload FILE --cluster CLUSTER --seed S --policy %s,%s,%s", f.Policy, strings.Join(traceRivals, ","), reserving),
	}
	p.Head = []string{"trace", "policy", "avg JCT", "p99", "makespan", "wait of gangs > 8", "restarts"}
	for _, r := range rigidTraces {
		if r.data != "" && f.Data[r.data] == nil {
			p.NotRun = append(p.NotRun, fmt.Sprintf("%s needs --%s", r.name, r.data))
			continue
		}
		if r.data == "shockwave" {
			var err error
			if r.source, err = f.shockwaveTrace(r.file); err != nil {
				return err
			}
		}
		if err := f.rigidTrace(p, r); err != nil {
			return err
		}
	}
	return nil
}

// shockwaveTrace finds a trace of the artifact by its number of jobs.
func (f *flagship) shockwaveTrace(jobs string) (source, error) {
	i := slices.IndexFunc(shockwaveTraces, func(t shockwaveFile) bool { return strings.HasPrefix(t.file, jobs+"_") })
	file := path.Join("traces/reproduce", shockwaveTraces[i].file)
	_, err := fs.Stat(f.Data["shockwave"], file)
	return source{data: "shockwave", file: file, format: trace.Gavel}, err
}

// rigidTrace compares the flagship with the others on one trace.
func (f *flagship) rigidTrace(p *FlagshipPart, r rigid) error {
	jct, wait := inHours(), inHours()
	best := ""
	specs := slices.Clone(r.rivals)
	if len(specs) == 0 {
		specs = slices.Clone(traceRivals)
	}
	if r.gangs {
		specs = append(specs, reserving)
	}
	specs = append(specs, f.Policy)
	places := f.seeded(r.source, setting{cluster: r.cluster})
	if r.file != "" {
		places = places[:1]
	}
	results, err := f.each(places, specs...)
	if err != nil {
		return err
	}
	for i, at := range places {
		least := 0.0
		var ours, theirs *sim.Result
		for j, res := range results[i] {
			spec := specs[j]
			p.row(r.label(at.seed), label(spec, res.Oracle), hours(res.AvgJCT), hours(res.P99JCT), hours(res.Makespan), gangWait(res), res.Restarts)
			switch {
			case spec == f.Policy:
				ours = res
			case spec == reserving:
				theirs = res
			case least == 0 || res.AvgJCT < least:
				best, least = spec, res.AvgJCT
			}
		}
		jct.add(ours.AvgJCT, least)
		if r.gangs {
			mine, _ := PhillyRun{Result: ours}.Wait(9, 1<<30)
			other, _ := PhillyRun{Result: theirs}.Wait(9, 1<<30)
			wait.add(mine, other)
		}
	}
	p.claim(jct.atMost(fmt.Sprintf("%s: average JCT over that of the best other, `%s`, each", r.name, best), jct.worst(), 1))
	if r.gangs {
		p.claim(wait.atMost(fmt.Sprintf("%s: mean wait of gangs of more than 8 over `%s`, each", r.name, reserving), wait.worst(), 1))
	}
	return nil
}

func (r rigid) label(seed uint64) string {
	if r.file != "" {
		return r.name
	}
	return fmt.Sprintf("%s, seed %d", r.name, seed)
}

// gangWait prints the mean wait of gangs of more than 8 GPUs.
func gangWait(res *sim.Result) string {
	wait, jobs := PhillyRun{Result: res}.Wait(9, 1<<30)
	if jobs == 0 {
		return "-"
	}
	return hours(wait)
}

// ablation is the flagship with one part off.
type ablation struct {
	name, knobs string // knobs follow the policy's name
	flags       string // of "fairway sim"
	interval    time.Duration
	noHistory   bool
}

// flagshipAblations are those of fairway. The first is the policy as it is.
var flagshipAblations = []ablation{
	{name: "as it is"},
	{name: "rank by work left", knobs: ":rank=0"},
	{name: "events", flags: " --interval 60s", interval: time.Minute},
	{name: "history", flags: " --experience off", noHistory: true},
	{name: "restart price", knobs: ":restart=0s"},
	{name: "longest wait", knobs: ":wait=0s"},
	{name: "bound on rho", knobs: ":bound=0"},
	{name: "sharing", knobs: ":share=false"},
}

// ablationsPart uses generated workloads beside those of the Pollux artifact.
func (f *flagship) ablationsPart(p *FlagshipPart) error {
	p.About = "The policy with one part off at a time, as a ratio of its average JCT to that of `pollux` on the same workload: mean over the workloads."
	p.Head = []string{"without", "policy", "avg JCT over `pollux`", "worst workload", "largest rho"}
	var places []place
	if f.Data["pollux"] != nil {
		var err error
		if places, err = f.files("pollux", tuned+"/workload-*.csv", "pollux", asReference); err != nil {
			return err
		}
		p.Commands = append(p.Commands, f.polluxCommand(tuned, "POLICY", " --optimistic"))
	} else {
		p.NotRun = append(p.NotRun, "the measured tables need --pollux")
	}
	places = append(places, f.seeded(generated(trace.KindPollux, 160), setting{cluster: polluxCluster})...)
	p.Commands = append(p.Commands, fmt.Sprintf("fairway sim --workload gen:pollux:160 --cluster %s --policy POLICY --seed S", polluxCluster))
	base, err := f.each(places, polluxPolicy)
	if err != nil {
		return err
	}
	var bars []Bar
	for _, a := range flagshipAblations {
		without := slices.Clone(places)
		for i := range without {
			without[i].interval, without[i].noHistory = a.interval, a.noHistory
		}
		results, err := f.each(without, f.Policy+a.knobs)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		jct, rho := inSeconds(), 0.0
		for i, res := range results {
			jct.add(res[0].AvgJCT, base[i][0].AvgJCT)
			rho = max(rho, res[0].MaxRho)
		}
		p.row(a.name, "`"+f.Policy+a.knobs+a.flags+"`", fmt.Sprintf("%.3f", jct.mean()), fmt.Sprintf("%.3f", jct.worst()), fmt.Sprintf("%.2f", rho))
		bars = append(bars, Bar{Name: a.name, Value: jct.mean()})
	}
	p.plot = Bars{Title: "Average JCT relative to pollux, with one part off", Y: "ratio", Bars: bars}
	return nil
}
