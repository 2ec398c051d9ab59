// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Format rubick: the workloads of the Rubick artifact, whose jobs train large models under
// execution plans.
//
//	name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla
//
//	name             the job's id
//	submission_time  seconds since the beginning
//	application      the model: vit, bert, roberta, t5, gpt2, llama7, llama30
//	num_gpus         GPUs the user asks for
//	exec_plan        the plan the user chose
//	steps            length of training
//
// The duration follows from steps and plan. The other columns are not used: every job of
// the published workload has 8 CPUs for each GPU, and none has a guarantee. The sizes of a
// job and the speeds of its plans come from measured tables (fairway sim --plans).

// maxSteps bounds the length of a training.
const maxSteps = 1e12

func readRubick(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Rubick workload"
	b.wl.Start = Epoch
	t := headed("name", "submission_time", "application", "num_gpus", "exec_plan", "steps")
	return t.read(br, b, func(r *row) error {
		w := sim.Work{Spec: sched.Spec{
			ID:        sched.JobID(r.text("name")),
			Submitted: r.since("submission_time", time.Second),
			GPUs:      r.count("num_gpus"),
			Model:     r.text("application"),
		}, Steps: r.number("steps", maxSteps), Plans: &sim.WorkPlans{Start: r.text("exec_plan")}}
		switch {
		case w.ID == "":
			r.refuse("name", "want a name; it is the job's id")
		case w.Model == "":
			r.refuse("application", "want the name of a model; its plans follow from it")
		case w.Plans.Start == "":
			r.refuse("exec_plan", "want the plan that the user chose")
		case !(w.Steps > 0):
			r.refuse("steps", "want a number above 0")
		}
		if r.bad != nil {
			return nil
		}
		if w.GPUs == 0 {
			b.drop(noGPUs)
			return nil
		}
		return b.add(w, r.line)
	})
}
