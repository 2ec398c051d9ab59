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

// Format gavel: the traces of Gavel (OSDI'20) and Shockwave (NSDI'23),
// separated by tabs, without a header. The number of columns says which one:
//
//	 7  job_type command steps_flag needs_data total_steps arrival_time scale_factor
//	10  job_type command directory steps_flag needs_data total_steps scale_factor weight slo arrival_time
//	12  job_type command directory steps_flag needs_data total_steps scale_factor mode weight slo duration arrival_time
//
//	job_type      the model and its batch size: "ResNet-50 (batch size 64)"
//	total_steps   length of training in steps (ReadThroughputs: with measured throughputs it counts)
//	scale_factor  GPUs
//	weight        rounded, the priority if it is above 1
//	mode          the rule that changes its batch size: static, accordion or gns
//	duration      run time in seconds at the submitted batch size
//	arrival_time  seconds since the beginning, the time of submission
//	all others    not read
//
// Jobs are numbered by row. The batch size is that of one GPU; times scale_factor it
// is the job's. A trace without durations gives steps, and the run time is steps over
// steps per second on V100s (gavelspeed.go).

var gavelColumns = map[int][]string{
	7:  {"job_type", "command", "steps_flag", "needs_data", "total_steps", "arrival_time", "scale_factor"},
	10: {"job_type", "command", "directory", "steps_flag", "needs_data", "total_steps", "scale_factor", "weight", "slo", "arrival_time"},
	12: {"job_type", "command", "directory", "steps_flag", "needs_data", "total_steps", "scale_factor", "mode", "weight", "slo", "duration", "arrival_time"},
}

var gavelTable = table{
	sep:  '\t',
	need: gavelColumns[7][:1],
	want: "7, 10 or 12 columns, separated by tabs",
	names: func(first []cell) ([]string, bool) {
		if names, ok := gavelColumns[len(first)]; ok {
			return names, false
		}
		return []string{fmt.Sprintf("%d columns", len(first))}, false
	},
}

func readGavel(br *bufio.Reader, b *builder) error {
	b.wl.Source = "Gavel trace (OSDI'20)"
	b.wl.Start = Epoch
	return gavelTable.read(br, b, func(r *row) error {
		name, batch := gavelType(r.text("job_type"))
		w := sim.Work{Spec: sched.Spec{
			ID:        rowID(b),
			Submitted: r.since("arrival_time", time.Second),
			GPUs:      r.count("scale_factor"),
			Model:     zooName(name),
		}}
		w.BatchSize = min(batch, maxCount) * w.GPUs
		if w.Model == "" {
			r.refuse("job_type", `want a model such as "ResNet-50 (batch size 64)"`)
		}
		if r.cols.has("weight") {
			if weight := r.number("weight", maxCount); weight > 1 {
				w.Priority = int(weight + 0.5)
			}
		}
		w.Steps = r.number("total_steps", mostSteps)
		if r.cols.has("duration") {
			b.wl.Source = "Shockwave trace (NSDI'23)"
			w.RunTime = runTime(r.span("duration", time.Second))
			if r.bad == nil {
				adapt(&w, training{name, batch, w.Steps, r.text("mode")})
			}
		} else {
			w.RunTime = r.gavelRunTime(&w)
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

// gavelType parses "ResNet-50 (batch size 64)".
func gavelType(text string) (model string, batch int) {
	name, rest, ok := strings.Cut(text, " (batch size ")
	if !ok {
		return text, 0
	}
	for _, c := range strings.TrimSuffix(rest, ")") {
		if c < '0' || c > '9' || batch > maxCount {
			return "", 0
		}
		batch = 10*batch + int(c-'0')
	}
	return name, batch
}

// mostSteps bounds the steps of a job.
const mostSteps = 1e12

// gavelRunTime is the run time of a job in a trace without durations.
func (r *row) gavelRunTime(w *sim.Work) sched.Duration {
	speed, ok := gavelSpeeds[r.text("job_type")]
	if !ok {
		r.refuse("job_type", "the trace gives no duration, and this model's speed is not known")
		return 0
	}
	each := speed.reduced
	if r.cols.has("slo") {
		each = speed.on(w.GPUs)
	}
	seconds := w.Steps / each
	if seconds > maxSeconds {
		r.refuse("total_steps", "want steps that take less than 100 years")
		return 0
	}
	return runTime(sched.Duration(math.Round(seconds)) * sched.Duration(time.Second))
}
