// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Formats helios and acme: job tables from the Slurm accounting of two operators. The
// header determines the order of the columns; columns that are not listed here are
// ignored.
//
// Helios (cluster_log.csv):
//
//	job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
//
// Acme (trace_seren.csv, trace_kalos.csv):
//
//	job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
//
//	job_id       the job's id
//	user         the user
//	vc           Helios: the virtual cluster, the tenant
//	gpu_num      GPUs; a job without any is dropped
//	state        see slurmStates; a job that is not over is dropped
//	submit_time  the time of submission, with or without a zone
//	start_time   empty: the job never started, and is dropped
//	duration     run time in seconds; empty: end_time - start_time
//	queue        waiting time in the original cluster, not read
//	cpu_num, node_num, jobname, type, gpu_time: not read
//
// A failed job failed in its only attempt, at the end of its run time.

// slurmState is the meaning of a state of the accounting.
type slurmState struct {
	outcome sched.Phase
	reason  string // of the failure
	open    bool   // not ended
}

var slurmStates = map[string]slurmState{
	"COMPLETED":     {},
	"CANCELLED":     {outcome: sched.Cancelled},
	"TIMEOUT":       {outcome: sched.Cancelled}, // at the limit that its user set
	"DEADLINE":      {outcome: sched.Cancelled},
	"FAILED":        {outcome: sched.Failed, reason: unknownReason},
	"NODE_FAIL":     {outcome: sched.Failed, reason: "node failure"},
	"BOOT_FAIL":     {outcome: sched.Failed, reason: "node failure"},
	"OUT_OF_MEMORY": {outcome: sched.Failed, reason: "CPU out of memory"},
	"PREEMPTED":     {outcome: sched.Failed, reason: "job preempted"},
	"RUNNING":       {open: true},
	"PENDING":       {open: true},
	"SUSPENDED":     {open: true},
	"REQUEUED":      {open: true},
}

func readHelios(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Helios job log (SC'21)"
	return readSlurm(br, b)
}

func readAcme(br *bufio.Reader, b *builder) error {
	if head, _ := br.Peek(headBytes); isConverted(head) {
		return readConverted(br, b)
	}
	b.wl.Source = "Acme job log (NSDI'24)"
	return readSlurm(br, b)
}

func readSlurm(br *bufio.Reader, b *builder) error {
	t := headed("job_id", "user", "gpu_num", "state", "submit_time", "start_time", "duration")
	return t.read(br, b, func(r *row) error {
		// Slurm writes "CANCELLED by 1001".
		name, _, _ := strings.Cut(strings.ToUpper(r.text("state")), " ")
		state, ok := slurmStates[name]
		if !ok {
			r.refuse("state", "want a state such as COMPLETED, CANCELLED, FAILED or TIMEOUT")
		}
		w := sim.Work{Spec: sched.Spec{
			ID:        sched.JobID(r.text("job_id")),
			User:      r.text("user"),
			Tenant:    sched.TenantID(r.text("vc")),
			Submitted: r.when("submit_time"),
		}, Outcome: state.outcome}
		if w.ID == "" {
			r.refuse("job_id", "want the job's id")
		}
		if !r.missing("gpu_num") {
			w.GPUs = r.count("gpu_num")
		}
		started := !r.missing("start_time")
		if started && w.GPUs > 0 && !state.open {
			w.RunTime = r.slurmRunTime()
		}
		switch {
		case r.bad != nil:
			return nil
		case w.GPUs == 0:
			b.drop(noGPUs)
			return nil
		case state.open:
			b.drop("had not ended")
			return nil
		case !started:
			b.drop(neverStarted)
			return nil
		}
		if w.Outcome == sched.Failed {
			w.Failures = []sim.Failure{{Reason: state.reason, After: w.RunTime}}
		}
		return b.add(w, r.line)
	})
}

func (r *row) slurmRunTime() sched.Duration {
	if !r.missing("duration") {
		return runTime(r.span("duration", time.Second))
	}
	start, end := r.when("start_time"), r.when("end_time")
	if end.Before(start) {
		r.refuse("end_time", "want a time not before start_time, "+r.text("start_time"))
	}
	return runTime(sched.Duration(end.Sub(start)))
}
