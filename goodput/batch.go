// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"fmt"
	"math"
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
	local := ceilDiv(batch, gpus)
	c.Accum = ceilDiv(local, l.LocalMax) - 1
	if gpus == 1 && batch > l.Initial {
		c.Accum = max(1, c.Accum)
	}
	c.Local = min(ceilDiv(local, c.Accum+1), l.Max/(gpus*(c.Accum+1)))
	if c.Local < 1 {
		return Config{}, false
	}
	return c, true
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

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
	sync := p.Sync(s)
	batch := float64(least)
	ratio := math.Exp(math.Log(float64(l.Max)/batch) / (candidates - 1))
	var last Config
	for i := range candidates {
		if i == candidates-1 {
			batch = float64(l.Max)
		}
		c, ok := l.near(batch, s.GPUs)
		batch *= ratio
		if !ok || c == last {
			continue
		}
		last = c
		grad := p.Grad(float64(c.Local))
		total := c.Batch(s.GPUs)
		iter := float64(c.Accum)*grad + overlap(grad, sync, p.Gamma)
		if g := float64(total) / iter * Efficiency(noise, l.Initial, total); g > goodput {
			best, goodput = c, g
		}
	}
	return best, goodput
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
