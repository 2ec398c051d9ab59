// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairness

import "math"

// App is what is known of an app. Times are in seconds.
type App struct {
	Elapsed float64 // since its first submission
	Left    float64 // until its last job ends, as expected now; 0: it has ended
	Mean    float64 // active apps, averaged over Elapsed
	Now     float64 // active apps now, taken to stay as many for Left
	GPUs    int     // of the cluster

	Jobs []Job // those it has had, and has
	// Others is the work, in GPU-seconds, of jobs that Jobs does not list.
	Others float64
	// Most is the number of GPUs that the app can use at once; 0: those that all of
	// Jobs can use.
	Most int
}

// Rho returns finish-time fairness; 0: not known.
func (a App) Rho() float64 { return ratio(a.Elapsed+a.Left, a.Alone()) }

// PaperRho returns finish-time fairness with T_independent of the Themis paper.
func (a App) PaperRho() float64 { return ratio(a.Elapsed+a.Left, a.PaperAlone()) }

// Apps returns N: the number of active apps, averaged over the life of the app.
func (a App) Apps() float64 {
	life := a.Elapsed + a.Left
	if !(life > 0) {
		return max(1, a.Now)
	}
	return max(1, (a.Mean*a.Elapsed+a.Now*a.Left)/life)
}

// Alone returns T_independent: the time of the app alone on its share. No app is
// faster than its work as a whole, nor than its slowest job. 0: not known.
func (a App) Alone() float64 {
	share := float64(a.GPUs) / a.Apps()
	work, slowest := a.Others, 0.0
	for _, j := range a.Jobs {
		seconds, gpus := j.alone(share)
		if !known(seconds) {
			return 0
		}
		work += seconds * gpus
		slowest = max(slowest, seconds)
	}
	return finite(max(work/min(a.most(), share), slowest))
}

// PaperAlone returns T_independent as the Themis paper has it: the work on all GPUs
// that the app can use, times the number of apps. It lets an app that can use few
// GPUs take many times as long as on its share. 0: not known.
func (a App) PaperAlone() float64 {
	work := a.Others
	for _, j := range a.Jobs {
		if !known(j.Seconds) {
			return 0
		}
		work += j.Seconds * float64(j.GPUs)
	}
	return finite(work / min(float64(a.GPUs), a.most()) * a.Apps())
}

func (a App) most() float64 {
	if a.Most > 0 {
		return float64(a.Most)
	}
	sum := 0
	for _, j := range a.Jobs {
		sum += j.most()
	}
	return float64(sum)
}

// known reports whether a time is one: a job that nobody can host takes for ever.
func known(seconds float64) bool { return seconds > 0 && seconds < 1e300 }

func finite(x float64) float64 {
	if !known(x) {
		return 0
	}
	return x
}

func ratio(shared, alone float64) float64 {
	if alone == 0 || math.IsNaN(shared) {
		return 0
	}
	return finite(shared / alone)
}
