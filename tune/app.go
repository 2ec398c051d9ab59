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

// State is the state of a trial.
type State uint8

// The states.
const (
	Active   State = iota // pending or running
	Finished              // completed all its iterations
	Stopped               // by a plan
	Failed                // crashed or cancelled: its readings do not count
)

// Reading is the value of the metric after a number of iterations.
type Reading struct {
	Done, Value float64
}

// Job is one trial of an app.
type Job struct {
	Number int // of the trial, from 0; ascending in App.Jobs
	State  State
	Done   float64 // iterations so far
	Work   float64 // total iterations; 0: unknown
	Demand int     // most GPUs it can use; 0: 1
	Held   int     // GPUs it has now
	// IterTime is the serial time of an iteration in seconds; 0: unknown.
	IterTime float64
	// Rung counts the promotions of the trial by earlier plans.
	Rung  int
	Curve []Reading // oldest first
}

// App is the input of a plan.
type App struct {
	Jobs   []Job
	GPUs   int // to divide
	AtOnce int // trials that may have GPUs at the same time; 0: any number
	Trials int // that may be started in total
}

// Stop ends a weak trial.
type Stop struct {
	Job int // index in App.Jobs
	Why string
}

// Promotion lets a trial run beyond its rung. A trial that has continued meanwhile
// may be promoted at one rung and stopped at the next.
type Promotion struct {
	Job  int // index in App.Jobs
	Rung int // from now on
}

// Plan is a decision about an app.
type Plan struct {
	// Share is the number of GPUs of each job. An active job without any waits: for
	// GPUs, or to be compared with others.
	Share   []int
	Stop    []Stop
	Promote []Promotion
	Start   int // new trials
	// Done says that the best model is known; active jobs only run to their end.
	Done bool
	Best int // index of the best trial so far; -1: none has a reading
}

// Phase is a part of the remaining work of an app: that many jobs run that many
// iterations each before the next phase begins.
type Phase struct {
	Jobs       int
	Iterations float64
	Demand     int // most GPUs that one of the jobs can use
}

// Scheduler decides within one app.
type Scheduler interface {
	Plan(App) Plan
	// Phases returns the remaining work, the current phase first, to estimate when
	// the app ends.
	Phases(App) []Phase
}
