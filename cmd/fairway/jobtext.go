// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// cancelled is what people call the state whose value in the API is "killed".
const cancelled = "cancelled"

// stateText prints a state of a job, a search or a trial.
func stateText(state string) string {
	if state == api.Cancelled {
		return cancelled
	}
	return state
}

// stateNames are the states of jobs as people know them.
func stateNames() []string {
	names := make([]string, len(jobStates))
	for i, s := range jobStates {
		names[i] = stateText(s)
	}
	return names
}

// trialState prints the state of a trial: one that its search ended early was
// stopped, not cancelled.
func trialState(t api.Trial) string {
	if t.Early {
		return "stopped"
	}
	return stateText(t.State)
}

// why says why a job does not run: what it waits for, or how it ended.
func why(j api.Job) string {
	switch {
	case j.Reason != nil:
		return clean(j.Reason.Text)
	case (j.State == api.Failed || j.State == api.Cancelled) && j.Why != "":
		return clean(j.Why)
	case j.State == api.Failed && j.Exit != nil:
		if cause := j.Exit.Cause(); cause != "" {
			return clean(cause + ": " + j.Exit.Text())
		}
		return clean(j.Exit.Text())
	}
	return ""
}

// membersText says how many jobs of an array are in which state, and why the first of
// them waits if none runs.
func membersText(j api.Job) string {
	var parts []string
	for _, state := range jobStates {
		if n := j.Members[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, stateText(state)))
		}
	}
	text := strings.Join(parts, ", ")
	if j.Reason != nil {
		text += ": " + clean(j.Reason.Text)
	}
	return text
}

// whereOrWhy says where a job runs, or why it does not.
func whereOrWhy(j api.Job) string {
	if j.Members != nil {
		return membersText(j)
	}
	if text := why(j); text != "" {
		return text
	}
	if j.Status.Screening {
		return "screening on " + heldText(j.Held)
	}
	if j.HeldRoles != nil {
		return clean(j.RolesShown()) + " on " + heldText(j.Held)
	}
	return heldText(j.Held)
}

// wants prints the size a job asked for.
func wants(j api.Job) string {
	text := fmt.Sprint(j.GPUs)
	if j.MaxGPUs > j.MinGPUs {
		text = fmt.Sprintf("%d-%d", j.MinGPUs, j.MaxGPUs)
	}
	if j.MilliGPU > 0 && j.MilliGPU < 1000 {
		text += fmt.Sprintf("×%g", float64(j.MilliGPU)/1000)
	}
	return text
}

// heldText prints where a job is: "a 0-3, b 1".
func heldText(held []api.Held) string {
	parts := make([]string, len(held))
	for i, h := range held {
		parts[i] = clean(h.Node) + " " + api.Ranges(h.GPUs)
		if h.Milli > 0 && h.Milli < 1000 {
			parts[i] += fmt.Sprintf(" (%g of each)", float64(h.Milli)/1000)
		}
	}
	return strings.Join(parts, ", ")
}

// workOf returns the whole work of a job as far as anybody knows; 0: nobody.
func workOf(j api.Job) float64 {
	if j.Work == 0 && j.Last != nil {
		return j.Last.Work
	}
	return j.Work
}

// shareDone returns the share of a job's work that is done; ok is false when
// nobody knows.
func shareDone(j api.Job) (share float64, ok bool) {
	work := workOf(j)
	if work <= 0 {
		return 0, false
	}
	return max(0, min(1, j.Status.Done/work)), true
}

func percent(j api.Job) string {
	share, ok := shareDone(j)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

// ranFor and waitedFor return how long a job has run and waited until now.
func ranFor(j api.Job, now time.Time) time.Duration {
	ran := j.Status.Ran.D()
	if j.State == api.Running || j.State == api.Starting {
		ran += now.Sub(j.Status.Since)
	}
	return ran
}

func waitedFor(j api.Job, now time.Time) time.Duration {
	waited := j.Status.Waited.D()
	if j.State == api.Waiting || j.State == api.Paused || j.State == api.Stopping {
		waited += now.Sub(j.Status.Since)
	}
	return waited
}

func left(j api.Job) string {
	if j.Left <= 0 || j.Status.Phase.Ended() {
		return "-"
	}
	return briefSeconds(j.Left)
}

func rhoText(rho float64) string {
	if rho <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", rho)
}
