// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import "github.com/fairway-gpu/fairway/sched"

// Figures of the Philly paper (Jeon et al., ATC 2019), printed beside statistics and
// used as targets of the generator. Table 7 is in failures.go.

// paperOutcome is a row of table 6.
type paperOutcome struct {
	end     sched.Phase
	name    string
	jobs    float64 // percent
	gpuTime float64 // percent
}

var paperOutcomes = [...]paperOutcome{
	{sched.Finished, "passed", 69.3, 44.53},
	{sched.Cancelled, "killed", 13.5, 37.69},
	{sched.Failed, "unsuccessful", 17.2, 17.76},
}

// paperUtilRow is a row of table 3: mean utilisation of GPUs in percent.
type paperUtilRow struct {
	gpus                          int
	passed, killed, failed, total float64
}

var paperUtils = [...]paperUtilRow{
	{1, 53.51, 37.02, 62.82, 52.38},
	{4, 51.13, 34.39, 50.95, 45.18},
	{8, 51.09, 60.63, 64.34, 58.99},
	{16, 44.88, 36.98, 39.02, 40.39},
}

// paperUtilAll is the last row of table 3.
var paperUtilAll = paperUtilRow{0, 52.43, 42.98, 60.43, 52.32}

func (r *paperUtilRow) of(end sched.Phase) float64 {
	switch end {
	case sched.Cancelled:
		return r.killed
	case sched.Failed:
		return r.failed
	}
	return r.passed
}

// paperUtil is the mean utilisation of the largest size of table 3 up to the job's.
func paperUtil(gpus int, end sched.Phase) float64 {
	row := &paperUtils[0]
	for i := range paperUtils {
		if paperUtils[i].gpus <= gpus {
			row = &paperUtils[i]
		}
	}
	return row.of(end)
}

const (
	// paperFailuresPerJob is the mean number of failed attempts of a job that fails.
	paperFailuresPerJob = 2.3
)
