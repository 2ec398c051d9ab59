// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package autoscale

import (
	"math"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// curve is how much faster a job is on many GPUs than on one.
type curve struct {
	report *goodput.Report
	one    map[sched.GPUType]float64 // goodput on a single GPU
}

// curveOf returns the curve of a job from its agent's report. For rule Throughput
// every example counts the same, whatever the batch size: the goodput formulas give
// this when gradients are all noise.
func curveOf(j *sched.Job, rule Rule) curve {
	c := curve{report: j.Perf}
	if c.report != nil && rule == Throughput && c.report.Fixed == 0 {
		blind := *c.report
		blind.Noise = math.Inf(1)
		c.report = &blind
	}
	return c
}

// at returns the speedup on a placement, relative to one GPU of the same type.
// Without a model it is the number of GPUs.
func (c *curve) at(t sched.GPUType, s goodput.Shape) float64 {
	linear := float64(s.GPUs)
	if c.report == nil || s.GPUs < 1 {
		return linear
	}
	if one := c.single(t); one > 0 {
		_, many, _ := c.report.Goodput(string(t), s)
		return many / one
	}
	// An oracle reports step times for packed placements instead of a model.
	if steps := c.report.Steps; s.GPUs <= len(steps) && steps[s.GPUs-1] > 0 {
		return steps[0] / steps[s.GPUs-1]
	}
	return linear
}

// single returns the goodput on one GPU; 0: unknown.
func (c *curve) single(t sched.GPUType) float64 {
	if one, ok := c.one[t]; ok {
		return one
	}
	_, one, _ := c.report.Goodput(string(t), goodput.Shape{Nodes: 1, GPUs: 1})
	if c.one == nil {
		c.one = map[sched.GPUType]float64{}
	}
	c.one[t] = one
	return one
}

// held is the total speedup and GPUs of the running jobs.
type held struct {
	speedup float64 // sum over the jobs
	gpus    float64
}

// perGPU returns the speedup per GPU held; 0 if none is.
func (h held) perGPU() float64 {
	if h.gpus == 0 {
		return 0
	}
	return h.speedup / h.gpus
}

func heldIn(s *sched.Snapshot, rule Rule) held {
	var h held
	for _, j := range s.Jobs {
		if len(j.Placement) == 0 {
			continue
		}
		c := curveOf(j, rule)
		shape := goodput.Shape{
			Nodes: len(j.Placement), GPUs: j.Placement.GPUs(),
			CrossRack: s.Cluster.Level(j.Placement) == sched.CrossRack,
		}
		// A job that holds a part of a GPU gets that part of its speed.
		share := float64(j.Placement.Milli()) / float64(sched.WholeGPU*shape.GPUs)
		h.speedup += share * c.at(s.Cluster.Nodes[j.Placement[0].Node].Type, shape)
		h.gpus += share * float64(shape.GPUs)
	}
	return h
}

// UtilityOf returns the current utility of the cluster: the sum of the speedups of
// its jobs, divided by the GPUs of the nodes that are not Down.
func UtilityOf(s *sched.Snapshot) float64 {
	if s.Cluster.GPUs() == 0 {
		return 0
	}
	return heldIn(s, Utility).speedup / float64(s.Cluster.GPUs())
}
