// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// HardwareSummary is what failing hardware cost in a run with Config.Hardware.
type HardwareSummary struct {
	// ETTR is the effective training time ratio: the part of the time since their
	// first start in which jobs made progress that was kept, weighted by GPUs. A step
	// that a slow node delays counts as long as it would take on healthy nodes.
	ETTR  float64 `json:"ettr"`
	Ranks int     `json:"ranks_lost"` // whose node stayed in use
	Nodes int     `json:"nodes_lost"`
	Hangs int     `json:"hangs"`
	Slow  int     `json:"slow_nodes"`
	Found int     `json:"slow_nodes_found"`
	HardwareTimes
}

// HardwareTimes is where the time of jobs went, from their first start on, in
// GPU-seconds.
type HardwareTimes struct {
	Kept       float64 `json:"kept_gpu_seconds"`       // training
	Saving     float64 `json:"saving_gpu_seconds"`     // checkpoints
	Undetected float64 `json:"undetected_gpu_seconds"` // standing still until the failure was detected
	Redone     float64 `json:"redone_gpu_seconds"`     // training that was lost: since the last checkpoint, or in attempts that failed
	Waiting    float64 `json:"waiting_gpu_seconds"`    // for GPUs to start again on
	Restarting float64 `json:"restarting_gpu_seconds"`
	Slowed     float64 `json:"slowed_gpu_seconds"` // by slow nodes
}

// Parts returns the times as parts of their sum; all training if it is 0.
func (t HardwareTimes) Parts() HardwareTimes {
	all := t.Kept + t.Saving + t.Undetected + t.Redone + t.Waiting + t.Restarting + t.Slowed
	if all == 0 {
		return HardwareTimes{Kept: 1}
	}
	return HardwareTimes{t.Kept / all, t.Saving / all, t.Undetected / all, t.Redone / all, t.Waiting / all, t.Restarting / all, t.Slowed / all}
}

func (t *HardwareTimes) add(o HardwareTimes) {
	t.Kept += o.Kept
	t.Saving += o.Saving
	t.Undetected += o.Undetected
	t.Redone += o.Redone
	t.Waiting += o.Waiting
	t.Restarting += o.Restarting
	t.Slowed += o.Slowed
}

// jobHardware is the state of one job on hardware that fails; nil: it does not.
type jobHardware struct {
	slow     float64       // speed relative to that on healthy nodes
	saving   float64       // part of its time in saves
	detected time.Duration // when its failure will be detected; 0: it has not failed
	broke    time.Duration // when it failed
	speed    float64       // before
	lost     []trouble     // nodes that failed with it
	recovery time.Duration // what its next start costs; 0: as without failures
	left     time.Duration // when it last left its GPUs
	unbooked float64       // GPU-seconds lost since it started, in no sum of the run yet
	times    HardwareTimes
}

func (r *run) newJobHardware(j *job) *jobHardware {
	if r.hardware == nil {
		return nil
	}
	w := &jobHardware{slow: 1}
	if !j.plain {
		w.saving = r.hardware.saving()
	}
	return w
}

// train divides GPU-seconds on running processes, and returns those spent on training.
func (w *jobHardware) train(gpuSeconds float64) float64 {
	if w == nil {
		return gpuSeconds
	}
	if w.detected > 0 {
		w.times.Undetected += gpuSeconds
		w.unbooked += gpuSeconds
		return 0
	}
	kept := gpuSeconds * w.slow * (1 - w.saving)
	w.times.Slowed += gpuSeconds * (1 - w.slow)
	w.times.Saving += gpuSeconds * w.slow * w.saving
	w.times.Kept += kept
	w.unbooked += gpuSeconds - kept
	return kept
}

func (w *jobHardware) restart(gpuSeconds float64) {
	if w != nil {
		w.times.Restarting += gpuSeconds
	}
}

// lose books training as lost.
func (w *jobHardware) lose(gpuSeconds float64) {
	if w != nil {
		gpuSeconds = min(gpuSeconds, w.times.Kept)
		w.times.Kept -= gpuSeconds
		w.times.Redone += gpuSeconds
	}
}

// health returns the part of its speed that a job has on its nodes, and arranges that
// slow ones are found.
func (r *run) health(j *job) float64 {
	h, w := r.hardware, j.hardware
	if h == nil {
		return 1
	}
	w.slow = 1
	for i := range h.away {
		t := &h.away[i]
		if !t.slow || !slices.Contains(r.neighbours.onNode[t.node], j) {
			continue
		}
		w.slow = h.SlowSpeed
		if t.found == 0 && h.DetectSlow > 0 {
			t.found = max(r.now, j.held) + h.DetectSlow.D()
		}
	}
	if w.detected > 0 {
		return 0
	}
	return w.slow * (1 - w.saving)
}

// rollBack resets a job that has failed to its last checkpoint, in memory or on the disk.
func (r *run) rollBack(j *job, near bool) {
	h, w := r.hardware, j.hardware
	j.settle(r.now)
	if j.plain {
		r.restartFromZero(j)
		return
	}
	trained := w.broke - j.held
	if trained <= 0 || !(w.speed > 0) {
		return
	}
	back := trained % h.Checkpoint.D()
	if near {
		back = min(back, trained%h.MemoryEvery.D())
	}
	if h.Rollback > 0 {
		back = min(back, h.Rollback.D())
	}
	lost := max(0, min(w.speed*back.Seconds(), j.done-j.restored))
	seconds := lost / w.speed
	redone := seconds * j.gpuShare() * w.slow * (1 - w.saving)
	w.lose(redone)
	r.record.lostGPU += redone
	j.done -= lost
	j.spent = max(0, j.spent-redone)
	j.ran = max(0, j.ran-times(time.Duration(seconds*1e9), pace(j.truth, j.setting)))
}

// leaveHardware books what a job lost that leaves its GPUs.
func (r *run) leaveHardware(j *job) {
	if w := j.hardware; w != nil {
		r.record.lostGPU += w.unbooked
		w.unbooked, w.left = 0, r.now
	}
}

// waited books the time of a job without GPUs.
func (r *run) waited(j *job) {
	if w := j.hardware; w != nil && j.state.Starts > 0 {
		w.times.Waiting += (r.now - w.left).Seconds() * j.gpuShare()
	}
}

// reportHardware adds the summary to the result.
func (r *run) reportHardware(res *Result) {
	h := r.hardware
	if h == nil {
		return
	}
	for _, j := range r.jobs {
		if j.hardware == nil || j.state.Starts == 0 {
			continue
		}
		switch j.state.Phase {
		case sched.Running:
			j.settle(r.now)
		case sched.Pending:
			r.waited(j)
		}
		h.summary.add(j.hardware.times)
		res.Jobs[j.result].ETTR = j.hardware.times.Parts().Kept
	}
	h.summary.ETTR = h.summary.Parts().Kept
	res.Hardware = &h.summary
}
