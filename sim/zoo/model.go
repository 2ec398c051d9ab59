// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"math"
	"sort"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// Model describes one model.
type Model struct {
	Name   string `json:"name"`
	Task   string `json:"task,omitempty"`
	Class  string `json:"class"`            // "vision", "nlp", "speech" or "recommendation"
	Source string `json:"source,omitempty"` // where the figures come from, and which are assumptions

	Batch goodput.Limits `json:"batch,omitzero"`
	// Iterations at the initial batch size complete the training. 0: unknown; then
	// the model only serves jobs with a known run time.
	Iterations float64 `json:"iterations,omitempty"`
	// Noise is the gradient noise scale over the course of training. None: every
	// batch size is equally efficient.
	Noise []NoisePoint `json:"noise,omitempty"`
	// Loss is the loss over the course of training. None: a curve common to all.
	// LossScatter is how much the loss of an epoch differs from that, as the standard
	// deviation of its logarithm.
	Loss        []LossPoint `json:"loss,omitempty"`
	LossScatter float64     `json:"loss_scatter,omitempty"`
	// Throughput has the parameters of the throughput model by GPU type, in
	// lower case.
	Throughput map[string]goodput.Params `json:"throughput,omitempty"`
	// StepTime has the seconds of one iteration at the initial batch size on
	// one GPU, by GPU type in lower case: for models without Throughput.
	StepTime map[string]float64 `json:"step_time,omitempty"`
	// Slowdown is for jobs whose speed does not come from Throughput.
	Slowdown Slowdown `json:"slowdown,omitzero"`

	Restart      sched.Duration `json:"restart,omitempty"`      // checkpoint and launch
	Interference float64        `json:"interference,omitempty"` // share of speed lost when another distributed job uses a node of this one
	GPUUtil      float64        `json:"gpu_util,omitempty"`     // 0 to 1; 0: unknown
	GPUMemory    int64          `json:"gpu_memory,omitempty"`   // bytes on each GPU; 0: unknown
	Consolidate  bool           `json:"consolidate,omitempty"`  // loses speed when its GPUs are spread
	MaxGPUs      int            `json:"max_gpus,omitempty"`     // for elastic policies; 0: no bound
}

// NoisePoint is the gradient noise scale, in examples, at one point of
// training.
type NoisePoint struct {
	At  float64 `json:"at"` // share of the iterations done, 0 to 1
	Phi float64 `json:"phi"`
}

// Slowdown is the factor on the step time when the GPUs are that far apart, 1 or
// more. A level that is left out has the value of the next closer one.
type Slowdown struct {
	Slot      float64 `json:"slot,omitempty"`
	Machine   float64 `json:"machine,omitempty"`
	Rack      float64 `json:"rack,omitempty"`
	CrossRack float64 `json:"cross_rack,omitempty"`
}

func (s Slowdown) levels() [4]float64 { return [4]float64{s.Slot, s.Machine, s.Rack, s.CrossRack} }

// SlowdownAt returns the factor on the step time at that level; 1: none.
func (m *Model) SlowdownAt(l sched.Level) float64 {
	out := 1.0
	for i, f := range m.Slowdown.levels() {
		if sched.SameSlot+sched.Level(i) <= l {
			out = max(out, f)
		}
	}
	return out
}

// Params returns the parameters of the throughput model on a type of GPU.
func (m *Model) Params(t sched.GPUType) (goodput.Params, bool) {
	p, ok := m.Throughput[strings.ToLower(string(t))]
	return p, ok
}

// StepTimeOn returns the seconds of one iteration at the initial batch size on
// one GPU of a type: from StepTime, or from Throughput.
func (m *Model) StepTimeOn(t sched.GPUType) (float64, bool) {
	if s, ok := m.StepTime[strings.ToLower(string(t))]; ok {
		return s, true
	}
	p, ok := m.Params(t)
	if !ok {
		return 0, false
	}
	c, ok := goodput.Split(m.Batch.Initial, 1, m.Batch)
	return p.Iter(goodput.Shape{Nodes: 1, GPUs: 1}, float64(c.Local), c.Accum), ok
}

// noiseSteps is the number of equal parts of training in which the noise scale
// is constant. It bounds how often the speed of a simulated job changes.
const noiseSteps = 20

// NoiseAt returns the gradient noise scale after a share of the iterations. It is a
// step function: each twentieth of training has the value at its middle, from the
// points of Noise joined by straight lines over the logarithm of phi. Without points
// it is +Inf: every batch size has efficiency 1.
func (m *Model) NoiseAt(frac float64) float64 {
	if len(m.Noise) == 0 {
		return math.Inf(1)
	}
	return m.noiseIn(noiseStep(frac))
}

// NoiseUntil returns the share of the iterations at which NoiseAt next
// changes, or +Inf if it does not.
func (m *Model) NoiseUntil(frac float64) float64 {
	if len(m.Noise) == 0 {
		return math.Inf(1)
	}
	step := noiseStep(frac)
	now := m.noiseIn(step)
	for next := step + 1; next < noiseSteps; next++ {
		if m.noiseIn(next) != now {
			return noiseBound(next)
		}
	}
	return math.Inf(1)
}

// noiseBound returns where a step begins.
func noiseBound(step int) float64 { return float64(step) / noiseSteps }

// noiseStep returns the step that contains frac. It agrees with noiseBound to the
// last bit: a product could land on the wrong side of a bound.
func noiseStep(frac float64) int {
	step := min(noiseSteps-1, max(0, int(frac*noiseSteps)))
	for step+1 < noiseSteps && noiseBound(step+1) <= frac {
		step++
	}
	for step > 0 && noiseBound(step) > frac {
		step--
	}
	return step
}

// noiseIn returns the value of a step.
func (m *Model) noiseIn(step int) float64 {
	x := (float64(step) + 0.5) / noiseSteps
	i := sort.Search(len(m.Noise), func(i int) bool { return m.Noise[i].At > x })
	switch i {
	case 0:
		return m.Noise[0].Phi
	case len(m.Noise):
		return m.Noise[i-1].Phi
	}
	a, b := m.Noise[i-1], m.Noise[i]
	w := (x - a.At) / (b.At - a.At)
	return a.Phi * math.Pow(b.Phi/a.Phi, w)
}
