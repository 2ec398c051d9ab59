// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// likeness identifies jobs whose outcomes predict each other. Traces have no command
// lines: user, model and size stand for them.
type likeness struct {
	user, model string
	gpus        int
}

// mostKnown is the number of latest outcomes kept for each likeness.
const mostKnown = 16

func likenessOf(w *Work) likeness { return likeness{w.User, w.Model, w.GPUs} }

// screenFor returns how long a job is to be screened.
func (r *run) screenFor(j *job) sched.Duration {
	f := r.faults
	if f == nil || f.Screen == 0 || j.work.GPUs == 1 {
		return j.work.Screen
	}
	if t, ok := j.truth.(trainer); ok {
		// A program whose batch does not fit on one task cannot be screened.
		if _, fits := goodput.Split(t.batch(), max(1, j.work.TaskGPUs), t.limits()); !fits {
			return 0
		}
	}
	if !f.Trust {
		return sched.Duration(f.Screen)
	}
	screen := diagnose.ScreenFor(f.known[likenessOf(j.work)], r.start.Add(r.now), f.Screen)
	if screen == 0 {
		f.sum.Trusted++
	}
	return sched.Duration(screen)
}

// learn records how an attempt ended.
func (f *faults) learn(r *run, j *job, o diagnose.Outcome) {
	if f == nil || f.Screen == 0 || !f.Trust {
		return
	}
	o.At = r.start.Add(r.now)
	key := likenessOf(j.work)
	known := append(f.known[key], o)
	f.known[key] = slices.Clone(known[max(0, len(known)-mostKnown):])
}

// leavePool ends a screening. The work of a rigid job is lost: it starts from scratch
// with its gang.
func (r *run) leavePool(j *job) {
	if !j.state.Screening {
		return
	}
	if f := r.faults; f != nil {
		f.sum.ScreenGPUs += j.gpuShare() * (r.now - j.state.Since.Sub(r.start)).Seconds()
		f.sum.Screenings++
	}
	j.hardware.lose(j.spent)
	j.done, j.ran, j.spent, j.fresh = 0, 0, 0, true
	j.attained = j.state.AttainedBy(r.start.Add(r.now))
}

// firstStart reports whether a start is the first of a job, or of its gang after a
// screening: a recorded run time includes it.
func (j *job) firstStart() bool {
	first := j.state.Starts == 0 || j.fresh
	j.fresh = false
	return first
}

// recordEnd records that a job succeeded.
func (r *run) recordEnd(j *job) {
	f := r.faults
	if f == nil {
		return
	}
	if j.work.Outcome == sched.Failed {
		f.sum.Rescued++
	}
	f.learn(r, j, diagnose.Outcome{Good: true, Ran: j.ran})
}
