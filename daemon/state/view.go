// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// view returns a job for the API.
func (b *Store) view(x *entry, fair *share) api.Job {
	j := x.Job
	v := api.Job{
		Spec: j.Spec, Task: x.Task, Status: j.Status, State: b.stateOf(x), Exit: x.Exit, Ended: x.Ended, Why: x.Why, MovedTo: x.MovedTo, Warning: x.Warning,
		PausedBy: x.PausedBy, SaveFailed: x.SaveFailed, Agent: x.reports(), Links: x.Links, Accepted: x.Accepted, Plan: x.Plan,
	}
	v.SecretsRef = "" // a copy of the job cannot use it
	if n := len(x.Points); n > 0 {
		last := x.Points[n-1] // a copy: the points are moved when they are many
		v.Last = &last
	}
	if j.Work == 0 {
		v.Work = x.Work
	}
	v.Status.Done = x.Reported
	if j.Phase.Ended() {
		return v
	}
	v.Held = b.held(x)
	if n := v.HeldGPUs(); n > 0 && len(v.Roles) > 0 {
		v.HeldRoles = v.RoleSizes(n)
	}
	v.FairShare = fair.gpus
	v.Rho = fair.rho(j.App)
	v.Left = x.left(fair.Now)
	if j.Phase == sched.Pending {
		v.Reason = b.reason(x)
	}
	return v
}

// held returns what a job holds.
func (b *Store) held(x *entry) (out []api.Held) {
	cluster := b.mem.state.Cluster()
	for _, s := range x.Job.Placement {
		out = append(out, api.Held{Node: cluster.Nodes[s.Node].Name, GPUs: s.GPUs.Indexes(), Milli: s.Milli})
	}
	return out
}

// startingPaused is the reason code of jobs while nothing is started.
const startingPaused = "starting-paused"

// waitsFor returns the reason code for a waiting job.
func (b *Store) waitsFor(x *entry) string {
	switch {
	case x.Hold:
		return b.mem.holds(x).Code
	case b.paused() != "":
		return startingPaused
	case x.reason.Code == sched.Ok:
		return "new"
	}
	return x.reason.Code.String()
}

// reason returns why a job waits.
func (b *Store) reason(x *entry) *api.Reason {
	switch {
	case x.Hold:
		return b.mem.holds(x)
	case x.PausedBy == api.SearchActor(x.Job.App):
		return &api.Reason{Code: "compared", Text: "waiting for other trials of its search to get as far, to compare them"}
	case x.PausedBy != "":
		return &api.Reason{Code: "paused", Text: "paused by " + x.PausedBy + "; resume it with `fairway resume " + string(x.Job.ID) + "`" + b.mem.alsoSuspended(x)}
	case b.paused() != "":
		return &api.Reason{Code: startingPaused, Text: "starting jobs is paused: " + b.paused()}
	case x.reason.Code == sched.Ok:
		return &api.Reason{Code: "new", Text: "not considered yet; the next decision comes within a second" + b.mem.alsoSuspended(x)}
	}
	r := &api.Reason{Code: x.reason.Code.String(), Text: x.reason.TextFor(b.mem.state.Cluster(), b.selected(x.Job.Selector)), Until: x.reason.Until, Promised: x.reason.Promised}
	if x.reason.Code == sched.BackOff && x.Exit != nil {
		r.Text += "; the last attempt ended: " + x.Exit.Text()
	}
	if x.reason.Code == sched.Behind && x.reason.Have >= x.reason.Need {
		r.Text += ", and they go first" // enough GPUs are free, so the number alone explains nothing
	}
	if x.reason.Code == sched.Impossible {
		r.Text += unmetNeed(x.Job, b.mem.state.Cluster())
	}
	if x.reason.Code == sched.Impossible && slices.ContainsFunc(b.mem.state.Cluster().Nodes, func(n sched.Node) bool { return n.Others != 0 }) {
		r.Text += "; programs outside Fairway hold some GPUs"
	}
	if n := b.mem.quarantined(); n > 0 && (x.reason.Code == sched.Impossible || x.reason.Code == sched.Full) {
		r.Text += fmt.Sprintf("; nodes in quarantine: %d", n)
	}
	if x.reason.Code == sched.Impossible && x.Job.Selector == "" && b.mem.state.Cluster().HasDedicated() {
		r.Text += ", not counting dedicated nodes, whose taints it does not tolerate"
	}
	r.Text += b.mem.alsoSuspended(x)
	if x.reason.Code != sched.Impossible {
		b.expect(x, r)
	}
	return r
}

// selected says for a person which nodes a label selects.
func (b *Store) selected(label string) string {
	if b.DescribeLabel != nil {
		if text := b.DescribeLabel(label); text != "" {
			return "matching " + text
		}
	}
	return "with the label " + label
}

// stateOf returns the state of a job from what should run and what does.
func (b *Store) stateOf(x *entry) string {
	switch x.Job.Phase {
	case sched.Running:
		if b.up[api.AttemptID{Job: x.Job.ID, Number: x.Job.Starts}] {
			return api.Running
		}
		return api.Starting
	case sched.Pending:
		switch {
		case len(x.Open) > 0 && (!x.suspended() || b.up[api.AttemptID{Job: x.Job.ID, Number: x.Job.Starts}]):
			return api.Stopping
		case x.PausedBy != "":
			return api.Paused
		}
		return api.Waiting
	case sched.Finished:
		return api.Finished
	case sched.Cancelled:
		return api.Cancelled
	}
	return api.Failed
}
