// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/fairway-gpu/fairway/sched"

// Figures that the page of a workload's statistics shows next to its own: Jeon
// et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
// Workloads" (USENIX ATC 2019), on the Philly cluster.

// paperPerJob is the mean number of failed attempts of a failing job.
const paperPerJob = 2.3

// paperOutcome is a row of table 6, in percent.
type paperOutcome struct {
	end           sched.Phase
	name          string // the paper's word for it
	jobs, gpuTime float64
}

var paperOutcomes = [...]paperOutcome{
	{sched.Finished, "passed", 69.3, 44.53},
	{sched.Cancelled, "killed", 13.5, 37.69},
	{sched.Failed, "unsuccessful", 17.2, 17.76},
}

// paperUtil is a row of table 3: mean utilisation of GPUs, in percent.
type paperUtil struct {
	gpus                        int // 0: all sizes
	passed, killed, failed, all float64
}

var paperUtils = [...]paperUtil{
	{1, 53.51, 37.02, 62.82, 52.38},
	{4, 51.13, 34.39, 50.95, 45.18},
	{8, 51.09, 60.63, 64.34, 58.99},
	{16, 44.88, 36.98, 39.02, 40.39},
	{0, 52.43, 42.98, 60.43, 52.32},
}

// paperReason is a row of table 7.
type paperReason struct {
	name          string // as package trace spells it
	trials, jobs  int
	p50, p90, p95 float64 // run time to failure, in minutes
	share         float64 // percent of the summed run time to failure
	gpuShare      float64 // percent of the summed run time to failure x GPUs
}

var paperReasons = [...]paperReason{
	{"CPU out of memory", 12076, 2803, 13.45, 17.73, 33.97, 6.62, 8.05},
	{"incorrect inputs", 9690, 4936, 1.87, 404.83, 2095.73, 30.43, 24.21},
	{"semantic error", 2943, 2049, 2.72, 376, 1436.88, 9.22, 17.06},
	{"core dump", 2912, 1784, 0.85, 72.75, 431.65, 3.35, 3.02},
	{"invalid memory access", 2602, 1235, 1.03, 403.5, 1357.38, 3.82, 4.75},
	{"model checkpoint error", 1995, 948, 181.67, 3728.93, 8196.02, 21.73, 16.33},
	{"CUDA failure", 1484, 571, 1.32, 19.87, 82.17, 0.62, 0.72},
	{"syntax error", 1132, 883, 0.58, 5.02, 12, 0.19, 0.26},
	{"traceback from crash", 777, 271, 1.02, 894.33, 1394.07, 2.34, 1.74},
	{"MPI error", 634, 166, 1.62, 3015.27, 5143.98, 3.70, 1.24},
	{"GPU out of memory", 487, 261, 18.53, 353.62, 2740.28, 1.08, 2.10},
	{"MPI runtime failure", 478, 420, 1389.48, 13778.60, 18090.88, 14.63, 15.34},
	{"permission error", 299, 151, 1.00, 8.15, 15.85, 0.07, 0.03},
	{"import error", 148, 148, 0.67, 4.58, 10.73, 0.06, 0.02},
	{"job preempted", 147, 95, 559.08, 2682.85, 5892.23, 1.66, 4.73},
	{"CUDA init failed", 141, 69, 1.08, 2.18, 4.63, 0.03, 0.13},
	{"model diverged", 84, 30, 1.48, 44.37, 76.53, 0.01, 0.01},
	{"CUDA version mismatch", 49, 49, 0.83, 1.65, 1.67, 0, 0},
	{"GPU ECC error", 10, 10, 26.82, 671.92, 2035.02, 0.03, 0.05},
	{"output node error", 3, 3, 0.85, 0.95, 0.95, 0, 0},
	{"cannot load libraries", 1, 1, 0.12, 0.12, 0.12, 0, 0},
	{"no signature", 1684, 698, 1.87, 28, 95.17, 0.42, 0.21},
}

// paperTrials is the sum of the trials of table 7.
func paperTrials() int {
	var sum int
	for i := range paperReasons {
		sum += paperReasons[i].trials
	}
	return sum
}
