// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

const (
	// resumeCost is the cost of resuming a suspended job in place (Gandiva: up to a
	// second for large models).
	resumeCost = time.Second
	// defaultRestart is the restart cost of a job of unknown model: the mean that
	// Tiresias measured, over gangs of all sizes.
	defaultRestart = 62 * time.Second
	// flatRestart is the cost of every start in the reference simulator of the Pollux
	// paper.
	flatRestart = 30 * time.Second
)

// Themis measured 35 to 50 s from the decision to relaunch the containers of a job
// until they run.
const quickLaunch, slowLaunch = 35.0, 50.0

// launch is how long the starts of a job take, without progress.
type launch struct {
	cost time.Duration // on one node
	flat bool          // the same on any number of nodes
}

// launchOf returns the starts of a model: by the zoo, which says where each figure
// comes from.
func (c *Config) launchOf(model string) launch {
	m, known := c.Zoo.Model(model)
	switch {
	case c.Restart > 0:
		return launch{c.Restart, true}
	case c.Optimistic:
		return launch{flatRestart, true}
	case known && m.Restart > 0:
		return launch{cost: m.Restart.D()}
	}
	return launch{defaultRestart, true}
}

// on returns the duration of a start on several nodes. A gang waits for its slowest
// node: where the time of a node is uniform between the two bounds, that of the
// slowest of n is n/(n+1) of the way from one to the other.
func (l launch) on(nodes int) time.Duration {
	if l.flat {
		return l.cost
	}
	n := float64(nodes)
	slowest := quickLaunch + (slowLaunch-quickLaunch)*n/(n+1)
	one := (quickLaunch + slowLaunch) / 2
	return time.Duration(float64(l.cost) * slowest / one).Round(time.Millisecond)
}

// again is on, but the first start is free: the length of the job includes it.
func (l launch) again(first bool, nodes int) time.Duration {
	if first {
		return 0
	}
	return l.on(nodes)
}

// unsaved returns the work of a job that a stop would lose now.
//
// A job saves its work when it is told to stop, as agents do: at the end of a step.
// Its GPUs are taken at once, so half a step is lost on average. With
// Config.Checkpoint it saves only that often. A recorded job has no known steps.
func (r *run) unsaved(j *job) (float64, error) {
	trained := r.now - j.held
	if r.Optimistic || j.plain || trained <= 0 || !(j.speed > 0) {
		return 0, nil
	}
	lost := 0.0
	if r.Checkpoint > 0 {
		lost = j.speed * (trained % r.Checkpoint).Seconds()
	} else if t, ok := j.truth.(trainer); ok {
		step, err := t.gain(j.done, j.setting.config.Batch(j.setting.replicas()))
		if err != nil {
			return 0, err
		}
		lost = step / 2
	} else if _, ok := j.truth.(*planned); ok {
		lost = 0.5 // its work is counted in steps
	}
	return max(0, min(lost, j.done-j.restored)), nil
}

// saved returns the work of a job that its checkpoints hold.
func (r *run) saved(j *job) (float64, error) {
	if r.Checkpoint == 0 {
		return j.done, nil // it saves when told to stop
	}
	lost, err := r.unsaved(j)
	return j.done - lost, err
}

// dropUnsaved takes from a job that is stopped the work that is in no checkpoint, and
// tells the policy.
func (r *run) dropUnsaved(j *job) error {
	j.settle(r.now)
	lost, err := r.unsaved(j)
	if lost == 0 || err != nil {
		return err
	}
	took := time.Duration(lost / j.speed * 1e9)
	wasted := took.Seconds() * j.gpuShare()
	j.done -= lost
	j.ran = max(0, j.ran-times(took, pace(j.truth, j.setting)))
	j.spent = max(0, j.spent-wasted)
	r.record.lostGPU += wasted
	j.hardware.lose(wasted)
	return r.tell(j, 0, 0, nil)
}
