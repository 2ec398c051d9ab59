// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Format openb: the pod list of Alibaba's GPU cluster, 2023 (openb_pod_list_*.csv).
// sim.ReadCluster reads the node list that belongs to it.
//
//	name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
//
//	name            the job's id
//	cpu_milli       thousandths of a CPU, of the pod
//	memory_mib      memory of the pod in MiB
//	num_gpu         GPUs; a pod without any is dropped
//	gpu_milli       thousandths that it needs of each of its GPUs
//	gpu_spec        GPU types that it accepts, separated by "|"; empty: any
//	qos             LS, BE, Burstable, Guaranteed: not read
//	pod_phase       Succeeded, Failed, Running (it was deleted while it ran, or the
//	                trace ends: its user cancels it) or Pending (never started)
//	creation_time   seconds since the beginning, the time of submission
//	deletion_time   likewise, its end
//	scheduled_time  likewise, its start; empty: it never started, and is dropped
//
// CPUs and memory are per GPU, rounded up. A pod is on one node, so its GPUs are one
// task. Only a pod of one GPU can ask for a part of it.

var openbTable = headed("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time", "scheduled_time")

func readOpenb(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Alibaba GPU pods (openb, 2023)"
	b.wl.Start = Epoch
	return openbTable.read(br, b, func(r *row) error {
		w := sim.Work{Spec: sched.Spec{ID: sched.JobID(r.text("name")), GPUs: r.count("num_gpu")}}
		if w.ID == "" {
			r.refuse("name", "want the pod's name")
		}
		w.Submitted = r.since("creation_time", time.Second)
		started := !r.missing("scheduled_time")
		if started {
			start, end := r.since("scheduled_time", time.Second), r.since("deletion_time", time.Second)
			if end.Before(start) {
				r.refuse("deletion_time", "want a time not before scheduled_time, "+r.text("scheduled_time"))
			}
			w.RunTime = runTime(sched.Duration(end.Sub(start)))
		}
		r.openbShape(&w)
		switch r.text("pod_phase") {
		case "Succeeded":
		case "Running":
			w.Outcome = sched.Cancelled
		case "Failed":
			w.Outcome = sched.Failed
			w.Failures = []sim.Failure{{Reason: unknownReason, After: w.RunTime}}
		case "Pending":
			started = false
		default:
			r.refuse("pod_phase", "want Succeeded, Failed, Running or Pending")
		}
		switch {
		case r.bad != nil:
			return nil
		case w.GPUs == 0:
			b.drop(noGPUs)
			return nil
		case !started:
			b.drop(neverStarted)
			return nil
		}
		return b.add(w, r.line)
	})
}

// openbShape reads what a pod needs.
func (r *row) openbShape(w *sim.Work) {
	milli := r.count("gpu_milli")
	if w.GPUs == 0 {
		return
	}
	n := float64(w.GPUs)
	w.CPUs = int(math.Ceil(r.optional("cpu_milli", 1000*maxCount) / 1000 / n))
	w.Memory = int64(math.Ceil(r.optional("memory_mib", maxCount*1024) * (1 << 20) / n))
	if w.GPUs > 1 {
		w.TaskGPUs = w.GPUs
	}
	switch {
	case milli < 1 || milli > sched.WholeGPU || (w.GPUs > 1 && milli < sched.WholeGPU):
		r.refuse("gpu_milli", fmt.Sprintf("want 1 to %d, and %d for several GPUs", sched.WholeGPU, sched.WholeGPU))
	case milli < sched.WholeGPU:
		w.MilliGPU = int32(milli)
	}
	if r.missing("gpu_spec") {
		return
	}
	for t := range strings.SplitSeq(strings.ToLower(r.text("gpu_spec")), "|") {
		w.GPUTypes = append(w.GPUTypes, sched.GPUType(strings.Clone(t)))
	}
}
