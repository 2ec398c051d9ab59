// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Format tiresias: the job tables of the Tiresias simulator (NSDI'19) and of Muri
// (SIGCOMM'22), which is based on it.
//
//	job_id,num_gpu,submit_time,iterations,model_name,duration,interval
//	job_id,num_gpu,submit_time,start_time,duration,model_size,aggr_interval,model_name,model_scale
//	job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,...,priority
//
//	job_id       the job's id
//	num_gpu      GPUs
//	submit_time  since the beginning, the time of submission
//	model_name   the model, see models.go
//	duration     run time
//	batch_size   Muri: of one GPU; times num_gpu it is the job's
//	all others   not read
//
// Times are seconds. A table with the column iteration_time (Muri's) has
// milliseconds.

func readTiresias(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Tiresias job table (NSDI'19)"
	b.wl.Start = Epoch
	t := headed("job_id", "num_gpu", "submit_time", "model_name", "duration")
	return t.read(br, b, func(r *row) error {
		unit := time.Second
		if r.cols.has("iteration_time") {
			unit = time.Millisecond
			b.wl.Source = "Muri job table (SIGCOMM'22)"
		}
		w := sim.Work{Spec: sched.Spec{
			ID:        sched.JobID(r.text("job_id")),
			Submitted: r.since("submit_time", unit),
			GPUs:      r.count("num_gpu"),
			Model:     zooName(r.text("model_name")),
		}, RunTime: runTime(r.span("duration", unit))}
		if w.ID == "" {
			r.refuse("job_id", "want the job's id")
		}
		if r.cols.has("batch_size") {
			w.BatchSize = r.count("batch_size") * w.GPUs
		}
		switch {
		case r.bad != nil:
			return nil
		case w.GPUs == 0:
			b.drop(noGPUs)
			return nil
		}
		return b.add(w, r.line)
	})
}
