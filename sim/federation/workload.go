// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// perNode is the number of GPUs of every node.
const perNode = 8

// mix is how often each size is asked for, in jobs of a thousand.
var mix = []struct{ gpus, share int }{
	{1, 500}, {2, 120}, {4, 120}, {8, 160}, {16, 40}, {32, 30}, {64, 16}, {128, 8}, {256, 4}, {512, 2},
}

// Load describes a generated workload: rigid jobs, with more submitted by day than by night.
type Load struct {
	Jobs  int
	GPUs  int     // of all clusters together
	Load  float64 // mean demand, as a part of the GPUs
	Swing float64 // by how much the rate of submissions rises at noon and falls at midnight
	Error float64 // standard deviation of the logarithm of estimate over run time
	Seed  uint64
}

func (l Load) validate() error {
	switch {
	case l.Jobs < 1:
		return fmt.Errorf("jobs = %d; want 1 or more", l.Jobs)
	case !(l.Load > 0 && l.Load <= 2):
		return fmt.Errorf("load = %g; want more than 0 and at most 2", l.Load)
	case !(l.Swing >= 0 && l.Swing < 1):
		return fmt.Errorf("swing = %g; want 0 or more and less than 1", l.Swing)
	case !(l.Error >= 0 && l.Error <= 3):
		return fmt.Errorf("error = %g; want 0 to 3", l.Error)
	}
	return nil
}

// Run times are lognormal: half of the jobs take less than the median, a few take days.
const (
	medianRun = 40 * 60.0
	spreadRun = 1.4
	longest   = 4 * 86400.0
)

// Job is a rigid job. Times are in seconds.
type Job struct {
	Submitted, Run float64
	Estimate       float64 // of Run: what schedulers know
	GPUs           int
}

// Generate returns the jobs in the order of submission.
func (l Load) Generate() ([]Job, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(l.Seed, 1))
	jobs := make([]Job, l.Jobs)
	work := 0.0
	for i := range jobs {
		j := &jobs[i]
		for n, k := r.IntN(1000), 0; ; k++ {
			if n -= mix[k].share; n < 0 {
				j.GPUs = mix[k].gpus
				break
			}
		}
		j.Run = min(longest, medianRun*math.Exp(spreadRun*r.NormFloat64()))
		j.Estimate = j.Run * math.Exp(l.Error*r.NormFloat64())
		work += j.Run * float64(j.GPUs)
	}
	// Gaps are exponential at the rate of the hour; the mean follows from the work there is.
	rate := l.Load * float64(l.GPUs) / (work / float64(l.Jobs))
	now := 0.0
	for i := range jobs {
		now += r.ExpFloat64() / (rate * (1 - l.Swing*math.Cos(2*math.Pi*now/86400)))
		jobs[i].Submitted = now
	}
	return jobs, nil
}
