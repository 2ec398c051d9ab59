// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// An epoch is 1/lossEpochs of the training at the initial batch size, and the same
// number of examples at others. (Real ones differ too much: BERT is fine-tuned for
// two.) A job has converged when the loss has hardly fallen for stopEpochs epochs.
const (
	lossEpochs = 50
	stopEpochs = 3
)

// What "hardly" means is up to the user. One who knows such trainings would name the
// mean fall of an epoch in the last part of them, lossTail, and nothing below
// leastFall of the initial loss.
const (
	lossTail  = 0.2
	leastFall = 2e-4
)

// stopOf returns the rule by which a user would end a job at a batch size. A job ends
// with its training, whatever the rule says.
func stopOf(t trainer, batch int) (goodput.Stop, error) {
	steps := t.total() / lossEpochs * float64(t.limits().Initial) / float64(batch)
	gain, err := t.gain(t.total(), batch)
	if err != nil {
		return goodput.Stop{}, err
	}
	from, err := t.loss((1-lossTail)*t.total(), batch)
	if err != nil {
		return goodput.Stop{}, err
	}
	to, err := t.loss(t.total(), batch)
	if err != nil {
		return goodput.Stop{}, err
	}
	fall := (from - to) / lossTail * min(1, steps*gain/t.total())
	return goodput.Stop{Fall: max(leastFall, fall), Epochs: stopEpochs, Epoch: steps}, nil
}

// maxLosses and maxStepTimes bound what an agent reports.
const (
	maxLosses    = 32
	maxStepTimes = 32
)

// lossLog holds the losses that an agent sees: that of the first step, then the mean
// of every each observations. When there are too many points, each two become one.
type lossLog struct {
	stop   goodput.Stop
	curve  func(part float64) (float64, error) // the truth
	total  float64                             // work of the training
	part   float64                             // of the training done at the last observation
	steps  float64                             // optimiser steps until then
	points []goodput.LossPoint
	each   int // observations in a point
	looks  int // in the next point so far
	sum    goodput.LossPoint
}

// newLossLog returns the log of a job. Runs of the same job differ by seed.
func newLossLog(t trainer, batch int, seed [2]uint64) (*lossLog, error) {
	stop, err := stopOf(t, batch)
	scatter := 0.0 // measured curves have their own
	if f, ok := t.(*fitted); ok {
		scatter = f.model.LossScatter
	}
	curve := func(part float64) (float64, error) {
		loss, err := t.loss(part*t.total(), batch)
		if scatter > 0 {
			epoch := uint64(part * lossEpochs)
			loss *= math.Exp(scatter * rand.New(rand.NewPCG(seed[0], seed[1]<<8|epoch)).NormFloat64())
		}
		return loss, err
	}
	return &lossLog{stop: stop, curve: curve, total: t.total(), each: 1}, err
}

// look adds the loss after a part of the training; gain is the work of each step
// since the last observation.
func (l *lossLog) look(part, gain float64, measure func(float64) float64) error {
	if part < l.part { // an attempt failed, and the training started again
		*l = lossLog{stop: l.stop, curve: l.curve, total: l.total, each: 1}
	}
	loss, err := l.curve(part)
	if err != nil {
		return err
	}
	if len(l.points) == 0 {
		l.points = []goodput.LossPoint{{Loss: measure(1)}}
	}
	l.steps += (part - l.part) * l.total / gain
	l.part = part
	l.sum.Step += l.steps
	l.sum.Loss += measure(loss)
	if l.looks++; l.looks == l.each {
		l.keep(goodput.LossPoint{Step: l.sum.Step / float64(l.looks), Loss: l.sum.Loss / float64(l.looks)})
		l.sum, l.looks = goodput.LossPoint{}, 0
	}
	return nil
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
