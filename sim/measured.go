// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"sort"
	"time"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// measuredRestart is the cost of every start in comparison mode, including the first:
// the convention of the reference simulator.
const measuredRestart = 30 * time.Second

// measured is a job that follows measured tables: step times by placement,
// gradient statistics by epoch.
type measured struct {
	model *profile.Model
	size  int       // batch
	ends  []float64 // progress at the end of each epoch
}

func newMeasured(m *profile.Model, w *Work) (*measured, error) {
	t := &measured{model: m, size: w.BatchSize}
	if t.size == 0 {
		t.size = m.Limits().Initial
	}
	if l := m.Limits(); t.size < l.Initial || t.size > l.Max {
		return nil, fmt.Errorf("job %s: batch_size = %d; the profile of %s was measured from %d to %d", w.ID, t.size, w.Model, l.Initial, l.Max)
	}
	for e := 1; e <= m.Epochs(); e++ {
		t.ends = append(t.ends, m.Progress(e))
	}
	return t, nil
}

func (t *measured) total() float64         { return t.ends[len(t.ends)-1] }
func (t *measured) limits() goodput.Limits { return t.model.Limits() }
func (t *measured) batch() int             { return t.size }

// epoch returns the current epoch, counted from 0.
func (t *measured) epoch(done float64) int {
	return sort.Search(len(t.ends), func(e int) bool { return t.ends[e] > done })
}

func (t *measured) observe(done float64, s setting) (observation, error) {
	epoch := t.epoch(done)
	if epoch == len(t.ends) {
		epoch-- // measured at the very end
	}
	counts := make([]int, len(s.placement))
	for i, slice := range s.placement {
		counts[i] = slice.GPUs.Len()
	}
	o := observation{until: t.ends[epoch]}
	var err error
	if o.step, o.sync, err = t.model.Step(counts, s.config.Local); err != nil {
		return o, err
	}
	o.sqr, o.variance, err = t.model.Grad(s.config.Batch(s.gpus), epoch)
	return o, err
}

func (t *measured) rate(done float64, s setting) (rate, until float64, err error) {
	o, err := t.observe(done, s)
	if err != nil {
		return 0, 0, err
	}
	return o.rate(s, t.model.Limits()), o.until, nil
}

func (t *measured) gain(done float64, batch int) (float64, error) {
	var o observation
	var err error
	if o.sqr, o.variance, err = t.model.Grad(batch, min(t.epoch(done), len(t.ends)-1)); err != nil {
		return 0, err
	}
	return o.gain(batch, t.model.Limits()), nil
}

// left counts iterations from the end of the current epoch, as the reference does.
func (t *measured) left(done float64) float64 {
	last := len(t.ends) - 1
	end, err1 := t.model.Iterations(t.size, last)
	now, err2 := t.model.Iterations(t.size, min(t.epoch(done), last))
	if err1 != nil || err2 != nil {
		return 1
	}
	return max(1, end-now)
}

func (t *measured) restart(bool) time.Duration { return measuredRestart }
