// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// maxDemand bounds the points of the demand series; longer workloads have longer
// steps.
const maxDemand = 2000

// demandSteps are readable lengths of a step.
var demandSteps = []time.Duration{
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	48 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 364 * 24 * time.Hour,
}

// demandSeries counts the submissions of every step until the last one, and the GPUs
// that would be in use if no job ever waited.
func demandSeries(wl *sim.Workload) DemandSeries {
	if len(wl.Work) == 0 {
		return DemandSeries{}
	}
	var last time.Duration
	for i := range wl.Work {
		last = max(last, wl.Work[i].Submitted.Sub(wl.Start))
	}
	step := demandSteps[len(demandSteps)-1]
	for _, s := range demandSteps {
		if last/s < maxDemand {
			step = s
			break
		}
	}
	n := int(last/step) + 1
	d := DemandSeries{Step: step.Seconds(), Points: make([]DemandPoint, n)}
	busy := make([]float64, n+1) // GPU-seconds by step; changes of full steps are summed up below
	full := make([]float64, n+1)
	for i := range wl.Work {
		w := &wl.Work[i]
		from := max(0, w.Submitted.Sub(wl.Start).Seconds()/d.Step)
		p := &d.Points[int(from)]
		p.Jobs++
		p.Submitted += w.GPUs
		if known(w) {
			addBusy(busy, full, from, from+ranFor(w).Seconds()/d.Step, float64(w.GPUs))
		}
	}
	var level float64
	for i := range d.Points {
		level += full[i]
		p := &d.Points[i]
		p.T = float64(i) * d.Step
		p.GPUs = level + busy[i]
		d.Mean += p.GPUs / float64(n)
		d.Peak = max(d.Peak, p.GPUs)
	}
	return d
}

// addBusy adds a job that holds gpus from one time to another, both in steps: the
// partial steps at its ends to busy, the change of level at the whole steps between
// to full.
func addBusy(busy, full []float64, from, to, gpus float64) {
	end := float64(len(busy) - 1)
	to = min(to, end)
	first, last := math.Floor(from), math.Floor(to)
	if first == last {
		busy[int(first)] += gpus * (to - from)
		return
	}
	busy[int(first)] += gpus * (first + 1 - from)
	busy[int(last)] += gpus * (to - last)
	full[int(first)+1] += gpus
	full[int(last)] -= gpus
}

func tenantStats(wl *sim.Workload) []TenantStat {
	byID := map[sched.TenantID]*TenantStat{}
	users := map[sched.TenantID]map[string]bool{}
	var total float64
	tenant := func(id sched.TenantID) *TenantStat {
		if byID[id] == nil {
			byID[id] = &TenantStat{ID: id}
			users[id] = map[string]bool{}
		}
		return byID[id]
	}
	for _, t := range wl.Tenants {
		tenant(t.ID).Quota = t.Quota
	}
	for i := range wl.Work {
		w := &wl.Work[i]
		if w.Tenant == "" {
			continue
		}
		t := tenant(w.Tenant)
		t.Jobs++
		if w.User != "" {
			users[w.Tenant][w.User] = true
		}
		if known(w) {
			t.GPUTimeShare += gpuSeconds(w)
			total += gpuSeconds(w)
		}
	}
	var out []TenantStat
	for id, t := range byID {
		t.Users = len(users[id])
		t.Share = ratio(t.Jobs, len(wl.Work))
		t.GPUTimeShare = div(t.GPUTimeShare, total)
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b TenantStat) int {
		return cmp.Or(cmp.Compare(b.GPUTimeShare, a.GPUTimeShare), cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func modelStats(wl *sim.Workload) []ModelStat {
	count := map[string]int{}
	for i := range wl.Work {
		if m := wl.Work[i].Model; m != "" {
			count[m]++
		}
	}
	var out []ModelStat
	for model, jobs := range count {
		out = append(out, ModelStat{model, jobs, ratio(jobs, len(wl.Work))})
	}
	slices.SortFunc(out, func(a, b ModelStat) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Model, b.Model))
	})
	return out
}

func outcomeStats(wl *sim.Workload) []OutcomeStat {
	out := make([]OutcomeStat, len(paperOutcomes))
	var total float64
	for i := range out {
		out[i].Outcome = paperOutcomes[i].end
	}
	for i := range wl.Work {
		w := &wl.Work[i]
		o := &out[outcomeOf(w)-sched.Finished]
		o.Jobs++
		if known(w) {
			o.GPUTimeShare += gpuSeconds(w)
			total += gpuSeconds(w)
		}
	}
	for i := range out {
		out[i].Share = ratio(out[i].Jobs, len(wl.Work))
		out[i].GPUTimeShare = div(out[i].GPUTimeShare, total)
	}
	return out
}

// utilSums sums utilisation and its weights by outcome, all of them first.
type utilSums struct {
	jobs        int
	sum, weight [4]float64
}

func (u *utilSums) add(w *sim.Work) {
	// Without a run time, the weight of a job is its GPUs.
	weight := float64(w.GPUs)
	if known(w) {
		weight = gpuSeconds(w)
	}
	u.jobs++
	for _, k := range [...]int{0, 1 + int(outcomeOf(w)-sched.Finished)} {
		u.sum[k] += weight * w.GPUUtil
		u.weight[k] += weight
	}
}

func (u *utilSums) stat(gpus int) UtilStat {
	of := func(k int) float64 { return div(u.sum[k], u.weight[k]) }
	return UtilStat{GPUs: gpus, Jobs: u.jobs, All: of(0), Passed: of(1), Killed: of(2), Failed: of(3)}
}

func utilStats(wl *sim.Workload) []UtilStat {
	sums := make([]utilSums, len(paperUtils)+1) // the last one: all sizes
	for i := range wl.Work {
		w := &wl.Work[i]
		if w.GPUUtil == 0 {
			continue
		}
		sums[len(paperUtils)].add(w)
		for k := range paperUtils {
			if paperUtils[k].gpus == w.GPUs {
				sums[k].add(w)
			}
		}
	}
	if sums[len(paperUtils)].jobs == 0 {
		return nil
	}
	var out []UtilStat
	for k := range paperUtils {
		out = append(out, sums[k].stat(paperUtils[k].gpus))
	}
	return append(out, sums[len(paperUtils)].stat(0))
}
