// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

const streamCluster = "8x8"

// The targets, in hours.
const (
	giantWait = 6.0
	giantJCT  = 2.2
	quietJCT  = 1.2
)

// streamRivals are shown beside the flagship, by kind.
var streamRivals = map[string][]string{
	trace.KindGiant: {"themis", "las"}, trace.KindFlood: {"themis", "drf"}, trace.KindTiny: {"tiresias"},
}

func (f *flagship) streamsPart(p *FlagshipPart) error {
	p.About = "Streams made to break promises, on 8 nodes of 8 GPUs. `giant`: eight days of small jobs at a load of 0.95; after 6 h a gang of all 64 GPUs, after 12 h one of 32. `flood`: a tenant submits 3,000 jobs of one GPU within 20 h; another, entitled to half of the GPUs, a gang of 8 every hour. `tiny`: 4,000 jobs of 5 to 60 s within an hour, and four long ones. GPU time is wasted while a GPU is free and a job waits that would fit on the free ones."
	p.Head = []string{"stream", "policy", "avg JCT", "wait of giant", "wait of half", "avg JCT of quiet", "GPU time wasted"}
	for _, kind := range []string{trace.KindGiant, trace.KindFlood, trace.KindTiny} {
		specs := append(slices.Clone(streamRivals[kind]), polluxPolicy, f.Policy)
		p.Commands = append(p.Commands, fmt.Sprintf("fairway sim --workload gen:%s:%d --cluster %s --policy %s --seed S", kind, trace.StreamJobs[kind], streamCluster, strings.Join(specs, ",")))
		places := f.seeded(generated(kind, trace.StreamJobs[kind]), setting{cluster: streamCluster})
		first, err := f.each(places[:1], specs...) // the others only show what the stream does
		if err != nil {
			return err
		}
		more, err := f.each(places[1:], f.Policy)
		if err != nil {
			return err
		}
		row := func(at place, spec string, res *sim.Result) {
			p.row(at.name(), label(spec, res.Oracle), hours(res.AvgJCT), waitOf(res, "giant"), waitOf(res, "half"), quiet(res), fmt.Sprintf("%.0f s", wasted(res)))
		}
		for i, res := range first[0] {
			row(places[0], specs[i], res)
		}
		ours := first[0][len(specs)-1:]
		for i, res := range more {
			row(places[1+i], f.Policy, res[0])
			ours = append(ours, res[0])
		}
		p.claim(streamClaims(kind, ours)...)
	}
	return nil
}

// streamClaims are those about one kind of stream, on every seed.
func streamClaims(kind string, runs []*sim.Result) []Claim {
	worst := func(figure func(*sim.Result) float64) (worst float64, all string) {
		var each []string
		for _, res := range runs {
			x := figure(res)
			worst = max(worst, x)
			each = append(each, fmt.Sprintf("%.2f", x))
		}
		return worst, strings.Join(each, ", ")
	}
	claim := func(what, want, unit string, bound float64, figure func(*sim.Result) float64) Claim {
		x, all := worst(figure)
		return Claim{what, want, all + unit, x <= bound}
	}
	jct := func(r *sim.Result) float64 { return r.AvgJCT / 3600 }
	switch kind {
	case trace.KindGiant:
		return []Claim{
			claim("`giant`: wait of the 64-GPU gang, each seed", fmt.Sprintf("%.0f h or less", giantWait), " h", giantWait, func(r *sim.Result) float64 { return waited(r, "giant") / 3600 }),
			claim("`giant`: average JCT, each seed", fmt.Sprintf("%.1f h or less", giantJCT), " h", giantJCT, jct),
		}
	case trace.KindFlood:
		return []Claim{claim("`flood`: average JCT of the quiet tenant, each seed", fmt.Sprintf("%.1f h or less", quietJCT), " h", quietJCT, func(r *sim.Result) float64 { return quietTime(r) / 3600 })}
	}
	return []Claim{claim("`tiny`: GPU time free while a job waited that could use it, each seed", "none", " GPU-s", 0, wasted)}
}

// waited is how long a job waited for its first start: to the end of the run if it
// never started.
func waited(res *sim.Result, id sched.JobID) float64 {
	i := slices.IndexFunc(res.Jobs, func(j sim.JobResult) bool { return j.ID == id })
	if i < 0 {
		return 0
	}
	return res.Jobs[i].Wait
}

func waitOf(res *sim.Result, id sched.JobID) string {
	if !slices.ContainsFunc(res.Jobs, func(j sim.JobResult) bool { return j.ID == id }) {
		return "-"
	}
	return hours(waited(res, id))
}

// quietTime is the average JCT of the quiet tenant.
func quietTime(res *sim.Result) float64 {
	sum, n := 0.0, 0.0
	for i := range res.Jobs {
		if j := &res.Jobs[i]; j.Tenant == "quiet" {
			sum, n = sum+j.JCT, n+1
		}
	}
	return sum / max(1, n)
}

func quiet(res *sim.Result) string {
	if t := quietTime(res); t > 0 {
		return hours(t)
	}
	return "-"
}

// wasted is the GPU time that was free while a job waited that would have fitted on the
// free GPUs of the cluster, however these lie.
func wasted(res *sim.Result) (seconds float64) {
	type change struct {
		at         float64
		held       int // GPUs
		waits, job int // jobs of that size
	}
	var changes []change
	for i := range res.Jobs {
		j := &res.Jobs[i]
		changes = append(changes, change{at: j.Submit, waits: 1, job: j.GPUs})
		for k, s := range j.Runs {
			changes = append(changes, change{s.Start, s.GPUs, -1, j.GPUs})
			after := change{s.End, -s.GPUs, 1, j.GPUs}
			if k == len(j.Runs)-1 && j.End >= 0 {
				after.waits = 0
			}
			changes = append(changes, after)
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	held, last, waiting := 0, 0.0, map[int]int{}
	for _, c := range changes {
		if free := res.Cluster.GPUs - held; c.at > last && free > 0 {
			seconds += (c.at - last) * float64(fitting(waiting, free))
		}
		held, last = held+c.held, c.at
		waiting[c.job] += c.waits
	}
	return seconds
}

// fitting is how many of the free GPUs waiting jobs could use, by size, small ones first.
func fitting(waiting map[int]int, free int) (used int) {
	for size := 1; size <= free-used; size++ {
		used += size * min(waiting[size], (free-used)/size)
	}
	return used
}
