// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
)

// Estimates says what policies know about the run time of a job, and about its speed
// on GPUs that it has not run on.
type Estimates string

// The kinds of estimates.
const (
	// History, the default, is what a live system can know: the user's estimate where
	// the workload has one, else the run times of similar past jobs
	// (experience.RunTimes), else nothing. Speeds on other GPU types are borrowed
	// from other models.
	History Estimates = "history"
	// User is History with a user estimate for every job: where the workload has
	// none, one is drawn with the errors that users make.
	User Estimates = "user"
	// None gives no estimates, not even those of the workload.
	None Estimates = "none"
	// Exact gives the true run time and the true speed on every GPU type. Policies
	// that use them are oracles.
	Exact Estimates = "exact"
)

// Check reports an unknown name.
func (e Estimates) Check() error {
	if all := []Estimates{History, User, None, Exact}; !slices.Contains(all, e) {
		return fmt.Errorf("estimates = %q; want one of %v", string(e), all)
	}
	return nil
}

// estimate returns the run-time estimate of a job when it is submitted; 0: none.
func (r *run) estimate(j *job) sched.Duration {
	exact := j.work.RunTime
	if exact == 0 && !math.IsInf(j.alone, 1) {
		exact = sched.Duration(j.alone * 1e9)
	}
	switch {
	case r.Estimates == Exact:
		return exact
	case r.Estimates == None:
		return 0
	case j.work.Estimate > 0 && j.work.Estimate != j.work.RunTime: // older workload files hold the truth there
		return j.work.Estimate
	case r.Estimates == User:
		h := fnv.New64a()
		h.Write([]byte(j.work.ID))
		return sched.Duration(guess(exact.D(), rand.New(rand.NewPCG(r.Seed, h.Sum64()))))
	}
	return sched.Duration(r.times.Estimate(j.like()))
}

// like returns the key of similar jobs.
func (j *job) like() experience.JobKey {
	w := j.work
	return experience.JobKey{App: string(w.App), Tenant: string(w.Tenant), User: w.User, Model: w.Model, GPUs: w.GPUs}
}

// learnRunTime records the run time of a job that has ended: its GPU time over the
// size it asked for.
func (r *run) learnRunTime(j *job) {
	whole := float64(j.state.GPUs) * float64(j.state.Milli()) / sched.WholeGPU
	r.times.Learn(j.like(), time.Duration(j.state.GPUSeconds/whole*1e9))
}

// sureUsers is the share of users whose estimate is as good as a round number allows:
// about the peak at 1 in the histograms of Mu'alem and Feitelson.
const sureUsers = 0.1

// roundTimes are the estimates that users make. About twenty values make up 90 % of
// all estimates, including the longest allowed (Tsafrir, JSSPP'10).
var roundTimes = []time.Duration{
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour, 18 * time.Hour,
	1 * day, 2 * day, 3 * day, 4 * day, 5 * day, 7 * day, 14 * day, 30 * day,
}

const day = 24 * time.Hour

// guess returns what the user of a job would have estimated. Users estimate too much,
// to be safe: the run time as a part of the estimate is spread about evenly from 0 to
// 1, with a peak at 1 (Mu'alem and Feitelson, TPDS'01), and the estimate is a round
// number.
func guess(ran time.Duration, rnd *rand.Rand) time.Duration {
	part := 1 - rnd.Float64() // 0 excluded, 1 included
	if rnd.Float64() < sureUsers {
		part = 1
	}
	for _, t := range roundTimes {
		if t.Seconds() >= ran.Seconds()/part {
			return t
		}
	}
	return max(roundTimes[len(roundTimes)-1], (ran+day-1)/day*day)
}

// GuessOdds returns the chance that the user of a job that runs for so long estimates so
// much.
func GuessOdds(estimate, ran time.Duration) float64 {
	below := time.Duration(0) // estimates up to this are rounded to less
	for _, t := range roundTimes {
		if t < estimate {
			below = t
		}
	}
	if ran > estimate {
		return 0
	}
	most := 1.0 // part of the estimate that would be rounded up to it
	if below > 0 {
		most = min(1, ran.Seconds()/below.Seconds())
	}
	odds := (1 - sureUsers) * (most - ran.Seconds()/estimate.Seconds())
	if ran > below {
		odds += sureUsers
	}
	return odds
}

// isOracle reports whether the policy plans with truths that no live system has: it
// asks for them, or it uses estimates and these are exact.
func (r *run) isOracle() bool {
	exact := r.Estimates == Exact && (r.UsesEstimates || r.CoAdapt && len(r.Cluster.Types) > 1)
	return r.Oracle || exact
}
