// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// fitted is a job that trains a model of the zoo with throughput parameters. Its work
// is counted in iterations at the initial batch size: an iteration at a larger batch
// size counts for more, by the gradient noise scale at that point of the training.
type fitted struct {
	model *zoo.Model
	size  int // batch
	start launch
}

// newFitted returns the truth about a model of the zoo: the throughput model where it
// has parameters, else its step time alone.
func newFitted(c *Config, m *zoo.Model, w *Work) (truth, error) {
	if !(m.Iterations > 0) {
		return nil, fmt.Errorf("job %s: model %s has no number of iterations; want a run_time for the job", w.ID, m.Name)
	}
	if len(m.Throughput) == 0 {
		return &paced{m, c.launchOf(m.Name)}, nil
	}
	f := &fitted{model: m, size: w.BatchSize, start: c.launchOf(m.Name)}
	if f.size == 0 {
		f.size = m.Batch.Initial
	}
	if f.size < 1 || f.size > m.Batch.Max {
		return nil, fmt.Errorf("job %s: batch_size = %d; model %s takes 1 to %d", w.ID, f.size, m.Name, m.Batch.Max)
	}
	return f, nil
}

func (f *fitted) total() float64         { return f.model.Iterations }
func (f *fitted) limits() goodput.Limits { return f.model.Batch }

func (f *fitted) limitsOn(setting) goodput.Limits { return f.model.Batch }
func (f *fitted) batch() int                      { return f.size }

func (f *fitted) observe(done float64, s setting) (observation, error) {
	m := f.model
	p, ok := m.Params(s.gpuType)
	if !ok {
		return observation{}, fmt.Errorf("model %s has no figures for GPU type %q", m.Name, s.gpuType)
	}
	step := p.Step(s.shape(), float64(s.config.Local))
	frac := done / m.Iterations
	until := m.NoiseUntil(frac) * m.Iterations
	for until <= done { // the end of a phase, missed by rounding: it is over
		frac = math.Nextafter(frac, math.Inf(1))
		until = m.NoiseUntil(frac) * m.Iterations
	}
	o := observation{step: step, sync: step - p.Grad(float64(s.config.Local)), until: until}
	o.sqr, o.variance = statistics(m.NoiseAt(frac), m.Batch.Initial)
	return o, nil
}

// statistics returns gradient statistics with a given noise scale; only their ratio
// is meaningful.
func statistics(noise float64, initial int) (sqr, variance float64) {
	if math.IsInf(noise, 1) {
		return 0, 1
	}
	return 1, noise / float64(initial)
}

func (f *fitted) rate(done float64, s setting) (rate, until float64, err error) {
	o, err := f.observe(done, s)
	if err != nil {
		return 0, 0, err
	}
	return o.rate(s, f.model.Batch), o.until, nil
}

func (f *fitted) gain(done float64, batch int) (float64, error) {
	return goodput.Gain(f.model.NoiseAt(done/f.model.Iterations), f.model.Batch.Initial, batch), nil
}

func (f *fitted) loss(done float64, _ int) (float64, error) {
	return f.model.LossAt(done / f.model.Iterations), nil
}

// left uses the current efficiency for the rest of the training.
func (f *fitted) left(done float64) float64 {
	gain := goodput.Gain(f.model.NoiseAt(done/f.model.Iterations), f.model.Batch.Initial, f.size)
	return max(1, (f.model.Iterations-done)/gain)
}

func (f *fitted) restart(first bool, nodes int) time.Duration { return f.start.again(first, nodes) }

// paced is a job that trains a model of the zoo with a known iteration time and
// slowdown by locality level, but no throughput parameters.
type paced struct {
	model *zoo.Model
	start launch
}

func (p *paced) total() float64 { return p.model.Iterations }

func (p *paced) rate(_ float64, s setting) (rate, until float64, err error) {
	serial, ok := p.model.StepTimeOn(s.gpuType)
	if !ok {
		return 0, 0, fmt.Errorf("model %s has no figures for GPU type %q", p.model.Name, s.gpuType)
	}
	return float64(s.gpus) / (serial * p.model.SlowdownAt(s.level)), math.Inf(1), nil
}

func (p *paced) restart(first bool, nodes int) time.Duration { return p.start.again(first, nodes) }
