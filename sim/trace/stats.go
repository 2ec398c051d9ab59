// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sim"
)

// Statistics are those of the Philly paper, for any workload. Times are seconds
// unless a name says otherwise, shares are parts of 1. A job of unknown run time (it
// trains a model to the end) counts in no figure that needs one.
//
// A job's duration is the run time of all its attempts; its GPU time is the duration
// times its GPUs: what it would hold alone on a cluster.
type Statistics struct {
	Name     string  `json:"name"`
	Source   string  `json:"source,omitempty"`
	Jobs     int     `json:"jobs"`
	Apps     int     `json:"apps"`
	Users    int     `json:"users"`
	Unknown  int     `json:"unknown_run_time"` // jobs without a run time
	Span     float64 `json:"span_s"`           // first to last submission
	GPUHours float64 `json:"gpu_hours"`

	Sizes    []SizeStat    `json:"sizes"`
	Arrivals ArrivalStat   `json:"arrivals"`
	Demand   DemandSeries  `json:"demand"`
	Tenants  []TenantStat  `json:"tenants,omitempty"`
	Models   []ModelStat   `json:"models,omitempty"`
	Outcomes []OutcomeStat `json:"outcomes"`
	Util     []UtilStat    `json:"utilisation,omitempty"` // none: unknown for every job
	Failures FailureStat   `json:"failures"`
}

// SizeStat describes the jobs of one size bucket.
type SizeStat struct {
	Size         string      `json:"size"` // "1", "2-4", "5-8", ">8"
	Jobs         int         `json:"jobs"`
	Share        float64     `json:"share"`
	GPUTimeShare float64     `json:"gpu_time_share"`
	Mean         float64     `json:"mean_s"`
	P10          float64     `json:"p10_s"`
	P50          float64     `json:"p50_s"`
	P90          float64     `json:"p90_s"`
	P95          float64     `json:"p95_s"`
	P99          float64     `json:"p99_s"`
	CDF          []CDFPoint  `json:"cdf,omitempty"` // of the durations
	Exact        []ExactSize `json:"exact"`         // the sizes in the bucket
}

// ExactSize counts the jobs of one size.
type ExactSize struct {
	GPUs int `json:"gpus"`
	Jobs int `json:"jobs"`
}

// CDFPoint says that a share P of the values is at most X.
type CDFPoint struct {
	X float64 `json:"x"`
	P float64 `json:"p"`
}

// ArrivalStat describes the times between submissions.
type ArrivalStat struct {
	MeanGap float64     `json:"mean_gap_s"`
	P50Gap  float64     `json:"p50_gap_s"`
	P90Gap  float64     `json:"p90_gap_s"`
	CV      float64     `json:"cv"`      // standard deviation of the gaps over their mean; 1: Poisson
	ByHour  [24]float64 `json:"by_hour"` // share of the jobs, by hour of the day
	ByDay   [7]float64  `json:"by_day"`  // likewise, from Monday
}

// DemandSeries is the demand over time, in steps of equal length.
type DemandSeries struct {
	Step   float64       `json:"step_s"`
	Points []DemandPoint `json:"points"`
	Mean   float64       `json:"mean_gpus"` // until the last submission
	Peak   float64       `json:"peak_gpus"`
}

// DemandPoint is one step of the demand.
type DemandPoint struct {
	T         float64 `json:"t_s"` // its beginning, since the workload's start
	Jobs      int     `json:"submitted"`
	Submitted int     `json:"submitted_gpus"`
	GPUs      float64 `json:"gpus"` // mean number in use if no job ever waited
}

// TenantStat describes one tenant.
type TenantStat struct {
	ID           sched.TenantID `json:"id"`
	Quota        int            `json:"quota"`
	Jobs         int            `json:"jobs"`
	Users        int            `json:"users"`
	Share        float64        `json:"share"`
	GPUTimeShare float64        `json:"gpu_time_share"`
}

// ModelStat counts the jobs of one model.
type ModelStat struct {
	Model string  `json:"model"`
	Jobs  int     `json:"jobs"`
	Share float64 `json:"share"`
}

// OutcomeStat is a row of the paper's table 6.
type OutcomeStat struct {
	Outcome      sched.Phase `json:"outcome"`
	Jobs         int         `json:"jobs"`
	Share        float64     `json:"share"`
	GPUTimeShare float64     `json:"gpu_time_share"`
}

// UtilStat is a row of the paper's table 3: mean utilisation of GPUs, weighted by GPU
// time. 0: unknown.
type UtilStat struct {
	GPUs   int     `json:"gpus"` // 0: all sizes
	Jobs   int     `json:"jobs"`
	Passed float64 `json:"passed"`
	Killed float64 `json:"killed"`
	Failed float64 `json:"failed"`
	All    float64 `json:"all"`
}

// sizeNames are the paper's size buckets.
var sizeNames = [...]string{"1", "2-4", "5-8", ">8"}

func sizeBucket(gpus int) int {
	switch {
	case gpus <= 1:
		return 0
	case gpus <= 4:
		return 1
	case gpus <= 8:
		return 2
	}
	return 3
}

// outcomeOf is the outcome of a job with the default filled in.
func outcomeOf(w *sim.Work) sched.Phase {
	if w.Outcome == sched.Cancelled || w.Outcome == sched.Failed {
		return w.Outcome
	}
	return sched.Finished
}

// known reports whether the run time of a job is known.
func known(w *sim.Work) bool { return w.RunTime > 0 }

// Stats describes a workload.
func Stats(wl *sim.Workload) *Statistics {
	s := &Statistics{Name: wl.Name, Source: wl.Source, Jobs: len(wl.Work)}
	users, apps := map[string]bool{}, map[sched.AppID]bool{}
	var first, last time.Time
	for i := range wl.Work {
		w := &wl.Work[i]
		if w.User != "" {
			users[w.User] = true
		}
		apps[cmp.Or(w.App, sched.AppID(w.ID))] = true
		if known(w) {
			s.GPUHours += gpuSeconds(w) / 3600
		} else {
			s.Unknown++
		}
		if i == 0 || w.Submitted.Before(first) {
			first = w.Submitted
		}
		if i == 0 || w.Submitted.After(last) {
			last = w.Submitted
		}
	}
	s.Users, s.Apps, s.Span = len(users), len(apps), last.Sub(first).Seconds()
	s.Sizes = sizeStats(wl)
	s.Arrivals = arrivalStats(wl)
	s.Demand = demandSeries(wl)
	s.Tenants = tenantStats(wl)
	s.Models = modelStats(wl)
	s.Outcomes = outcomeStats(wl)
	s.Util = utilStats(wl)
	s.Failures = failureStats(wl)
	return s
}

func sizeStats(wl *sim.Workload) []SizeStat {
	out := make([]SizeStat, len(sizeNames))
	var seconds [len(sizeNames)][]float64
	var gpuTime [len(sizeNames)]float64
	var total float64
	exact := map[int]int{}
	for i := range wl.Work {
		w := &wl.Work[i]
		k := sizeBucket(w.GPUs)
		out[k].Jobs++
		exact[w.GPUs]++
		if known(w) {
			seconds[k] = append(seconds[k], ranFor(w).Seconds())
			gpuTime[k] += gpuSeconds(w)
			total += gpuSeconds(w)
		}
	}
	for gpus, jobs := range exact {
		k := sizeBucket(gpus)
		out[k].Exact = append(out[k].Exact, ExactSize{gpus, jobs})
	}
	for k := range out {
		s, v := &out[k], seconds[k]
		slices.Sort(v)
		slices.SortFunc(s.Exact, func(a, b ExactSize) int { return cmp.Compare(a.GPUs, b.GPUs) })
		s.Size = sizeNames[k]
		s.Share, s.GPUTimeShare = ratio(s.Jobs, len(wl.Work)), div(gpuTime[k], total)
		s.Mean = num.Mean(v)
		s.P10, s.P50, s.P90 = num.Quantile(v, 0.10), num.Quantile(v, 0.50), num.Quantile(v, 0.90)
		s.P95, s.P99 = num.Quantile(v, 0.95), num.Quantile(v, 0.99)
		s.CDF = cdf(v)
	}
	return out
}

func arrivalStats(wl *sim.Workload) ArrivalStat {
	var a ArrivalStat
	at := make([]float64, len(wl.Work))
	for i := range wl.Work {
		t := wl.Work[i].Submitted
		at[i] = t.Sub(wl.Start).Seconds()
		a.ByHour[t.Hour()] += 1 / float64(len(wl.Work))
		a.ByDay[(int(t.Weekday())+6)%7] += 1 / float64(len(wl.Work))
	}
	if len(at) < 2 {
		return a
	}
	slices.Sort(at)
	gaps := make([]float64, len(at)-1)
	for i := range gaps {
		gaps[i] = at[i+1] - at[i]
	}
	a.MeanGap, a.P50Gap, a.P90Gap = num.Mean(gaps), num.Quantile(gaps, 0.5), num.Quantile(gaps, 0.9)
	var square float64
	for _, g := range gaps {
		square += (g - a.MeanGap) * (g - a.MeanGap)
	}
	a.CV = div(math.Sqrt(square/float64(len(gaps))), a.MeanGap)
	return a
}

// cdfPoints bounds the points of a curve.
const cdfPoints = 200

// cdf reduces sorted values to the points of a curve.
func cdf(sorted []float64) []CDFPoint {
	var out []CDFPoint
	n := len(sorted)
	for i := range min(n, cdfPoints) {
		k := i
		if n > cdfPoints {
			k = i * (n - 1) / (cdfPoints - 1)
		}
		p := CDFPoint{X: sorted[k], P: float64(k+1) / float64(n)}
		if last := len(out) - 1; last >= 0 && out[last].X == p.X {
			out[last] = p
			continue
		}
		out = append(out, p)
	}
	return out
}

func ratio(a, b int) float64 { return div(float64(a), float64(b)) }

// div is a/b, and 0 if b is 0.
func div(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
