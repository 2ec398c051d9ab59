// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/goodput"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/zoo"
)

// fitted is a job that trains a model of the zoo. Its work is counted in
// iterations at the initial batch size: an iteration at a larger batch counts
// for more, by the gradient noise scale at that point of the training.
type fitted struct {
	model *zoo.Model
	batch int
}

func newFitted(m *zoo.Model, w *Work) (*fitted, error) {
	if !(m.Iterations > 0) {
		return nil, fmt.Errorf("job %s: model %s has no number of iterations; give the job a run_time", w.ID, m.Name)
	}
	f := &fitted{model: m, batch: w.BatchSize}
	if f.batch == 0 {
		f.batch = m.Batch.Initial
	}
	if l := m.Batch; l.Initial > 0 && (f.batch < 1 || f.batch > l.Max) {
		return nil, fmt.Errorf("job %s: batch_size = %d; model %s takes 1 to %d", w.ID, f.batch, m.Name, l.Max)
	}
	return f, nil
}

func (f *fitted) total() float64 { return f.model.Iterations }

func (f *fitted) rate(done float64, s setting) (rate, until float64, err error) {
	m := f.model
	p, ok := m.Params(s.gpuType)
	if !ok {
		serial, ok := m.StepTime[string(s.gpuType)]
		if !ok {
			return 0, 0, fmt.Errorf("model %s has no figures for GPU type %q", m.Name, s.gpuType)
		}
		return float64(s.gpus) / (serial * m.SlowdownAt(s.level)), math.Inf(1), nil
	}
	split, ok := goodput.Split(f.batch, s.gpus, m.Batch)
	if !ok {
		return 0, 0, fmt.Errorf("batch size %d of model %s cannot be split over %d GPUs", f.batch, m.Name, s.gpus)
	}
	shape := goodput.Shape{Nodes: len(s.placement), GPUs: s.gpus, CrossRack: s.level == sched.CrossRack}
	step := p.Iter(shape, float64(split.Local), split.Accum)
	frac := done / m.Iterations
	until = m.NoiseUntil(frac) * m.Iterations
	for until <= done { // the end of a phase, lost in rounding: it is over
		frac = math.Nextafter(frac, math.Inf(1))
		until = m.NoiseUntil(frac) * m.Iterations
	}
	gain := goodput.Gain(m.NoiseAt(frac), m.Batch.Initial, split.Batch(s.gpus))
	return gain / step, until, nil
}

func (f *fitted) restart(first bool) time.Duration {
	if first {
		return 0
	}
	return restartOf(f.model)
}
