// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Fairness holds the metrics of one run.
type Fairness struct {
	Apps     []AppOutcome // in order of arrival
	Max      float64      // largest rho
	Jain     float64      // of rho
	GPUHours float64      // held
	Ideal    float64      // GPU hours of the work on the best placement, without preemption
	// Score is the mean of 1/S over the GPU time held, excluding restarts: 1 if
	// every job always ran on its best placement.
	Score    float64
	JCT      float64 // mean of jobs, hours
	Restarts int
}

// AppOutcome is what happened to an app.
type AppOutcome struct {
	App  sched.AppID
	Jobs int
	Rho  float64 // 0: it did not end
	Time float64 // hours from its submission to the end of its last job
}

// Outcome is a policy over several mixes.
type Outcome struct {
	Policy string
	Runs   []Fairness
	Oracle bool // it planned with exact estimates
}

// label names the policy in a table.
func (o Outcome) label() string { return label(o.Policy, o.Oracle) }

// fairnessOf computes the metrics of a result.
func fairnessOf(w *sim.Workload, res *sim.Result) Fairness {
	f := Fairness{Max: res.MaxRho, Jain: res.JainRho, GPUHours: res.GPUSeconds / 3600, JCT: res.AvgJCT / 3600, Restarts: res.Restarts}
	for i := range w.Work {
		f.Ideal += w.Work[i].RunTime.D().Hours() * float64(w.Work[i].GPUs)
	}
	if held := f.GPUHours - res.LostGPUs/3600; held > 0 {
		f.Score = f.Ideal / held
	}
	at := map[sched.AppID]int{}
	for i := range res.Jobs {
		j := &res.Jobs[i]
		k, ok := at[j.App]
		if !ok {
			k = len(f.Apps)
			at[j.App] = k
			f.Apps = append(f.Apps, AppOutcome{App: j.App, Rho: j.Rho})
		}
		f.Apps[k].Jobs++
		f.Apps[k].Time = max(f.Apps[k].Time, (j.End-j.Submit)/3600)
	}
	return f
}

// Overhead is the GPU time beyond Ideal, as a share of Ideal.
func (f Fairness) Overhead() float64 { return f.GPUHours/f.Ideal - 1 }

// Within is the share of apps whose rho is at most a bound.
func (f Fairness) Within(bound float64) float64 {
	n := 0
	for _, a := range f.Apps {
		if a.Rho > 0 && a.Rho <= bound {
			n++
		}
	}
	return float64(n) / float64(len(f.Apps))
}

// jobsPerApp is the mean number of jobs of an app.
func (f Fairness) jobsPerApp() float64 {
	n := 0
	for _, a := range f.Apps {
		n += a.Jobs
	}
	return float64(n) / float64(len(f.Apps))
}

// Span is the mean of a figure over mixes, and its range.
type Span struct{ Mean, Low, High float64 }

// Over summarises a figure over all mixes.
func (o Outcome) Over(figure func(Fairness) float64) Span {
	s := Span{Low: math.Inf(1), High: math.Inf(-1)}
	for _, f := range o.Runs {
		x := figure(f)
		s.Mean += x / float64(len(o.Runs))
		s.Low, s.High = min(s.Low, x), max(s.High, x)
	}
	if len(o.Runs) == 0 {
		return Span{}
	}
	return s
}

// The figures.
func maxRho(f Fairness) float64   { return f.Max }
func jainRho(f Fairness) float64  { return f.Jain }
func gpuHours(f Fairness) float64 { return f.GPUHours }
func overhead(f Fairness) float64 { return f.Overhead() }
func score(f Fairness) float64    { return f.Score }
func meanJCT(f Fairness) float64  { return f.JCT }
func restarts(f Fairness) float64 { return float64(f.Restarts) }

func meanRho(f Fairness) float64 {
	sum, n := 0.0, 0.0
	for _, a := range f.Apps {
		if a.Rho > 0 {
			sum += a.Rho
			n++
		}
	}
	return sum / max(1, n)
}

// Rho returns rho of the apps of all mixes, ascending.
func (o Outcome) Rho() []float64 {
	var out []float64
	for _, f := range o.Runs {
		for _, a := range f.Apps {
			if a.Rho > 0 {
				out = append(out, a.Rho)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Within is the share of the apps of all mixes whose rho is at most a bound.
func (o Outcome) Within(bound float64) float64 {
	n, all := 0.0, 0.0
	for _, f := range o.Runs {
		n += f.Within(bound) * float64(len(f.Apps))
		all += float64(len(f.Apps))
	}
	if all == 0 {
		return 0
	}
	return n / all
}
