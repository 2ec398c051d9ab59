// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// The training loss of every simulated job, relative to that of its first step, falls
// with its progress as Optimus assumes: 1/(b0*k + b1) + b2. It approaches lossFloor,
// and at the end of training it is above that by 1/(1+lossBend) of the initial
// difference. Both constants are assumptions, the same for every model; over steps,
// curves differ by the length of the training and by the progress of each step.
const (
	lossFloor = 0.1
	lossBend  = 20
)

// lossAt returns the training loss after a part of the training.
func lossAt(part float64) float64 { return (1-lossFloor)/(1+lossBend*part) + lossFloor }

// An epoch is 1/lossEpochs of the training at the initial batch size, and the same
// number of examples at others. (Real ones differ too much: BERT is fine-tuned for
// two.) A job has converged when the loss has hardly fallen for stopEpochs epochs.
const (
	lossEpochs = 50
	stopEpochs = 3
)

// stopOf returns the rule by which a job at a batch size converges just when its
// training ends: earlier epochs lower the loss by more than the threshold.
func stopOf(t trainer, batch int) (goodput.Stop, error) {
	steps := t.total() / lossEpochs * float64(t.limits().Initial) / float64(batch)
	gain, err := t.gain(t.total(), batch)
	if err != nil {
		return goodput.Stop{}, err
	}
	// An epoch, as a part of the training; one at a tiny batch size could be
	// longer than that.
	epoch := min(steps*gain/t.total(), 0.5/(stopEpochs+0.5))
	from := 1 - (stopEpochs+0.5)*epoch
	return goodput.Stop{Fall: lossAt(from) - lossAt(from+epoch), Epochs: stopEpochs, Epoch: steps}, nil
}

// maxLosses and maxStepTimes bound what an agent reports.
const (
	maxLosses    = 32
	maxStepTimes = 32
)

// lossLog holds the training losses that an agent sees: that of the first step, then
// the mean of every each observations. When there are too many points, each two
// become one.
type lossLog struct {
	stop   goodput.Stop
	total  float64 // work of the training
	part   float64 // of the training done at the last observation
	steps  float64 // optimiser steps until then
	points []goodput.LossPoint
	each   int // observations in a point
	looks  int // in the next point so far
	sum    goodput.LossPoint
}

func newLossLog(t trainer, batch int) (*lossLog, error) {
	stop, err := stopOf(t, batch)
	return &lossLog{stop: stop, total: t.total(), each: 1}, err
}

// look adds the loss after a part of the training; gain is the work of each step
// since the last observation.
func (l *lossLog) look(part, gain float64, measure func(float64) float64) {
	if part < l.part { // an attempt failed, and the training started again
		*l = lossLog{stop: l.stop, total: l.total, each: 1}
	}
	if len(l.points) == 0 {
		l.points = []goodput.LossPoint{{Loss: measure(lossAt(0))}}
	}
	l.steps += (part - l.part) * l.total / gain
	l.part = part
	l.sum.Step += l.steps
	l.sum.Loss += measure(lossAt(part))
	if l.looks++; l.looks == l.each {
		l.keep(goodput.LossPoint{Step: l.sum.Step / float64(l.looks), Loss: l.sum.Loss / float64(l.looks)})
		l.sum, l.looks = goodput.LossPoint{}, 0
	}
}

// keep adds a point. It does not change points that were reported.
func (l *lossLog) keep(p goodput.LossPoint) {
	l.points = append(slices.Clip(l.points), p)
	if len(l.points) <= maxLosses {
		return
	}
	fewer := []goodput.LossPoint{l.points[0]}
	for pair := range slices.Chunk(l.points[1:], 2) {
		fewer = append(fewer, goodput.LossPoint{
			Step: (pair[0].Step + pair[1].Step) / 2, Loss: (pair[0].Loss + pair[1].Loss) / 2,
		})
	}
	l.points, l.each = fewer, 2*l.each
}

// stepTimes returns the measured times of optimiser steps; if there are many, those
// measured most often.
func (a *agent) stepTimes() []goodput.StepTime {
	type counted struct {
		goodput.StepTime
		count float64
	}
	var all []counted
	for _, t := range slices.Sorted(maps.Keys(a.profiles)) {
		for _, s := range a.profiles[t].Samples() {
			c, _ := goodput.Split(a.fixed, s.GPUs, a.limits)
			all = append(all, counted{goodput.StepTime{
				Type: t, Nodes: s.Nodes, GPUs: s.GPUs, Batch: a.fixed, Time: s.Step + float64(c.Accum)*s.Grad(),
			}, s.Count})
		}
	}
	if len(all) > maxStepTimes {
		slices.SortStableFunc(all, func(a, b counted) int { return cmp.Compare(b.count, a.count) })
		all = all[:maxStepTimes]
		slices.SortFunc(all, func(a, b counted) int {
			return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.GPUs, b.GPUs))
		})
	}
	out := make([]goodput.StepTime, len(all))
	for i, c := range all {
		out[i] = c.StepTime
	}
	return out
}
