// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Sample is what was measured of a job on one placement at one batch size.
type Sample struct {
	Nodes int `json:"nodes"`
	GPUs  int `json:"gpus"`
	Local int `json:"local"` // examples on one GPU for one gradient
	// Step is the time of an optimiser step without accumulation, and Sync the
	// part of it spent waiting for the exchange of gradients: the rest is the
	// time of one gradient. Both in seconds.
	Step float64 `json:"step"`
	Sync float64 `json:"sync"`
	// Count is how many measurements the times are the mean of; 0 counts as 1.
	Count float64 `json:"count,omitempty"`
}

// The times a step may take, in seconds: a nanosecond to some thirty years.
const (
	shortest = 1e-9
	longest  = 1e9
)

// longestSync returns the longest exchange that leaves a trace of the gradient
// in a step.
func longestSync(step float64) float64 { return step * (1 - 1e-9) }

// Grad returns the time of one gradient in seconds.
func (s Sample) Grad() float64 { return s.Step - s.Sync }

// Validate reports the first field that is out of range.
func (s Sample) Validate() error {
	switch {
	case s.Nodes < 1:
		return fmt.Errorf("nodes = %d; want 1 or more", s.Nodes)
	case s.GPUs < s.Nodes:
		return fmt.Errorf("gpus = %d; want at least nodes = %d", s.GPUs, s.Nodes)
	case s.Local < 1:
		return fmt.Errorf("local = %d; want 1 or more", s.Local)
	case !(s.Step >= shortest && s.Step <= longest):
		return fmt.Errorf("step = %g; want %g to %g seconds", s.Step, shortest, longest)
	case !(s.Sync >= 0 && s.Sync <= longestSync(s.Step)):
		return fmt.Errorf("sync = %g; want 0 seconds or more, and less than step = %g", s.Sync, s.Step)
	case !(s.Count >= 0) || math.IsInf(s.Count, 1):
		return fmt.Errorf("count = %g; want 0 or more", s.Count)
	}
	return nil
}

// Profile is all that was measured of a job on one type of GPU: the mean times
// for each number of nodes, number of GPUs and local batch size it has run
// with. The zero value is an empty profile.
type Profile struct {
	samples []Sample // by place, one for each
}

// place orders samples, and is 0 for two that belong together.
func place(a, b Sample) int {
	return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Local, b.Local))
}

// Add takes a sample into the running means. The profile is unchanged if the
// sample is out of range.
func (p *Profile) Add(s Sample) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("add sample: %w", err)
	}
	if s.Count == 0 {
		s.Count = 1
	}
	i, found := slices.BinarySearchFunc(p.samples, s, place)
	if !found {
		p.samples = slices.Insert(p.samples, i, s)
		return nil
	}
	old := &p.samples[i]
	share := s.Count / (old.Count + s.Count)
	// But for rounding, a mean of valid times is valid.
	old.Step = min(max(old.Step+share*(s.Step-old.Step), shortest), longest)
	old.Sync = min(max(old.Sync+share*(s.Sync-old.Sync), 0), longestSync(old.Step))
	old.Count = min(old.Count+s.Count, math.MaxFloat64/2)
	return nil
}

// Len returns the number of different placements and batch sizes.
func (p *Profile) Len() int { return len(p.samples) }

// Samples returns a copy of the means, ordered by nodes, GPUs and local batch.
func (p *Profile) Samples() []Sample { return slices.Clone(p.samples) }

// MostGPUs returns the largest number of GPUs the job has run on.
func (p *Profile) MostGPUs() int {
	most := 0
	for _, s := range p.samples {
		most = max(most, s.GPUs)
	}
	return most
}

// MostAllowed returns the largest number of GPUs the job should be given next.
// The model is hopeful about what it has not seen, so a job may only double:
// at most twice what it has run on (one GPU if that is nothing), at most limit,
// and at most what its largest batch can be split over; never less than 1.
func (p *Profile) MostAllowed(l Limits, limit int) int {
	return max(1, min(max(1, 2*p.MostGPUs()), limit, l.Max/max(1, l.LocalMin)))
}

// MaxSamples is the largest number of samples a profile is read with.
const MaxSamples = 1 << 16

// MarshalJSON writes the samples as an array, in the order of Samples.
func (p Profile) MarshalJSON() ([]byte, error) {
	if p.samples == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(p.samples)
}

// UnmarshalJSON replaces the profile by an array of samples, in any order.
func (p *Profile) UnmarshalJSON(data []byte) error {
	var samples []Sample
	if err := json.Unmarshal(data, &samples); err != nil {
		return fmt.Errorf("read profile: %w", err)
	}
	if len(samples) > MaxSamples {
		return fmt.Errorf("read profile: %d samples; want at most %d", len(samples), MaxSamples)
	}
	var read Profile
	for i, s := range samples {
		if err := read.Add(s); err != nil {
			return fmt.Errorf("read profile: sample %d: %w", i, err)
		}
	}
	*p = read
	return nil
}
