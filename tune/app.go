// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

// Goal says which values of the metric are good.
type Goal uint8

// The goals.
const (
	Minimise Goal = iota
	Maximise
)

// State is where a trial stands.
type State uint8

// The states.
const (
	Active   State = iota // waits or runs
	Finished              // did all its iterations
	Stopped               // by a plan
	Failed                // crashed or was cancelled: what it reported does not count
)

// Reading is the value of the metric after so many iterations.
type Reading struct {
	Done, Value float64
}

// Job is one trial of an app.
type Job struct {
	Number int // of the trial, from 0; ascending in App.Jobs
	State  State
	Done   float64 // iterations so far
	Work   float64 // all iterations; 0: not known
	Demand int     // most GPUs it can use; 0: 1
	Held   int     // GPUs it has now
	// IterTime is the serial time of an iteration in seconds; 0: not known.
	IterTime float64
	// Rung counts the promotions of the trial: what plans said before.
	Rung  int
	Curve []Reading // oldest first
}

// App is what a plan is made from.
type App struct {
	Jobs   []Job
	GPUs   int // to divide
	AtOnce int // trials that may have GPUs at a time; 0: any number
	Trials int // that may be started in all
}

// Stop is a trial that is not worth going on with.
type Stop struct {
	Job int // index in App.Jobs
	Why string
}

// Promotion lets a trial run beyond its rung. One that has run on meanwhile may be
// promoted at one rung and stopped at the next.
type Promotion struct {
	Job  int // index in App.Jobs
	Rung int // from now on
}

// Plan is what to do.
type Plan struct {
	// Share is the number of GPUs of each job. One that is active and has none
	// waits: for GPUs, or to be compared with the others.
	Share   []int
	Stop    []Stop
	Promote []Promotion
	Start   int // new trials
	// Done says that the best model is known; jobs that are still active only run
	// to their end.
	Done bool
	Best int // index of the best trial so far; -1: none has a reading
}

// Phase is a part of what is left of an app: so many jobs run so many iterations
// each before the next phase begins.
type Phase struct {
	Jobs       int
	Iterations float64
	Demand     int // most GPUs that one of the jobs can use
}

// Scheduler decides within one app.
type Scheduler interface {
	Plan(App) Plan
	// Phases returns what is left, the present phase first, for estimates of when
	// the app ends.
	Phases(App) []Phase
}
