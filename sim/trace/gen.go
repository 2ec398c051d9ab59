// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// The kinds of workload that Generate draws.
const (
	KindPhilly = "philly" // a production cluster: Philly (ATC'19)
	KindPollux = "pollux" // jobs that train a model to the end: Pollux (OSDI'21)
	KindHorus  = "horus"  // jobs that leave GPUs half idle, with predicted utilisation: Horus (TPDS'22)
	KindThemis = "themis" // hyper-parameter searches: Themis (NSDI'20)
	KindHelios = "helios" // a production cluster with many short jobs: Helios (SC'21)
	KindFlood  = "flood"  // a tenant floods the cluster with small jobs, another needs gangs
	KindGiant  = "giant"  // a gang of all GPUs among days of small jobs
	KindTiny   = "tiny"   // thousands of jobs that take seconds
)

// Kinds returns every kind of workload that Generate draws.
func Kinds() []string {
	return []string{KindFlood, KindGiant, KindHelios, KindHorus, KindPhilly, KindPollux, KindThemis, KindTiny}
}

// Gen says what to draw. The same Gen gives the same workload.
type Gen struct {
	Kind string `json:"kind"`
	Jobs int    `json:"jobs"`
	GPUs int    `json:"gpus"` // of the cluster that the workload is for
	Seed uint64 `json:"seed"`
	// Load sets the arrival rate. For philly and helios it is the share of the GPUs that would
	// be in use, once the cluster has filled up, if no job ever waited. For themis,
	// horus, flood, giant and tiny it is the GPU time that the jobs need (the small
	// ones, of the last three) over the GPU time available within Span. For pollux, whose jobs have no run time, 1 is the paper's rate: 20
	// jobs an hour for 64 GPUs. 0 is the kind's default: 0.8 for philly
	// and helios, 0.9 for themis, 1 for pollux, 1.3 for horus, 1.56, 0.95 and 0.56 for
	// flood, giant and tiny.
	Load float64 `json:"load,omitempty"`
	// Span is the time within which the jobs are submitted. 0: it follows from
	// Jobs, GPUs and Load. Load and Span cannot both be given.
	Span time.Duration `json:"span,omitempty"`
	// MaxGPUs is the size of the largest job. 0: GPUs.
	MaxGPUs int `json:"max_gpus,omitempty"`
	// Longest is the longest run time of an attempt (philly, themis). 0: as
	// published, which is 60 days for philly: a few such jobs have most of the GPU
	// time, and a short workload is better without them.
	Longest time.Duration `json:"longest,omitempty"`
	// Bursts is how uneven the arrivals of each virtual cluster are from week to week: the
	// standard deviation of the logarithm of their rate (philly). 0: all virtual clusters
	// are busy at the same times. PhillyBursts is the trace's.
	Bursts float64 `json:"bursts,omitempty"`
	// Light is the share of jobs that use their GPUs less than 60 % (horus). 0: 0.8,
	// which gives a mean utilisation of about 45 %.
	Light float64 `json:"light,omitempty"`
	// Error is the error of predicted utilisations: the standard deviation of ln(1 +
	// percent) around the truth (horus). 0: exact.
	Error float64 `json:"error,omitempty"`
}

// maxGenJobs bounds the memory of Generate: about 1 kB for each job.
const maxGenJobs = 10_000_000

// Generate draws a workload.
func Generate(g Gen) (*sim.Workload, error) {
	if err := g.check(); err != nil {
		return nil, fmt.Errorf("generate workload: %w", err)
	}
	if g.MaxGPUs == 0 {
		g.MaxGPUs = g.GPUs
	}
	wl := &sim.Workload{
		Name:   fmt.Sprintf("%s-%d", g.Kind, g.Jobs),
		Source: fmt.Sprintf("generated: kind %s, %d jobs, %d GPUs, seed %d", g.Kind, g.Jobs, g.GPUs, g.Seed),
		Start:  Epoch,
	}
	switch g.Kind {
	case KindFlood:
		g.flood(wl)
	case KindGiant:
		g.giant(wl)
	case KindHelios:
		g.helios(wl)
	case KindTiny:
		g.tiny(wl)
	case KindHorus:
		g.horus(wl)
	case KindPhilly:
		g.philly(wl)
	case KindPollux:
		g.pollux(wl)
	case KindThemis:
		g.themis(wl)
	}
	return wl, nil
}

func (g *Gen) check() error {
	switch {
	case !slices.Contains(Kinds(), g.Kind):
		return fmt.Errorf("kind = %q; want one of %v", g.Kind, Kinds())
	case g.Jobs < 1 || g.Jobs > maxGenJobs:
		return fmt.Errorf("jobs = %d; want 1 to %d", g.Jobs, maxGenJobs)
	case g.GPUs < 1 || g.GPUs > maxCount:
		return fmt.Errorf("gpus = %d; want 1 to %d", g.GPUs, maxCount)
	case !(g.Load >= 0 && g.Load <= 1000):
		return fmt.Errorf("load = %g; want 0 (the kind's default) to 1000", g.Load)
	case g.Span < 0 || (g.Span > 0 && g.Span < time.Second):
		return fmt.Errorf("span = %s; want 0 (from jobs, gpus and load) or at least 1s", g.Span)
	case g.Span > 0 && g.Load > 0:
		return fmt.Errorf("span = %s and load = %g; want at most one of the two", g.Span, g.Load)
	case g.MaxGPUs < 0 || g.MaxGPUs > g.GPUs:
		return fmt.Errorf("max_gpus = %d; want 0 (all) to the %d of the cluster", g.MaxGPUs, g.GPUs)
	case !(g.Bursts >= 0 && g.Bursts <= 10):
		return fmt.Errorf("bursts = %g; want 0 (none) to 10", g.Bursts)
	case !(g.Light >= 0 && g.Light <= 1):
		return fmt.Errorf("light = %g; want 0 (the default) to 1", g.Light)
	case !(g.Error >= 0 && g.Error <= 10):
		return fmt.Errorf("error = %g; want 0 to 10", g.Error)
	case g.Longest < 0 || (g.Longest > 0 && g.Longest < time.Minute):
		return fmt.Errorf("longest = %s; want 0 (as published) or at least 1m", g.Longest)
	}
	return nil
}

// stream returns a separate source of randomness for each purpose, so that one more
// draw in one of them does not change the others.
func (g *Gen) stream(n uint64) *rand.Rand { return rand.New(rand.NewPCG(g.Seed, n)) }

const (
	jobStream uint64 = iota + 1
	arrivalStream
	burstStream
)

// spanFor returns the time in which the jobs arrive, given the GPU time that they
// need.
func (g *Gen) spanFor(gpuSeconds, load float64) time.Duration {
	if g.Span > 0 {
		return g.Span
	}
	if g.Load > 0 {
		load = g.Load
	}
	seconds := max(1, gpuSeconds/(float64(g.GPUs)*load))
	return time.Duration(min(seconds, maxSeconds)) * time.Second
}

// cap returns a drawn run time in whole seconds, from one to the longest allowed.
func (g *Gen) cap(seconds float64) sched.Duration {
	if g.Longest > 0 {
		seconds = min(seconds, g.Longest.Seconds())
	}
	return sched.Duration(math.Round(max(1, seconds))) * sched.Duration(time.Second)
}

// number sorts jobs by submission and gives ids to those that have none.
func number(wl *sim.Workload, kind string) {
	wl.Work = bySubmission(wl.Work)
	for i := range wl.Work {
		if wl.Work[i].ID == "" {
			wl.Work[i].ID = numbered(kind, i, len(wl.Work))
		}
	}
}

// numbered returns the id of the job at a place among so many.
func numbered(kind string, place, jobs int) sched.JobID {
	return sched.JobID(fmt.Sprintf("%s-%0*d", kind, len(fmt.Sprint(jobs)), place+1))
}

// gpuSeconds is the GPU time that a job needs: all failed attempts, and the
// successful one.
func gpuSeconds(w *sim.Work) float64 {
	return float64(w.GPUs) * ranFor(w).Seconds()
}

// ranFor is the run time of all attempts of a job.
func ranFor(w *sim.Work) time.Duration {
	var sum sched.Duration
	for _, f := range w.Failures {
		sum += f.After
	}
	if w.Outcome != sched.Failed {
		sum += w.RunTime
	}
	return sum.D()
}

// rate is an arrival rate that is constant within each step.
type rate struct {
	step time.Duration
	sum  []float64 // of the weights of all steps until the end of this one
}

// newRate returns a rate over a span. weight is the rate of a step by its start; the
// last step may be partial.
func newRate(span, step time.Duration, weight func(at time.Duration) float64) rate {
	r := rate{step: step}
	var sum float64
	for at := time.Duration(0); at < span; at += step {
		part := min(step, span-at)
		sum += weight(at) * part.Seconds()
		r.sum = append(r.sum, sum)
	}
	return r
}

// at returns the time until which the share u of all arrivals has happened.
func (r rate) at(u float64, span time.Duration) time.Duration {
	want := u * r.sum[len(r.sum)-1]
	i, _ := slices.BinarySearchFunc(r.sum, want, cmp.Compare[float64])
	i = min(i, len(r.sum)-1)
	var before float64
	if i > 0 {
		before = r.sum[i-1]
	}
	begin := time.Duration(i) * r.step
	length := min(r.step, span-begin)
	return begin + time.Duration((want-before)/(r.sum[i]-before)*float64(length))
}

// pick returns an index with the probability of its weight, given the running
// sums of the weights and a number from 0 to 1.
func pick(sums []float64, u float64) int {
	i, _ := slices.BinarySearchFunc(sums, u*sums[len(sums)-1], cmp.Compare[float64])
	return min(i, len(sums)-1)
}
