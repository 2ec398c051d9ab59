// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// measured is a job that follows measured tables: step times by placement,
// gradient statistics by epoch.
type measured struct {
	model *profile.Model                   // training runs, and step times on any type
	types map[sched.GPUType]*profile.Model // step times by type; nil: the same on all
	size  int                              // batch
	ends  []float64                        // progress at the end of each epoch
	start launch
	sia   bool // the conventions of the Sia artifact's simulator apply
}

func newMeasured(c *Config, w *Work) (*measured, error) {
	t := &measured{size: w.BatchSize, start: c.launchOf(w.Model), sia: c.asSia()}
	for _, gpuType := range c.Cluster.Types {
		m, ok := c.Profiles.On(w.Model, string(gpuType))
		if !ok {
			continue
		}
		if t.model == nil {
			t.model = m
		}
		if c.Profiles.Typed() {
			if t.types == nil {
				t.types = map[sched.GPUType]*profile.Model{}
			}
			t.types[gpuType] = m
		}
	}
	m := t.model
	if m == nil {
		return nil, fmt.Errorf("job %s: model = %q; the profiles have %v", w.ID, w.Model, c.Profiles.Models())
	}
	if t.size == 0 {
		t.size = m.Limits().Initial
	}
	if most := m.Limits().Max; t.size < m.Base() || t.size > most {
		return nil, fmt.Errorf("job %s: batch_size = %d; the profile of %s was measured from %d to %d", w.ID, t.size, w.Model, m.Base(), most)
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
	m := t.on(s.gpuType)
	o := observation{until: t.ends[epoch], base: m.Base()}
	if t.sia {
		o.slowdown = m.Slowdown()
	}
	var err error
	if o.step, o.sync, err = m.Step(s.counts(), s.config.Local); err != nil {
		return o, err
	}
	o.sqr, o.variance, err = m.Grad(s.config.Batch(s.replicas()), epoch)
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
	o := observation{base: t.model.Base()}
	var err error
	if o.sqr, o.variance, err = t.model.Grad(batch, min(t.epoch(done), len(t.ends)-1)); err != nil {
		return 0, err
	}
	return o.gain(batch, t.model.Limits()), nil
}

// loss is known at the ends of epochs, and interpolated between them like the zoo's.
func (t *measured) loss(done float64, batch int) (float64, error) {
	epoch := min(t.epoch(done), len(t.ends)-1)
	after, err := t.model.Loss(batch, epoch)
	before, from := 1.0, 0.0
	if epoch > 0 && err == nil {
		from = t.ends[epoch-1]
		before, err = t.model.Loss(batch, epoch-1)
	}
	if err != nil {
		return 0, err
	}
	w := min(1, (done-from)/(t.ends[epoch]-from))
	return math.Exp((1-w)*math.Log(before) + w*math.Log(after)), nil
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

// restart: the first start costs as much as any other, as in the reference.
func (t *measured) restart(_ bool, nodes int) time.Duration {
	if t.sia {
		takes, _ := t.model.Restart()
		return takes
	}
	return t.start.on(nodes)
}
