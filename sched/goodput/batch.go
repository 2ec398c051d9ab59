// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"fmt"
	"math"

	"github.com/fairway-gpu/fairway/sched/num"
)

// Limits bound the batch size of a job.
type Limits struct {
	Initial  int `json:"initial"`   // of all GPUs: what the user's learning rate is meant for, and the least
	Max      int `json:"max"`       // of all GPUs
	LocalMin int `json:"local_min"` // of one GPU, for one gradient
	LocalMax int `json:"local_max"` // of one GPU, for one gradient: what fits in its memory
}

// Validate reports the first limit that is out of range.
func (l Limits) Validate() error {
	switch {
	case l.Initial < 1:
		return fmt.Errorf("initial = %d; want 1 or more", l.Initial)
	case l.Max < l.Initial:
		return fmt.Errorf("max = %d; want at least initial = %d", l.Max, l.Initial)
	case l.LocalMin < 1:
		return fmt.Errorf("local_min = %d; want 1 or more", l.LocalMin)
	case l.LocalMax < l.LocalMin:
		return fmt.Errorf("local_max = %d; want at least local_min = %d", l.LocalMax, l.LocalMin)
	}
	return nil
}

// Config is how the batch of one optimiser step is made up.
type Config struct {
	Local int // examples on one GPU for one gradient
	Accum int // gradients accumulated before the one that is exchanged
}

// Batch returns the total batch size on that many GPUs.
func (c Config) Batch(gpus int) int { return gpus * c.Local * (c.Accum + 1) }

// Split divides a batch evenly over GPUs, with as few accumulated gradients as
// memory allows. The batch that results may differ a little from the one asked
// for: it is rounded up to equal parts, unless that would exceed l.Max. One
// GPU accumulates at least once as soon as the batch is larger than the
// initial one: the noise scale cannot be measured from a single gradient.
// LocalMin is not enforced, a user may ask for less. ok is false if there is
// no such split: an argument is not positive, or there are more GPUs than
// l.Max examples.
func Split(batch, gpus int, l Limits) (c Config, ok bool) {
	if batch < 1 || gpus < 1 || l.LocalMax < 1 {
		return Config{}, false
	}
	local := num.CeilDiv(batch, gpus)
	c.Accum = num.CeilDiv(local, l.LocalMax) - 1
	if gpus == 1 && batch > l.Initial {
		c.Accum = max(1, c.Accum)
	}
	c.Local = min(num.CeilDiv(local, c.Accum+1), l.Max/(gpus*(c.Accum+1)))
	if c.Local < 1 {
		return Config{}, false
	}
	return c, true
}

// candidates is the number of batch sizes Best tries.
const candidates = 50

// Best returns the batch configuration with the largest goodput on a
// placement, and that goodput in examples of the initial batch size for each
// second (equation 13). It tries batch sizes in geometric steps from the
// smallest to the largest one that the limits allow. If they allow none, as
// when there are more GPUs than Max/LocalMin, the goodput is 0.
func (l Limits) Best(p Params, noise float64, s Shape) (best Config, goodput float64) {
	if s.GPUs < 1 || l.Validate() != nil {
		return Config{}, 0
	}
	least := max(l.Initial, l.LocalMin*s.GPUs)
	if least > l.Max {
		return Config{}, 0
	}
	m := measure{p: p, limits: l, noise: noise, gpus: s.GPUs, sync: p.Sync(s)}
	list := l.between(make([]Config, 0, candidates), least, s.GPUs)
	// Most of the work would be the powers in overlap. A guess at the best
	// candidate spares those of all that cannot come up to it.
	var most [candidates]float64
	guess, low := 0, newLowOverlap(p.Gamma)
	for i, c := range list {
		grad := p.Grad(float64(c.Local))
		most[i] = m.goodput(c, grad, low.of(grad, m.sync)) * (1 + guard)
		if most[i] > most[guess] {
			guess = i
		}
	}
	enough := 0.0
	if len(list) > 0 {
		enough = m.exact(list[guess])
	}
	for i, c := range list {
		if most[i] < max(enough, goodput) {
			continue
		}
		if g := m.exact(c); g > goodput {
			best, goodput = c, g
		}
	}
	return best, goodput
}

// between appends the configurations of batch sizes from the least to the
// largest.
func (l Limits) between(out []Config, least, gpus int) []Config {
	batch := float64(least)
	ratio := math.Exp(math.Log(float64(l.Max)/batch) / (candidates - 1))
	for i := range candidates {
		if i == candidates-1 {
			batch = float64(l.Max)
		}
		c, ok := l.near(batch, gpus)
		batch *= ratio
		if ok && (len(out) == 0 || c != out[len(out)-1]) {
			out = append(out, c)
		}
	}
	return out
}

// measure is what the goodput of a configuration depends on.
type measure struct {
	p      Params
	limits Limits
	noise  float64
	gpus   int
	sync   float64 // time of the exchange
}

// goodput returns the goodput if a gradient, and one with the exchange, take
// that long.
func (m *measure) goodput(c Config, grad, step float64) float64 {
	total := c.Batch(m.gpus)
	iter := float64(c.Accum)*grad + step
	return float64(total) / iter * Efficiency(m.noise, m.limits.Initial, total)
}

func (m *measure) exact(c Config) float64 {
	grad := m.p.Grad(float64(c.Local))
	return m.goodput(c, grad, overlap(grad, m.sync, m.p.Gamma))
}

// guard keeps rounding errors of batch sizes that are whole numbers in truth
// from pushing them over to the next whole number.
const guard = 1e-8

// near returns the configuration next to a batch size that need not be whole.
// ok is false if its gradients would be outside the limits of one GPU.
func (l Limits) near(batch float64, gpus int) (Config, bool) {
	local := batch / float64(gpus)
	c := Config{Accum: int(math.Ceil(local/float64(l.LocalMax)-guard)) - 1}
	if gpus == 1 && local > float64(l.Initial)+guard {
		c.Accum = max(1, c.Accum)
	}
	c.Local = min(int(math.Ceil(local/float64(c.Accum+1)-guard)), l.Max/(gpus*(c.Accum+1)))
	return c, c.Local >= l.LocalMin && c.Local <= l.LocalMax
}
