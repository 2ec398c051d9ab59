// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"fmt"
	"math"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/num"
)

// Config says how much a job trusts a prior.
type Config struct {
	// Weight is what a sample of the prior counts for, in measurements, while
	// the job has none and if its key is the same in everything.
	Weight float64 `json:"weight"`
	// A measured time counts against the prior if it is more than Off times what
	// was expected, or less than one Off-th; and enough alone to drop the prior
	// beyond Gross times. NoiseOff and NoiseGross are the same for the noise
	// scale, which is harder to measure.
	Off        float64 `json:"off"`
	Gross      float64 `json:"gross"`
	NoiseOff   float64 `json:"noise_off"`
	NoiseGross float64 `json:"noise_gross"`
	// Strikes is how many measurements that are off it takes.
	Strikes int `json:"strikes"`
}

// Default returns the configuration that fits most jobs.
func Default() Config {
	return Config{Weight: 3, Off: 1.4, Gross: 3, NoiseOff: 4, NoiseGross: 16, Strikes: 2}
}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	if !(c.Weight > 0 && c.Weight <= 1e6) {
		return fmt.Errorf("weight = %g; want more than 0 and at most 1e6", c.Weight)
	}
	for _, f := range []struct {
		name   string
		factor float64
		least  float64
	}{{"off", c.Off, 1}, {"gross", c.Gross, c.Off}, {"noise_off", c.NoiseOff, 1}, {"noise_gross", c.NoiseGross, c.NoiseOff}} {
		if !(f.factor >= f.least) {
			return fmt.Errorf("%s = %g; want a factor of at least %g", f.name, f.factor, f.least)
		}
	}
	if c.Strikes < 1 {
		return fmt.Errorf("strikes = %d; want 1 or more", c.Strikes)
	}
	return nil
}

// Prior is what past jobs tell one new job, until the job knows better. A nil
// prior says nothing, like one that was dropped.
type Prior struct {
	record *Record
	common int // what the keys of record and job have in common
	weight float64
	speed  guard
	noise  guard
}

// NewPrior returns what a record tells a job of a key; nil, if they are not
// similar. The configuration must be valid.
func NewPrior(k Key, r *Record, c Config) *Prior {
	common := agreement(k, r.Key)
	if common == 0 {
		return nil
	}
	return &Prior{
		record: r, common: common, weight: c.Weight * float64(common) / sameAll,
		speed: guard{off: c.Off, gross: c.Gross, left: c.Strikes},
		noise: guard{off: c.NoiseOff, gross: c.NoiseGross, left: c.Strikes},
	}
}

// Dropped reports whether the prior has nothing to say any more: the job has
// measured times that contradict it.
func (p *Prior) Dropped() bool { return p == nil || p.speed.left <= 0 }

// leastWeight keeps a weight from vanishing: a sample without any count counts
// as one measurement.
const leastWeight = 1e-6

// weightAfter returns what a sample of the prior counts for after a job has
// measured that often.
func (p *Prior) weightAfter(measured float64) float64 {
	return max(leastWeight, p.weight/(1+max(0, measured)))
}

// halving is the number of places a job has measured at when half of the
// samples of the past are left to it. A larger one makes better use of a past
// that is right, a smaller one is sooner rid of one that is a little wrong.
const halving = 2

// Profile returns a new profile of the job's own samples and of those of past
// jobs on the same type of GPU. own may be nil. A sample of the past is left out
// where the job has measured itself. The others step back in two ways: each
// counts for less the more measurements there are, and there are fewer of them
// the more places the job has measured at; those that stay are the farthest
// from these.
//
// MostGPUs of the result counts the past; for how far the job itself has gone,
// ask its own profile.
func (p *Prior) Profile(gpuType string, own *goodput.Profile) *goodput.Profile {
	var mine []goodput.Sample
	if own != nil {
		mine = own.Samples()
	}
	out := &goodput.Profile{}
	add := func(s goodput.Sample) {
		// Only a record that nobody validated can hold a sample that is refused,
		// and such a one says nothing.
		_ = out.Add(s)
	}
	measured := 0.0
	for _, s := range mine {
		measured += s.Count
		add(s)
	}
	if p.Dropped() {
		return out
	}
	past := p.record.Samples[gpuType]
	var rest []goodput.Sample
	for _, s := range past {
		if _, known := sampleAt(mine, s); !known {
			rest = append(rest, s)
		}
	}
	keep := num.CeilDiv(halving*len(past), halving+len(mine))
	for _, s := range spread(rest, mine, keep) {
		s.Count = p.weightAfter(measured)
		add(s)
	}
	return out
}

// Noise returns the gradient noise scale to reckon with at a point of training:
// what n measurements of the job say, mixed with what past jobs had there. The
// share of the past falls as n grows, and is all of it if n is 0. Without a
// past it is the measured value.
func (p *Prior) Noise(frac, measured float64, n int) float64 {
	past, ok := p.expectedNoise(frac)
	switch {
	case !ok:
		return measured
	case n <= 0 || math.IsNaN(measured):
		return past
	}
	w := p.weightAfter(float64(n))
	share := w / (w + float64(n))
	return math.Exp(share*math.Log(past) + (1-share)*math.Log(clip(measured)))
}

func (p *Prior) expectedNoise(frac float64) (noise float64, ok bool) {
	if p.Dropped() || p.noise.left <= 0 {
		return 0, false
	}
	return p.record.Noise.At(frac)
}

// MostGPUs returns the largest number of GPUs that past jobs have run on: a new
// job may be given that many without doubling its way up to them. It is 0 unless
// the model or the script is the same: nothing else says how the job scales.
func (p *Prior) MostGPUs() int {
	if p.Dropped() || p.common&(sameModel|sameScript) == 0 {
		return 0
	}
	return p.record.MostGPUs
}

// Restart returns what a restart took past jobs, in seconds.
func (p *Prior) Restart() (seconds float64, ok bool) {
	if p.Dropped() {
		return 0, false
	}
	return p.record.Restart.Value, p.record.Restart.Count > 0
}

// Work returns how many iterations past jobs took to the end of their training.
func (p *Prior) Work() (iterations float64, ok bool) {
	if p.Dropped() {
		return 0, false
	}
	return p.record.Work.Value, p.record.Work.Count > 0
}
