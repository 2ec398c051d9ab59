// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Format acme also has a sample of the Kalos log that was converted for a simulator
// (converted_kalos_trace.csv).
//
//	job_id,arrival_time,num_iteration,iteration_computing_time,iteration_networking_time,gpu_workers,ps,gpu_per_worker,cpu_per_gpu_worker,cpu_per_ps_worker,tensorsizes,profiled_network
//
//	job_id                    the job's id
//	arrival_time              seconds since the beginning, the time of submission
//	num_iteration             run time over iteration_computing_time
//	iteration_computing_time  0.5 s
//	gpu_workers               nodes
//	gpu_per_worker            GPUs on each of them
//	cpu_per_gpu_worker        CPUs for each GPU, rounded up
//	all others                not read
//
// The conversion cut the run time of the log into iterations of half a second of
// computing; the time of communication was added by it and is not in the log.

// convertedColumns identify the sample.
var convertedColumns = []string{"job_id", "arrival_time", "num_iteration", "iteration_computing_time", "gpu_workers", "gpu_per_worker"}

func isConverted(head []byte) bool {
	cells, _ := split(nil, firstLine(head), ',')
	names, _ := headerNames(cells)
	return newColumns(names).without(convertedColumns) == ""
}

func readConverted(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Acme job log (NSDI'24), converted sample"
	b.wl.Start = Epoch
	return headed(convertedColumns...).read(br, b, func(r *row) error {
		nodes, each := r.count("gpu_workers"), r.count("gpu_per_worker")
		seconds := r.number("num_iteration", maxSeconds) * r.number("iteration_computing_time", maxSeconds)
		w := sim.Work{Spec: sched.Spec{
			ID: sched.JobID(r.text("job_id")), Submitted: r.since("arrival_time", time.Second),
			GPUs: nodes * each, CPUs: int(math.Ceil(r.optional("cpu_per_gpu_worker", maxCount))),
		}}
		if seconds > maxSeconds {
			r.refuse("num_iteration", "want a run time of at most a hundred years")
		}
		if w.GPUs > maxCount {
			r.refuse("gpu_workers", "want fewer GPUs in all")
		}
		if each > 1 {
			w.TaskGPUs = each
		}
		if w.ID == "" {
			r.refuse("job_id", "want the job's id")
		}
		if r.bad != nil {
			return nil
		}
		if w.GPUs == 0 {
			b.drop(noGPUs)
			return nil
		}
		w.RunTime = runTime(sched.Duration(seconds * float64(time.Second)))
		return b.add(w, r.line)
	})
}
