// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// memory is the largest weight of past jobs in a mean: every further job counts as
// one of that many, so that older ones fade.
const memory = 20

// The bounds of a record.
const (
	MaxSamples = 64 // for one type of GPU
	MaxTypes   = 64
)

// Outcome is what a job measured itself. It must not include data from a Prior, or
// the pool would learn from itself. Fields that were not measured are zero.
type Outcome struct {
	Profiles map[string]*goodput.Profile // by type of GPU
	Noise    Curve
	Restart  float64 // mean of its restarts, in seconds
	Work     float64 // iterations to complete the training; 0 if it did not complete
}

// Mean is an average over past jobs.
type Mean struct {
	Value float64 `json:"value"`
	Count int     `json:"count"` // jobs; 0: unknown
}

// mostValue bounds means: above any number of seconds or iterations, and far below
// overflow.
const mostValue = 1e15

// with returns the mean with one more job; 0: unknown for that job.
func (m Mean) with(x float64) (Mean, error) {
	if !(x >= 0 && x <= mostValue) {
		return m, fmt.Errorf("value = %g; want 0 to %g", x, float64(mostValue))
	}
	if x > 0 {
		m.Value += (x - m.Value) / float64(m.Count+1)
		m.Count = min(m.Count+1, memory)
	}
	return m, nil
}

func (m Mean) validate() error {
	if m == (Mean{}) || m.Count > 0 && m.Count <= memory && m.Value > 0 && m.Value <= mostValue {
		return nil
	}
	return fmt.Errorf("value = %g with count = %d; want both 0, or a value up to %g with a count of 1 to %d", m.Value, m.Count, float64(mostValue), memory)
}

// Record is what the jobs of one key measured. Records are immutable: a pool that
// learns makes new ones.
type Record struct {
	Key Key `json:"key"`
	// Samples are the measured times, by GPU type; each list in order of nodes, GPUs
	// and local batch, at most MaxSamples of a type. The count of a sample is the
	// number of jobs.
	Samples map[string][]goodput.Sample `json:"samples,omitempty"`
	Noise   Curve                       `json:"noise,omitempty"`
	Restart Mean                        `json:"restart,omitzero"` // seconds
	Work    Mean                        `json:"work,omitzero"`    // iterations to the end of training
	// MostGPUs is the largest number of GPUs any of the jobs ran on.
	MostGPUs int `json:"most_gpus,omitempty"`
	Jobs     int `json:"jobs"`
	// Used orders records by their last update: a larger number is later.
	Used uint64 `json:"used"`
}

// with returns the record with one more job.
func (r *Record) with(o Outcome) (*Record, error) {
	next := *r
	next.Samples = maps.Clone(r.Samples)
	if next.Samples == nil {
		next.Samples = map[string][]goodput.Sample{}
	}
	for _, gpuType := range slices.Sorted(maps.Keys(o.Profiles)) {
		p := o.Profiles[gpuType]
		if p == nil || p.Len() == 0 {
			continue
		}
		joined, err := join(r.Samples[gpuType], p.Samples())
		if err != nil {
			return nil, fmt.Errorf("samples of GPU type %s: %w", gpuType, err)
		}
		next.Samples[gpuType] = joined
		next.MostGPUs = max(next.MostGPUs, p.MostGPUs())
	}
	next.Noise = r.Noise.with(o.Noise)
	var err error
	if next.Restart, err = r.Restart.with(o.Restart); err != nil {
		return nil, fmt.Errorf("restart: %w", err)
	}
	if next.Work, err = r.Work.with(o.Work); err != nil {
		return nil, fmt.Errorf("work: %w", err)
	}
	next.Jobs = min(r.Jobs+1, math.MaxInt32)
	return &next, next.Validate()
}

// join averages the samples of one more job with the past ones, and keeps the most
// informative if there are too many.
func join(past, job []goodput.Sample) ([]goodput.Sample, error) {
	var p goodput.Profile
	for _, s := range past {
		if err := p.Add(s); err != nil {
			return nil, err
		}
	}
	for _, s := range job {
		s.Count = 1
		if err := p.Add(s); err != nil {
			return nil, err
		}
	}
	all := p.Samples()
	for i := range all {
		all[i].Count = min(all[i].Count, memory)
	}
	return spread(all, nil, MaxSamples), nil
}

func (r *Record) samples() int {
	n := 0
	for _, s := range r.Samples {
		n += len(s)
	}
	return n
}

// Validate reports the first field that is out of range.
func (r *Record) Validate() error {
	if err := r.Key.Validate(); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if !r.Key.findable() {
		return fmt.Errorf("key = %+v; want a model, script or user", r.Key)
	}
	if len(r.Samples) > MaxTypes {
		return fmt.Errorf("samples: %d types of GPU; want at most %d", len(r.Samples), MaxTypes)
	}
	for _, gpuType := range slices.Sorted(maps.Keys(r.Samples)) {
		if gpuType == "" || !keepable(gpuType, maxType) {
			return fmt.Errorf("samples: GPU type %.60q; want printable text of 1 to %d bytes", gpuType, maxType)
		}
		if err := validateSamples(r.Samples[gpuType]); err != nil {
			return fmt.Errorf("samples of GPU type %s: %w", gpuType, err)
		}
		for _, s := range r.Samples[gpuType] {
			if s.GPUs > r.MostGPUs {
				return fmt.Errorf("most_gpus = %d; want at least %d, where GPU type %s has a sample", r.MostGPUs, s.GPUs, gpuType)
			}
		}
	}
	if err := r.Noise.validate(); err != nil {
		return err
	}
	if err := r.Restart.validate(); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := r.Work.validate(); err != nil {
		return fmt.Errorf("work: %w", err)
	}
	switch {
	case r.Jobs < 1 || r.Jobs > math.MaxInt32:
		return fmt.Errorf("jobs = %d; want 1 to %d", r.Jobs, math.MaxInt32)
	case r.MostGPUs < 0:
		return fmt.Errorf("most_gpus = %d; want 0 or more", r.MostGPUs)
	case r.Used > maxUsed:
		return fmt.Errorf("used = %d; want at most %d", r.Used, uint64(maxUsed))
	}
	return nil
}

func validateSamples(samples []goodput.Sample) error {
	if len(samples) < 1 || len(samples) > MaxSamples {
		return fmt.Errorf("%d samples; want 1 to %d", len(samples), MaxSamples)
	}
	for i, s := range samples {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		if !(s.Count > 0 && s.Count <= memory) {
			return fmt.Errorf("sample %d: count = %g; want more than 0 and at most %d", i, s.Count, memory)
		}
		if i > 0 && compareShape(samples[i-1], s) >= 0 {
			return fmt.Errorf("sample %d: %d nodes, %d GPUs, local %d after %d, %d, %d; want ascending order",
				i, s.Nodes, s.GPUs, s.Local, samples[i-1].Nodes, samples[i-1].GPUs, samples[i-1].Local)
		}
	}
	return nil
}

// compareShape orders samples like a profile; it is 0 for the same placement and
// batch.
func compareShape(a, b goodput.Sample) int {
	return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Local, b.Local))
}
