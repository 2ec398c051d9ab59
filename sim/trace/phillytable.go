// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Format philly, reduced tables. Two public derivatives of the Philly log have one
// line for each job:
//
//	timestamp,duration,num_gpus,gpu_time,cluster
//
//	timestamp  the time of submission
//	duration   run time in seconds
//	num_gpus   GPUs
//	gpu_time   duration x num_gpus, not read
//	cluster    the virtual cluster: the tenant
//
//	vc,submit_time_utc,num_gpus,duration_s,duration_how
//
//	vc               the virtual cluster: the tenant
//	submit_time_utc  the time of submission
//	num_gpus         GPUs
//	duration_s       run time in seconds; empty: not known, the job is dropped
//	duration_how     how the duration was found, not read
//
// Neither has ids (jobs are numbered by row), users or outcomes.

// phillyColumns are the column names of one of the two tables.
type phillyColumns struct{ tenant, submitted, gpus, duration string }

func readPhillyTable(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Philly jobs, reduced table (ATC'19)"
	c := phillyColumns{"cluster", "timestamp", "num_gpus", "duration"}
	t := headed(c.submitted, c.duration, c.gpus)
	t.names = func(first []cell) ([]string, bool) {
		names, header := headerNames(first)
		if newColumns(names).has("submit_time_utc") {
			c = phillyColumns{"vc", "submit_time_utc", "num_gpus", "duration_s"}
		}
		return names, header
	}
	t.need = nil // the header decides which columns are needed
	return t.read(br, b, func(r *row) error {
		if missing := r.cols.without([]string{c.submitted, c.duration, c.gpus}); missing != "" {
			return fmt.Errorf("column %q is missing; want %s, %s and %s", missing, c.submitted, c.gpus, c.duration)
		}
		w := sim.Work{Spec: sched.Spec{
			ID:        rowID(b),
			Tenant:    sched.TenantID(r.text(c.tenant)),
			Submitted: r.when(c.submitted),
			GPUs:      r.count(c.gpus),
		}}
		unknown := r.missing(c.duration)
		if !unknown {
			w.RunTime = runTime(r.span(c.duration, time.Second))
		}
		switch {
		case r.bad != nil:
			return nil
		case w.GPUs == 0:
			b.drop(noGPUs)
			return nil
		case unknown:
			b.drop("has no duration")
			return nil
		}
		return b.add(w, r.line)
	})
}

// rowID names the job of the current row in a format without ids.
func rowID(b *builder) sched.JobID {
	return sched.JobID(fmt.Sprintf("job-%06d", b.report.Rows))
}
