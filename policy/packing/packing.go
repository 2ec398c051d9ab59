// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package packing serves jobs in the order of submission and puts several on a GPU
// wherever their memory fits: the baselines that Horus (TPDS'22) compares itself
// with. It ignores how much jobs slow each other down.
//
// By the knob by, a job that may share takes
//
//   - memory: an idle GPU, else the one on which the least memory stays free
//     (opportunistic bin packing);
//   - gandiva: the GPU of least cost, which is the cost of Horus with the
//     utilisation of the jobs on it but not the new job's: what a scheduler knows
//     that measures GPUs but predicts nothing.
//
// A job that may not share, or whose memory or utilisation is not known, gets whole
// GPUs. A gang goes to one node, if one could hold it. No job is stopped. The first
// job that does not fit holds back all later ones, so no job starves.
package packing

import (
	"fmt"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	By     string  `json:"by" help:"how a job chooses a GPU to share: memory (the least free memory left) or gandiva (memory and current utilisation)"`
	Jobs   int     `json:"jobs" help:"most jobs on a GPU"`
	Margin int64   `json:"margin" help:"GPU memory that stays free on a shared GPU, in MiB"`
	W1     float64 `json:"w1" help:"gandiva: weight of GPU memory in the cost"`
	W2     float64 `json:"w2" help:"gandiva: weight of GPU utilisation in the cost"`
	Over   float64 `json:"over" help:"gandiva: cost of utilisation above 1, relative to that of unused utilisation"`
	Crowd  float64 `json:"crowd" help:"gandiva: cost of each job that is already on a GPU"`
}

// The values of Config.By.
const (
	Memory  = "memory"
	Gandiva = "gandiva"
)

// mostJobs bounds the seats of a GPU.
const mostJobs = 8

// Default returns the policy's default settings.
func Default() Config {
	return Config{By: Memory, Jobs: 3, Margin: 500, W1: 1.3, W2: 1, Over: 1.6, Crowd: 1}
}

func (c Config) validate() error {
	switch {
	case c.By != Memory && c.By != Gandiva:
		return fmt.Errorf("by = %q; want %s or %s", c.By, Memory, Gandiva)
	case c.Jobs < 1 || c.Jobs > mostJobs:
		return fmt.Errorf("jobs = %d; want 1 (no sharing) to %d", c.Jobs, mostJobs)
	case c.Margin < 0 || c.Margin > 1<<30:
		return fmt.Errorf("margin = %d; want 0 or more MiB", c.Margin)
	case !(c.W1 >= 0 && c.W2 >= 0 && c.Over >= 0 && c.Crowd >= 0):
		return fmt.Errorf("w1 = %g, w2 = %g, over = %g, crowd = %g; want 0 or more", c.W1, c.W2, c.Over, c.Crowd)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	return &policy{Config: c}, c.validate()
}

type policy struct {
	Config
	// Caches.
	seats *place.SharedView
	free  *place.Free
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.seats, p.free = p.seats.For(s, p.Jobs, p.Margin<<20), p.free.For(s.Cluster)
	seating := place.NewSeating(s, p.seats, p.free, nil)
	judge := p.byMemory
	if p.By == Gandiva {
		judge = p.byLoad
	}
	blocked := false
	for _, i := range place.OrderBy(s, func(j *sched.Job) (a, b float64) { return -float64(j.Priority), 0 }) {
		switch {
		case !seating.Waits(i):
		case blocked:
			seating.Plan.Why[i] = sched.Reason{Code: sched.Behind, Need: s.Jobs[i].GPUs, Have: seating.Idle()}
		case !seating.Start(i, place.Ask{Idle: true}, judge):
			blocked = !seating.OverQuota(i)
		}
	}
	return seating.Plan
}

// byMemory prefers idle GPUs, then the fullest.
func (p *policy) byMemory(on *place.Company, j *sched.Job) (float64, bool) {
	switch {
	case len(on.Jobs) == 0:
		return 0, true
	case on.Capacity == 0: // the fewest jobs, since nothing is known about memory
		return float64(len(on.Jobs)), true
	}
	return 1 + float64(on.Capacity-on.Memory-j.GPUMemory)/float64(on.Capacity), true
}

// byLoad is the cost of Horus before the job is added.
func (p *policy) byLoad(on *place.Company, j *sched.Job) (float64, bool) {
	cost := p.Crowd * float64(len(on.Jobs))
	if on.Capacity > 0 {
		cost += p.W1 * float64(on.Memory+j.GPUMemory) / float64(on.Capacity)
	}
	if on.Util > 1 {
		return cost + p.W2*p.Over*(on.Util-1), true
	}
	return cost + p.W2*(1-on.Util), true
}
