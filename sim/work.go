// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Workload is a list of jobs to replay.
type Workload struct {
	Name    string         `json:"name"`
	Source  string         `json:"source,omitempty"` // its origin, as text
	Start   time.Time      `json:"start"`            // time zero of the replay; no job is submitted before it
	Tenants []sched.Tenant `json:"tenants,omitempty"`
	Work    []Work         `json:"-"` // by submission time
}

// Work is one job and the truth about it that no policy may see: its real run time
// and outcome.
//
// A job's length is given in one of two ways. RunTime is the run time on the
// requested GPUs, well placed, as production traces record it; the model, if named,
// only says how placement changes the speed. Without RunTime, Model must name a model
// of the zoo (or of the measured profiles), and the job trains that model to the end.
type Work struct {
	sched.Spec
	RunTime   sched.Duration `json:"run_time,omitempty"`
	Steps     float64        `json:"steps,omitempty"`      // length of training, for measured throughputs (Config.Throughputs)
	BatchSize int            `json:"batch_size,omitempty"` // of all GPUs together; 0: the model's initial one
	TrueUtil  float64        `json:"true_util,omitempty"`  // utilisation of its GPUs when alone, where GPUUtil is the prediction; 0: GPUUtil
	// Regimes are the stretches of a training whose batch size changes by a rule of
	// its own, such as Accordion or GNS, in order. RunTime is the sum of their times.
	Regimes []Regime `json:"regimes,omitempty"`
	// Plans are the execution plans of a large model, whose length is Steps. Nil: the job
	// trains in one way.
	Plans *WorkPlans `json:"plans,omitempty"`
	// Outcome is how the job ends when its work is done: Finished, Killed (cancelled
	// by its user at that point) or Failed (after the last of Failures, without
	// another retry). The zero value means Finished.
	Outcome sched.Phase `json:"outcome,omitempty"`
	// Failures are the failed attempts before the job succeeds, in order.
	Failures []Failure `json:"failures,omitempty"`
}

// Regime is a stretch of training at one batch size.
type Regime struct {
	Batch  int            `json:"batch"`  // of all GPUs together
	Epochs float64        `json:"epochs"` // of this stretch
	Time   sched.Duration `json:"time"`   // of all of them, on the requested GPUs, well placed
}

// CheckRegimes reports what is wrong with the regimes, if anything.
func (w *Work) CheckRegimes() error {
	sum := sched.Duration(0)
	for i, g := range w.Regimes {
		if g.Batch < 1 || !(g.Epochs > 0 && g.Epochs <= maxEpochs) || g.Time <= 0 || sum+g.Time < 0 {
			return fmt.Errorf("job %s: regimes[%d] = %d, %g, %s; want a batch size, epochs above 0, and a time", w.ID, i, g.Batch, g.Epochs, g.Time)
		}
		sum += g.Time
	}
	if len(w.Regimes) > 0 && sum != w.RunTime {
		return fmt.Errorf("job %s: run_time = %s; its regimes take %s", w.ID, w.RunTime, sum)
	}
	return nil
}

// maxEpochs bounds the epochs of a regime.
const maxEpochs = 1e9

// Failure is a failed attempt.
type Failure struct {
	Reason string         `json:"reason"`
	After  sched.Duration `json:"after"` // run time of the attempt until it fails
}
