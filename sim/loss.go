// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"

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

// lossLog holds the losses that an agent sees.
type lossLog struct {
	goodput.LossLog
	stop  goodput.Stop
	curve func(part float64) (float64, error) // the truth
	total float64                             // work of the training
	part  float64                             // of the training done at the last observation
	steps float64                             // optimiser steps until then
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
	return &lossLog{stop: stop, curve: curve, total: t.total()}, err
}

// look adds the loss after a part of the training; gain is the work of each step
// since the last observation.
func (l *lossLog) look(part, gain float64, measure func(float64) float64) error {
	if part < l.part { // an attempt failed, and the training started again
		*l = lossLog{stop: l.stop, curve: l.curve, total: l.total}
	}
	loss, err := l.curve(part)
	if err != nil {
		return err
	}
	if len(l.Points) == 0 {
		l.Add(0, measure(1))
	}
	l.steps += (part - l.part) * l.total / gain
	l.part = part
	l.Add(l.steps, measure(loss))
	return nil
}
