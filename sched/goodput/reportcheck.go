// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"fmt"
	"math"
)

// maxTypes bounds how many GPU types a report may speak of, and maxCurve how
// many points its lists may have: a report comes from inside a job, so nobody
// vouches for it.
const (
	maxTypes = 64
	maxCurve = 4096
)

// Validate says what is wrong with the report, if anything. A scheduler that
// takes reports from jobs must call it before it lets a policy see one.
func (r *Report) Validate() error {
	switch {
	case len(r.Params) > maxTypes:
		return fmt.Errorf("params has %d GPU types; want at most %d", len(r.Params), maxTypes)
	case len(r.Steps) > maxCurve:
		return fmt.Errorf("steps has %d entries; want at most %d", len(r.Steps), maxCurve)
	case !(r.Noise >= 0) || math.IsInf(r.Noise, 0):
		return fmt.Errorf("noise = %g; want a finite number that is not negative", r.Noise)
	case r.Fixed < 0:
		return fmt.Errorf("fixed = %d; want 0 (the batch size adapts) or a batch size", r.Fixed)
	case r.MostGPUs < 0 || r.MostGPUs > 1<<20:
		return fmt.Errorf("most_gpus = %d; want 0 or more", r.MostGPUs)
	}
	for t, p := range r.Params {
		if len(t) > 100 {
			return fmt.Errorf("params: the GPU type %.20q… has %d bytes; want at most 100", t, len(t))
		}
		if err := p.Validate(); err != nil {
			return fmt.Errorf("params of %s: %w", t, err)
		}
	}
	for i, s := range r.Steps {
		if !(s > 0) || math.IsInf(s, 0) {
			return fmt.Errorf("steps[%d] = %g; want a finite number of seconds", i, s)
		}
	}
	if err := r.Limits.Validate(); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	return r.ValidateMeasured()
}
