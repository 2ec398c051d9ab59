// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

// reason is one row of table 7 of the Philly paper (Jeon et al., ATC 2019):
// why attempts fail, and after how long.
type reason struct {
	name   string
	trials int // attempts
	jobs   int
	// Run time to failure of the attempts, in minutes.
	p50, p90, p95 float64
	// most is ours: the paper gives no largest value. It is what the paper's share of
	// the summed run time to failure implies, but at most a fortnight and at least
	// p95.
	most   float64
	total  float64 // percent of the summed run time to failure
	bySize [3]int  // trials of jobs of 1, 2 to 4, and more GPUs
}

// sizeClass is the index into reason.bySize.
func sizeClass(gpus int) int {
	switch {
	case gpus <= 1:
		return 0
	case gpus <= 4:
		return 1
	}
	return 2
}

var reasons = [...]reason{
	{"CPU out of memory", 12076, 2803, 13.45, 17.73, 33.97, 1500, 6.62, [...]int{11465, 235, 376}},
	{"incorrect inputs", 9690, 4936, 1.87, 404.83, 2095.73, 2095.73, 30.43, [...]int{5844, 2638, 1208}},
	{"semantic error", 2943, 2049, 2.72, 376, 1436.88, 1436.88, 9.22, [...]int{1603, 494, 846}},
	{"core dump", 2912, 1784, 0.85, 72.75, 431.65, 1500, 3.35, [...]int{1936, 496, 480}},
	{"invalid memory access", 2602, 1235, 1.03, 403.5, 1357.38, 1357.38, 3.82, [...]int{712, 774, 1116}},
	{"model checkpoint error", 1995, 948, 181.67, 3728.93, 8196.02, 8196.02, 21.73, [...]int{743, 384, 868}},
	{"CUDA failure", 1484, 571, 1.32, 19.87, 82.17, 800, 0.62, [...]int{133, 1153, 198}},
	{"syntax error", 1132, 883, 0.58, 5.02, 12, 60, 0.19, [...]int{780, 184, 168}},
	{"traceback from crash", 777, 271, 1.02, 894.33, 1394.07, 1394.07, 2.34, [...]int{356, 277, 144}},
	{"MPI error", 634, 166, 1.62, 3015.27, 5143.98, 5143.98, 3.70, [...]int{456, 54, 124}},
	{"GPU out of memory", 487, 261, 18.53, 353.62, 2740.28, 2740.28, 1.08, [...]int{237, 70, 180}},
	{"MPI runtime failure", 478, 420, 1389.48, 13778.60, 18090.88, 18090.88, 14.63, [...]int{240, 141, 97}},
	{"permission error", 299, 151, 1.00, 8.15, 15.85, 60, 0.07, [...]int{56, 202, 41}},
	{"import error", 148, 148, 0.67, 4.58, 10.73, 60, 0.06, [...]int{108, 30, 10}},
	{"job preempted", 147, 95, 559.08, 2682.85, 5892.23, 5892.23, 1.66, [...]int{25, 95, 27}},
	{"CUDA init failed", 141, 69, 1.08, 2.18, 4.63, 20, 0.03, [...]int{16, 66, 59}},
	{"model diverged", 84, 30, 1.48, 44.37, 76.53, 76.53, 0.01, [...]int{78, 5, 1}},
	{"CUDA version mismatch", 49, 49, 0.83, 1.65, 1.67, 1.67, 0, [...]int{1, 1, 47}},
	{"GPU ECC error", 10, 10, 26.82, 671.92, 2035.02, 2035.02, 0.03, [...]int{1, 5, 4}},
	{"output node error", 3, 3, 0.85, 0.95, 0.95, 0.95, 0, [...]int{3, 0, 0}},
	{"cannot load libraries", 1, 1, 0.12, 0.12, 0.12, 0.12, 0, [...]int{1, 0, 0}},
	{"no signature", 1684, 698, 1.87, 28, 95.17, 300, 0.42, [...]int{1235, 294, 155}},
}

// unknownReason is the reason in traces that give none.
const unknownReason = "unknown"

// minutes is the distribution of the reason's run time to failure. Nothing is known
// below the median; the shortest is assumed to be a twentieth of it.
func (r *reason) minutes() quantiles {
	least := min(r.p50, max(0.05, r.p50/20))
	return quantiles{{0, least}, {0.5, r.p50}, {0.9, r.p90}, {0.95, r.p95}, {1, r.most}}
}

// perJob is the mean number of failed attempts of a job that fails for this
// reason.
func (r *reason) perJob() float64 { return float64(r.trials) / float64(r.jobs) }

// sizes weights the size classes by the reason's trials.
func (r *reason) sizes() blend {
	b := blend{weight: make([]float64, len(r.bySize)), shift: rtfShift[:]}
	for i, n := range r.bySize {
		b.weight[i] = float64(n)
	}
	return b
}

// FailedAttempts returns the failed attempts of table 7 of the Philly paper: of jobs of
// 1, 2 to 4, and more GPUs.
func FailedAttempts() (sum [3]int) {
	for i := range reasons {
		for class, n := range reasons[i].bySize {
			sum[class] += n
		}
	}
	return sum
}
