// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
	"github.com/fairway-gpu/fairway/sim/profile"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// PerModel, as Config.Interference, uses the loss of each model.
const PerModel = -1

// Config says what to simulate. Cluster, Policy and Zoo are required; the zero value
// of every other field is a sensible default.
type Config struct {
	Cluster *sched.Cluster
	Policy  sched.Policy
	Name    string // of the policy, in the result
	Zoo     *zoo.Zoo
	// Profiles, if set, replaces the formulas of the zoo for the models that it has.
	Profiles *profile.Tables
	// Throughputs, if set, is the truth about jobs whose length is a number of steps, and
	// what policies know of their speeds.
	Throughputs *Throughputs
	// Plans, if set, are the measured plans of the models of jobs that have plans.
	Plans    *profile.Plans
	Seed     uint64        // of the workload; only copied to the result
	Interval time.Duration // between decisions; 0: at every event
	Until    time.Duration // end of the run; 0: when every job has ended
	// Interference is the share of its speed that a job loses while it spans several
	// nodes and shares one of them with another such job. PerModel: as the zoo says.
	Interference float64
	// Sharing says how much jobs on one GPU slow each other down. Nil: by the
	// published curve, without scatter.
	Sharing *Sharing
	// Coordinator throttles guests, which hold less of a GPU than another job on it,
	// as AntMan's local coordinator does.
	Coordinator bool
	// CoAdapt gives every job an agent that measures, reports and, where the job
	// allows it, tunes the batch size; Agent is the time between reports. With
	// Profiles, agents report at the rounds of Interval and at the end of epochs, as
	// in the reference.
	CoAdapt bool
	Agent   time.Duration
	Noise   float64 // standard deviation of the logarithm of agents' measurements
	// Checkpoint is the time between the checkpoints of a job. 0: it saves its work
	// when it is told to stop.
	Checkpoint time.Duration
	// Optimistic makes the simplifications of the reference simulator of the Pollux
	// paper: every restart costs 30 s, no stop loses work, and agents know the noise
	// scale without lag.
	Optimistic bool
	// Losses, with CoAdapt, makes every job keep its submitted batch size, and its
	// agent report training losses and measured step times.
	Losses bool
	// Experience, if set, is what past jobs measured: agents start from it and add to
	// it.
	Experience *experience.Pool
	// Plain is the share of jobs, 0 to 1, that are plain scripts: they have no agent,
	// run at the size they ask for, and cannot save their work. They are protected:
	// no policy preempts, moves or resizes them. With Unprotected it may, and they
	// start from the beginning each time.
	Plain       float64
	Unprotected bool
	// Suspends lets every node suspend plain scripts in place, at what their memory costs
	// (sched.Job.SuspendCost).
	Suspends bool
	// LengthError is the error of the work that jobs declare: the standard deviation of
	// its logarithm around the truth, drawn for each job from the seed. NoLengths: they
	// declare none.
	LengthError float64
	NoLengths   bool
	// Oracle makes every job report the truth about its speed and length.
	Oracle bool
	// Estimates says what policies know about run times, and about speeds on GPUs
	// that a job has not run on; the zero value is History.
	Estimates Estimates
	// UsesEstimates says that the policy uses them.
	UsesEstimates bool
	// Restart is what every restart costs; 0: as the job's model says.
	Restart time.Duration
	// Load, if set, is instead what every start of a job with execution plans costs, which
	// needs at least so many GPUs.
	Load func(m plan.Model, fewest int) time.Duration
	// Retry is the back-off after a failure.
	Retry time.Duration
	// Faults, if set, makes failures depend on the reaction to them.
	Faults *FaultConfig
	// Hardware, if set, makes GPUs, hosts and networks fail.
	Hardware *HardwareConfig
	// Autoscale, if set, makes the number of nodes follow the jobs.
	Autoscale *AutoscaleConfig
	// Search, if set, adds a hyper-parameter search to the workload.
	Search *SearchConfig

	Log      func(LogEntry)       // if set, receives every decision
	Watch    func(Watched)        // if set, receives what agents measure
	Progress func(Progress)       // if set, is called from time to time
	Stop     func() bool          // if set, ends the run early when it returns true
	Elapsed  func() time.Duration // if set, a stopwatch for Timing
}

// Watched is what an agent measures at one moment.
type Watched struct {
	T          float64 // seconds since the start of the workload
	Job        sched.JobID
	GPUs       int
	Batch      int
	Efficiency float64 // of an example at this batch size, relative to the initial one
	Progress   float64 // part of the training that is done
}

// Progress is the progress of a run.
type Progress struct {
	Now       time.Duration // virtual time
	Ended     int
	Jobs      int
	Decisions int
}

func (c *Config) check() error {
	switch {
	case c.Cluster == nil || c.Policy == nil || c.Zoo == nil:
		return fmt.Errorf("simulate: no cluster, policy or zoo; want all three")
	case c.Interval < 0:
		return fmt.Errorf("simulate: interval = %s; want 0 or more", c.Interval)
	case c.Until < 0:
		return fmt.Errorf("simulate: until = %s; want 0 (to the end) or more", c.Until)
	case !(c.Noise >= 0 && c.Noise < 10):
		return fmt.Errorf("simulate: noise = %g; want 0 to 10", c.Noise)
	case c.Checkpoint < 0:
		return fmt.Errorf("simulate: checkpoint = %s; want 0 (when told to stop) or more", c.Checkpoint)
	case !(c.Plain >= 0 && c.Plain <= 1):
		return fmt.Errorf("simulate: plain = %g; want a share of the jobs, 0 to 1", c.Plain)
	case !(c.LengthError >= 0 && c.LengthError < 10):
		return fmt.Errorf("simulate: length error = %g; want 0 to below 10", c.LengthError)
	case c.NoLengths && c.LengthError > 0:
		return fmt.Errorf("simulate: no lengths, and length error = %g; want one of the two", c.LengthError)
	case c.Restart < 0:
		return fmt.Errorf("simulate: restart = %s; want 0 (as the model says) or more", c.Restart)
	case c.CoAdapt && c.Agent <= 0:
		return fmt.Errorf("simulate: agent = %s; want the time between two reports of an agent", c.Agent)
	case c.Interference != PerModel && !(c.Interference >= 0 && c.Interference < 1):
		return fmt.Errorf("simulate: interference = %g; want 0 to below 1, or %d for each model's own", c.Interference, PerModel)
	}
	if c.Estimates == "" {
		c.Estimates = History
	}
	if err := c.Estimates.Check(); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	if err := c.checkProfiles(); err != nil {
		return err
	}
	if err := c.Autoscale.check(c.Cluster); err != nil {
		return err
	}
	if err := c.Faults.check(c); err != nil {
		return err
	}
	if err := c.Hardware.check(c); err != nil {
		return err
	}
	return c.Search.check()
}
