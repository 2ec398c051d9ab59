// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"fmt"
	"math"

	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/num"
)

// Config says how much a job relies on a prior.
type Config struct {
	// Weight is the weight of a sample of the prior, in measurements, while the job
	// has none and if all fields of its key are equal.
	Weight float64 `json:"weight"`
	// A measured time counts against the prior if it is more than Off times the
	// expected one, or less than 1/Off of it; beyond a factor of Gross, one
	// measurement is enough to drop the prior. NoiseOff and NoiseGross are the same
	// for the noise scale, which is harder to measure.
	Off        float64 `json:"off"`
	Gross      float64 `json:"gross"`
	NoiseOff   float64 `json:"noise_off"`
	NoiseGross float64 `json:"noise_gross"`
	// Strikes is the number of such measurements that drop the prior.
	Strikes int `json:"strikes"`
}

// Default returns a configuration that suits most jobs.
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

// Prior is what past jobs measured, for one new job until it has measurements of its
// own. A nil prior has no data, like one that was dropped.
type Prior struct {
	record *Record
	common int // fields that the keys of record and job share
	weight float64
	speed  guard
	noise  guard
}

// NewPrior returns the prior of a record for a job with a key; nil if they are not
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

// Dropped reports whether the prior is no longer used: the job has measured times
// that contradict it.
func (p *Prior) Dropped() bool { return p == nil || p.speed.left <= 0 }

// leastWeight keeps a weight above 0: a sample with a count of 0 would count as one
// measurement.
const leastWeight = 1e-6

// weightAfter returns the weight of a sample of the prior after that many
// measurements.
func (p *Prior) weightAfter(measured float64) float64 {
	return max(leastWeight, p.weight/(1+max(0, measured)))
}

// halving is the number of shapes that a job has measured when half of the prior's
// samples are left. A larger value makes better use of a correct prior, a smaller one
// drops a slightly wrong one sooner.
const halving = 2

// Profile returns a new profile of the job's own samples and those of past jobs on
// the same GPU type. own may be nil. Past samples are left out where the job has
// measured itself. The others fade in two ways: each has less weight the more
// measurements there are, and there are fewer of them the more shapes the job has
// measured; those farthest from these stay.
//
// MostGPUs of the result includes past jobs; the job's own is in its own profile.
func (p *Prior) Profile(gpuType string, own *goodput.Profile) *goodput.Profile {
	var mine []goodput.Sample
	if own != nil {
		mine = own.Samples()
	}
	out := &goodput.Profile{}
	add := func(s goodput.Sample) {
		// Only an unvalidated record can have a sample that is refused; such a sample
		// is ignored.
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

// Noise returns the gradient noise scale to use at a point of training: n
// measurements of the job, mixed with that of past jobs. The weight of past jobs
// falls as n grows; if n is 0, only they count. Without a prior it is the measured
// value.
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

// MostGPUs returns the most GPUs that past jobs ran on: a new job may get that many
// without doubling its way up. It is 0 unless the model or the script is the same:
// nothing else says how the job scales.
func (p *Prior) MostGPUs() int {
	if p.Dropped() || p.common&(sameModel|sameScript) == 0 {
		return 0
	}
	return p.record.MostGPUs
}

// Restart returns the mean restart time of past jobs, in seconds.
func (p *Prior) Restart() (seconds float64, ok bool) {
	if p.Dropped() {
		return 0, false
	}
	return p.record.Restart.Value, p.record.Restart.Count > 0
}

// Work returns the mean number of iterations that past jobs took to complete their
// training.
func (p *Prior) Work() (iterations float64, ok bool) {
	if p.Dropped() {
		return 0, false
	}
	return p.record.Work.Value, p.record.Work.Count > 0
}
