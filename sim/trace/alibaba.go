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

// Format alibaba: the task table of Alibaba's PAI cluster, 2020
// (pai_task_table). The published file has no header; one is accepted.
//
//	job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type
//
//	job_name    tasks of one name are one job; it is the job's id
//	task_name   worker, ps, ...: not read
//	inst_num    instances of the task
//	status      Terminated (it finished), Failed, Running or Waiting
//	start_time  seconds since the beginning
//	end_time    likewise; empty: not over
//	plan_cpu    CPU cores of one instance, in percent
//	plan_mem    memory of one instance in GB
//	plan_gpu    GPUs of one instance, in percent; empty: none
//	gpu_type    MISC: any
//
// Only tasks with GPUs count. The job's GPUs are the sum over its tasks of inst_num x
// ceil(plan_gpu/100). If no task asks for a whole GPU, MilliGPU is the largest
// plan_gpu x 10; otherwise all GPUs are whole. If every instance asks for the same
// number n of GPUs, a task of the gang has n. CPUs and memory are those of all
// instances over the GPUs, rounded up. The job runs from the earliest start to the
// latest end of its tasks. The table has no submission time: the earliest start is
// used, without the wait before it. The job failed if a task did; a job with a task
// that has not ended is dropped.

var alibabaColumns = []string{"job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu", "gpu_type"}

var alibabaTable = table{
	sep:  ',',
	need: alibabaColumns,
	names: func(first []cell) ([]string, bool) {
		if names, _ := headerNames(first); newColumns(names).has("job_name") {
			return names, true
		}
		return alibabaColumns, false
	},
}

// alibabaJob sums the tasks seen so far.
type alibabaJob struct {
	name       string
	line       int
	start, end float64 // seconds
	gpus       int
	percent    float64 // largest plan_gpu
	task       int     // GPUs of an instance; 0: instances differ
	cpus, mem  float64 // of all instances: cores, GB
	gpuType    string  // "": any, or tasks differ
	failed     bool
	open       bool
}

func readAlibaba(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Alibaba PAI task table (2020)"
	b.wl.Start = Epoch
	var jobs []*alibabaJob // in order of first appearance
	byName := map[string]*alibabaJob{}
	err := alibabaTable.read(br, b, func(r *row) error {
		task, ok := r.alibabaTask()
		if !ok {
			return nil
		}
		if task.gpus == 0 {
			b.drop("task asks for no GPUs")
			return nil
		}
		if job, ok := byName[task.name]; ok {
			job.add(&task)
			return nil
		}
		task.name = strings.Clone(task.name)
		task.gpuType = b.name(task.gpuType)
		byName[task.name] = &task
		jobs = append(jobs, &task)
		return nil
	})
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if job.open {
			b.drop("had not ended")
			continue
		}
		if err := b.add(job.work(), job.line); err != nil {
			return err
		}
	}
	return nil
}

// alibabaTask reads one task as a job of one task.
func (r *row) alibabaTask() (task alibabaJob, ok bool) {
	task = alibabaJob{name: r.text("job_name"), line: r.line, gpuType: strings.ToLower(r.text("gpu_type"))}
	if task.name == "" {
		r.refuse("job_name", "want the job's name")
	}
	if r.missing("gpu_type") || task.gpuType == "misc" {
		task.gpuType = ""
	}
	switch r.text("status") {
	case "Terminated":
	case "Failed", "Interrupted":
		task.failed = true
	case "Running", "Waiting":
		task.open = true
	default:
		r.refuse("status", "want Terminated, Failed, Running or Waiting")
	}
	if !r.missing("plan_gpu") {
		task.percent = r.number("plan_gpu", 100*maxCount)
	}
	instances := 0
	if !r.missing("inst_num") {
		instances = r.count("inst_num")
	}
	task.task = int(math.Ceil(task.percent / 100))
	task.gpus = instances * task.task
	if task.gpus > maxCount {
		r.refuse("inst_num", fmt.Sprintf("want at most %d GPUs in all", maxCount))
	}
	if task.gpus > 0 {
		task.cpus = float64(instances) * r.optional("plan_cpu", 100*maxCount) / 100
		task.mem = float64(instances) * r.optional("plan_mem", maxCount)
	}
	if r.missing("start_time") || r.missing("end_time") {
		task.open = true
	} else {
		task.start, task.end = r.number("start_time", maxSeconds), r.number("end_time", maxSeconds)
		if task.end < task.start {
			r.refuse("end_time", "want a time not before start_time, "+r.text("start_time"))
		}
	}
	return task, r.bad == nil
}

// optional reads a number; an empty cell is 0.
func (r *row) optional(name string, most float64) float64 {
	if r.missing(name) {
		return 0
	}
	return r.number(name, most)
}

func (j *alibabaJob) add(task *alibabaJob) {
	j.start, j.end = min(j.start, task.start), max(j.end, task.end)
	j.gpus = min(j.gpus+task.gpus, maxCount)
	j.percent = max(j.percent, task.percent)
	j.cpus += task.cpus
	j.mem += task.mem
	j.failed = j.failed || task.failed
	j.open = j.open || task.open
	if j.task != task.task {
		j.task = 0
	}
	if j.gpuType != task.gpuType {
		j.gpuType = ""
	}
}

func (j *alibabaJob) work() sim.Work {
	seconds := sched.Duration((j.end - j.start) * float64(time.Second))
	w := sim.Work{RunTime: runTime(seconds)}
	w.ID = sched.JobID(j.name)
	w.Submitted = Epoch.Add(time.Duration(j.start * float64(time.Second)))
	w.GPUs = j.gpus
	if j.task > 1 && j.gpus%j.task == 0 {
		w.TaskGPUs = j.task
	}
	if j.percent < 100 {
		w.MilliGPU = max(1, int32(math.Round(j.percent*10)))
	}
	w.CPUs = int(math.Ceil(j.cpus / float64(j.gpus)))
	w.Memory = int64(math.Ceil(j.mem / float64(j.gpus) * 1e9))
	if j.gpuType != "" {
		w.GPUTypes = []sched.GPUType{sched.GPUType(j.gpuType)}
	}
	if j.failed {
		w.Outcome = sched.Failed
		w.Failures = []sim.Failure{{Reason: unknownReason, After: w.RunTime}}
	}
	return w
}
