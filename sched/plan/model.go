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

// Memory returns the bytes that a plan needs on each GPU, and on the host for each GPU.
//
// The activations of a layer are those of Korthikanti et al. (2022), without sequence
// parallelism: a pipeline holds them for as many parts of the batch as it has stages, and
// recomputation keeps only the input of each layer, and one layer at a time.
func (m Model) Memory(p Plan) (gpu, host float64) {
	d, t, s := float64(p.Data), float64(p.Tensor), float64(p.Pipeline)
	micro := max(1, p.Micro)
	weights := m.Parameters / (t * s)
	switch p.Sharding {
	case Replicated:
		gpu = weights * (weightBytes + gradientBytes + optimizerBytes)
	case Optimizer:
		gpu = weights * (weightBytes + gradientBytes + optimizerBytes/d)
	case Full: // all of it divided, and the layer at work gathered
		gpu = weights*(weightBytes+gradientBytes+optimizerBytes)/d +
			(weightBytes+gradientBytes)*m.Parameters/float64(max(1, m.Layers))/t
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
	layer := tokens * float64(m.Hidden) * (10 + 24/t + 5*float64(m.Heads*m.Sequence)/float64(max(1, m.Hidden))/t)
	layers := math.Ceil(float64(m.Layers)/s) * float64(min(p.Pipeline, micro))
	if p.Recompute {
		gpu += 2*tokens*float64(m.Hidden)*layers + layer
	} else {
		gpu += layer * layers
	}
	const logits = 6 // bytes for each token and word: once in 2 bytes, once in 4
	gpu += logits * tokens * float64(m.Vocabulary) / t
	return gpu + runtimeBytes, host
}
