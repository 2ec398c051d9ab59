// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
)

// Model is the shape of a transformer and the batch it is trained with.
type Model struct {
	Parameters float64 `json:"parameters"`
	Layers     int     `json:"layers"`
	Hidden     int     `json:"hidden"`
	Heads      int     `json:"heads"`
	Sequence   int     `json:"sequence"` // tokens of an example
	Vocabulary int     `json:"vocabulary,omitempty"`
	Batch      int     `json:"batch"` // examples of a step, of all GPUs together

	// Explicit says that the matrix of attention is kept in memory, as by code without flash
	// attention.
	Explicit bool `json:"explicit_attention,omitempty"`
}

// The bounds of a model: more than any has, and little enough for loops.
const (
	maxParameters = 1e15
	maxCount      = 1 << 24
)

// Validate reports the first field that is out of range.
func (m Model) Validate() error {
	if !(m.Parameters >= 1 && m.Parameters <= maxParameters) {
		return fmt.Errorf("parameters = %g; want 1 to %g", m.Parameters, float64(maxParameters))
	}
	for _, f := range []struct {
		name  string
		value int
		least int
	}{
		{"layers", m.Layers, 1}, {"hidden", m.Hidden, 1}, {"heads", m.Heads, 1}, {"sequence", m.Sequence, 1},
		{"vocabulary", m.Vocabulary, 0}, {"batch", m.Batch, 1},
	} {
		if f.value < f.least || f.value > maxCount {
			return fmt.Errorf("%s = %d; want %d to %d", f.name, f.value, f.least, maxCount)
		}
	}
	return nil
}

// Bytes for each parameter of a model in mixed precision with Adam: weights and gradients
// of 2 bytes, and the optimiser's weights and two moments of 4.
const (
	weightBytes    = 2
	gradientBytes  = 2
	optimizerBytes = 12
)

// runtimeBytes is what CUDA and the communication libraries hold of a GPU.
const runtimeBytes = 1.5e9

// logitBytes is what the loss needs for each token and word: the logits, once in 2 bytes
// and once in 4, their logarithm and a gradient.
const logitBytes = 12

// Memory returns the bytes that a plan needs on each GPU, and on the host for each GPU.
//
// The activations of a layer are those of Korthikanti et al. (2022), without sequence
// parallelism: a pipeline holds them for as many parts of the batch as it has stages, and
// recomputation keeps only the input of each layer, and one layer at a time. The most is
// needed when a forward pass ends, at the loss, or when the first layer is computed again.
// On one GPU without parts the gradients come after that, in the room of the activations.
func (m Model) Memory(p Plan) (gpu, host float64) {
	d, t, s := float64(p.Data), float64(p.Tensor), float64(p.Pipeline)
	micro := max(1, p.Micro)
	weights := m.Parameters / (t * s)
	gradients := weights * gradientBytes
	switch p.Sharding {
	case Replicated:
		gpu = weights * (weightBytes + optimizerBytes)
	case Optimizer:
		gpu = weights * (weightBytes + optimizerBytes/d)
	case Full: // all of it divided, and the layer at work gathered
		gpu = weights*(weightBytes+optimizerBytes)/d + (weightBytes+gradientBytes)*m.Parameters/float64(max(1, m.Layers))/t
		gradients /= d
	}
	if p.Offload {
		moved := weights * optimizerBytes / d
		if p.Sharding == Replicated {
			moved = weights * optimizerBytes
		}
		gpu -= moved
		host = moved + weights*4/d // gradients of 4 bytes
	}

	examples := math.Ceil(float64(m.Batch) / d / float64(micro))
	tokens := examples * float64(m.Sequence)
	wide := 10 + 24/t
	if m.Explicit {
		wide += 5 * float64(m.Heads*m.Sequence) / float64(max(1, m.Hidden)) / t
	}
	layer := tokens * float64(m.Hidden) * wide
	layers := math.Ceil(float64(m.Layers)/s) * float64(min(p.Pipeline, micro))
	kept, work := layer*layers, logitBytes*tokens*float64(m.Vocabulary)/t
	if p.Recompute {
		kept, work = 2*tokens*float64(m.Hidden)*layers, max(work, layer)
	}
	if micro > 1 || p.GPUs() > 1 {
		gpu += gradients + kept + work
	} else {
		gpu += max(gradients, kept+work)
	}
	return gpu + runtimeBytes, host
}
