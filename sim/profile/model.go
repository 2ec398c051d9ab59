// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// Model has the measurements of one model on one GPU type. It caches results and is
// not safe for concurrent use.
type Model struct {
	name     string
	gpuType  string // "": the files do not name it
	unit     int    // GPUs of a replica that is a pipeline; 0: one GPU
	runs     []run  // ascending batch sizes
	measured map[placement][]sample
	longest  int // nodes of the longest measured placement
	surface  surface
	scaled   []point // rows of scalability.csv

	byPlacement map[exactKey]times
	byShape     map[point]times
}

func newModel(name, gpuType string) *Model {
	return &Model{
		name:        name,
		gpuType:     gpuType,
		measured:    map[placement][]sample{},
		byPlacement: map[exactKey]times{},
		byShape:     map[point]times{},
	}
}

// Name returns the name of the model.
func (m *Model) Name() string { return m.name }

// quirk is a property of a model that is in the code of the simulators of the Pollux
// and the Sia artifact and not in their tables.
type quirk struct {
	epochs   int            // training is complete after this many
	localMax map[string]int // largest local batch it uses, by GPU type; none: the largest measured
}

// quirks are those of the artifacts' models. Pollux: yolov3 was measured with up to 16
// examples per GPU on few nodes, but with at most 8 on many.
var quirks = map[string]quirk{
	"bert":        {epochs: 2},
	"cifar10":     {epochs: 100},
	"deepspeech2": {epochs: 80, localMax: map[string]int{"rtx": 57}},
	"gpt_pmp":     {epochs: 2},
	"imagenet":    {epochs: 90},
	"ncf":         {epochs: 10},
	"yolov3":      {epochs: 50, localMax: map[string]int{"": 8}},
}

// Base returns the batch size of which an iteration counts as one unit of progress.
func (m *Model) Base() int { return m.runs[0].batch }

// Limits returns the bounds of the batch size: in total from the training runs, per
// GPU (of a pipeline: per replica) from the measured placements.
func (m *Model) Limits() goodput.Limits {
	l := goodput.Limits{Initial: m.runs[0].batch, Max: m.runs[len(m.runs)-1].batch}
	for _, samples := range m.measured {
		first, last := samples[0].local, samples[len(samples)-1].local
		if l.LocalMin == 0 || first < l.LocalMin {
			l.LocalMin = first
		}
		l.LocalMax = max(l.LocalMax, last)
	}
	if most := quirks[m.name].localMax[m.gpuType]; most > 0 {
		l.LocalMax = min(l.LocalMax, most)
	}
	if m.unit > 0 { // its number of micro-batches is fixed
		l.LocalMax = l.LocalMin
		l.Initial = max(l.Initial, l.LocalMin)
	}
	return l
}

// Epochs returns the number of epochs after which training is complete.
func (m *Model) Epochs() int {
	n := len(m.runs[0].epochs)
	for _, r := range m.runs {
		n = min(n, len(r.epochs))
	}
	if most := quirks[m.name].epochs; most > 0 {
		n = min(n, most)
	}
	return n
}

// Progress returns the progress that completes that many epochs, in iterations at the
// initial batch size: the least of all training runs. Beyond Epochs it stays
// constant.
func (m *Model) Progress(epochs int) float64 {
	epochs = min(epochs, m.Epochs())
	if epochs < 1 {
		return 0
	}
	least := m.runs[0].epochs[epochs-1].progress
	for _, r := range m.runs {
		least = min(least, r.epochs[epochs-1].progress)
	}
	return least
}

// Grad returns the square of the length of the gradient and its variance in an
// epoch (from 0) at a total batch size, interpolated linearly between the
// training runs at the two batch sizes around it.
func (m *Model) Grad(batch, epoch int) (sqr, variance float64, err error) {
	a, b, w, err := m.between(batch, epoch)
	if err != nil {
		return 0, 0, err
	}
	return a.sqr + w*(b.sqr-a.sqr), a.variance + w*(b.variance-a.variance), nil
}

// Iterations returns the iterations done at the end of an epoch (from 0) at a
// total batch size, interpolated like Grad.
func (m *Model) Iterations(batch, epoch int) (float64, error) {
	a, b, w, err := m.between(batch, epoch)
	if err != nil {
		return 0, err
	}
	return a.iteration + w*(b.iteration-a.iteration), nil
}

// between returns an epoch of the two runs around a batch size, and the position of
// the batch size between them.
func (m *Model) between(batch, epoch int) (a, b *epoch, w float64, err error) {
	if epoch < 0 || epoch >= m.Epochs() {
		return nil, nil, 0, fmt.Errorf("profile %s: epoch %d; want 0 to %d", m.name, epoch, m.Epochs()-1)
	}
	i, exact := slices.BinarySearchFunc(m.runs, batch, func(r run, batch int) int { return cmp.Compare(r.batch, batch) })
	switch {
	case exact:
		a = &m.runs[i].epochs[epoch]
		return a, a, 0, nil
	case i == 0 || i == len(m.runs):
		return nil, nil, 0, fmt.Errorf("profile %s: batch size %d; want %d to %d, as measured",
			m.name, batch, m.runs[0].batch, m.runs[len(m.runs)-1].batch)
	}
	lo, hi := &m.runs[i-1], &m.runs[i]
	w = float64(batch-lo.batch) / float64(hi.batch-lo.batch)
	return &lo.epochs[epoch], &hi.epochs[epoch], w, nil
}
