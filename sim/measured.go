// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/fairway-gpu/fairway/goodput"
	"github.com/fairway-gpu/fairway/profile"
)

// measuredRestart is what every start costs in comparison mode, the first one
// too: the convention of the reference simulator.
const measuredRestart = 30 * time.Second

// measured is a job that follows measured tables: step times by placement,
// gradient statistics by epoch.
type measured struct {
	model *profile.Model
	batch int
	ends  []float64 // progress at the end of each epoch
}

func newMeasured(m *profile.Model, w *Work) (*measured, error) {
	t := &measured{model: m, batch: w.BatchSize}
	if t.batch == 0 {
		t.batch = m.Limits().Initial
	}
	if l := m.Limits(); t.batch < l.Initial || t.batch > l.Max {
		return nil, fmt.Errorf("job %s: batch_size = %d; the profile of %s was measured from %d to %d", w.ID, t.batch, w.Model, l.Initial, l.Max)
	}
	for e := 1; e <= m.Epochs(); e++ {
		t.ends = append(t.ends, m.Progress(e))
	}
	return t, nil
}

func (t *measured) total() float64 { return t.ends[len(t.ends)-1] }

func (t *measured) rate(done float64, s setting) (rate, until float64, err error) {
	epoch := sort.Search(len(t.ends), func(e int) bool { return t.ends[e] > done })
	if epoch == len(t.ends) {
		return 0, math.Inf(1), nil
	}
	limits := t.model.Limits()
	split, ok := goodput.Split(t.batch, s.gpus, limits)
	if !ok {
		return 0, 0, fmt.Errorf("batch size %d cannot be split over %d GPUs", t.batch, s.gpus)
	}
	counts := make([]int, len(s.placement))
	for i, slice := range s.placement {
		counts[i] = slice.GPUs.Len()
	}
	step, sync, err := t.model.Step(counts, split.Local)
	if err != nil {
		return 0, 0, err
	}
	batch := split.Batch(s.gpus)
	sqr, variance, err := t.model.Grad(batch, epoch)
	if err != nil {
		return 0, 0, err
	}
	scale := float64(batch) / float64(limits.Initial)
	gain := (variance + sqr) / (variance/scale + sqr)
	return gain / (step + float64(split.Accum)*(step-sync)), t.ends[epoch], nil
}

func (t *measured) restart(bool) time.Duration { return measuredRestart }
