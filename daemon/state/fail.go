// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// How a failed attempt is retried, unless its cause says otherwise.
const (
	firstBackOff = 5 * time.Second
	mostBackOff  = 10 * time.Minute
	// mostHeldBackOff bounds the wait of a job that held GPUs in vain.
	mostHeldBackOff = 6 * time.Hour
	// mostRestartBackOff bounds the wait of a job under which the machine was restarted
	// again and again, without new work saved in between: it may be what brings the
	// machine down.
	mostRestartBackOff = 6 * time.Hour
	// maxLost is how many attempts in a row may be lost otherwise, without new work saved
	// in between, before the job is given up.
	maxLost = 5
	// maxFailed bounds the failed attempts of a job that are remembered.
	maxFailed = 24
)

// classify returns why an attempt failed; nil: it did not, or the cause is
// unknown. It takes some milliseconds, so it runs before the state is locked.
func (b *Store) classify(e *api.Exit) *diagnose.Finding {
	if b.Failures == nil || e.OK() || e.Yielded || e.Noticed {
		return nil
	}
	in := diagnose.Input{Logs: e.Tails, Signal: e.Signal, Events: e.Host}
	if !e.Lost && e.Signal == "" {
		in.Exit = &e.Code
	}
	if len(in.Logs) == 0 && e.Why != "" {
		in.Logs = []diagnose.Log{{Name: "machine", Rank: -1, Text: e.Why}}
	}
	f := b.Failures.Classify(in)
	f.Also = nil // the journal keeps what decides
	if f.Reason == diagnose.ReasonNone || e.Lost && f.Reason == diagnose.ReasonUnknown {
		return nil
	}
	return &f
}

// failure returns a failed attempt as input for the next decision.
func (m *memory) failure(x *entry, e *api.Exit, now time.Time) diagnose.Attempt {
	return diagnose.Attempt{
		Finding: *e.Finding, Nodes: m.nodesOf(x.Job.Placement), Ran: now.Sub(x.Job.Since), Progress: x.Job.DoneBy(now),
	}
}

// nodesOf names the nodes of a placement.
func (m *memory) nodesOf(p sched.Placement) []string {
	var names []string
	for _, s := range p {
		names = append(names, m.state.Cluster().Nodes[s.Node].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// afterFailure returns the consequence of a failure of the running attempt, and
// writes the decision and its reason into the exit. All of it goes into the
// journal: replay decides nothing again.
func (t *tx) afterFailure(x *entry, e *api.Exit) sched.Event {
	if e.Lost {
		return t.lost(x, e)
	}
	used := x.Job.Failures - x.LostAll
	if e.Finding == nil {
		if used >= x.Task.Retries {
			return failed(e)
		}
		return t.again(e, backOff(used+1))
	}
	a := diagnose.Decide(x.Failed, t.mem.failure(x, e, t.now))
	e.Advice = &a
	if a.Uncounted && x.Task.Retry != api.RetryNever {
		return t.lost(x, e)
	}
	if why := refused(x, a, used); why != "" {
		e.Next = "not retried: " + why
		return failed(e)
	}
	wait := a.After.D()
	if !a.Retry { // its user insists
		wait = backOff(used + 1)
	}
	next := t.again(e, wait)
	next.Avoid = a.AvoidNodes
	if len(a.AvoidNodes) > 0 && t.mem.usable() > len(a.AvoidNodes) {
		e.Next += ", not on " + strings.Join(a.AvoidNodes, ", ") + " if possible"
	}
	if !t.enlarge(x, e, &next) {
		return failed(e)
	}
	e.Next += fmt.Sprintf(" (retry %d of %d)", used+1, x.Task.Retries)
	return next
}

// refused returns why a failure is not retried; empty: it is.
func refused(x *entry, a diagnose.Advice, used int) string {
	limit := x.Task.Retries
	switch {
	case x.Task.Retry == api.RetryNever:
		return "the job allows none (retry: never)"
	case x.Task.Retry == api.RetryAlways && used < limit:
		return ""
	case !a.Retry:
		return a.Why
	case limit == 0:
		return "the job allows none (retries: 0)"
	case used >= limit:
		return fmt.Sprintf("all %d retries are used up", limit)
	}
	return ""
}

// lost returns the consequence when the job did not cause the failure: it does not
// count, up to a limit. Restarts of the machine never do, but the wait grows, unless the
// job ran for so long that it can hardly be their cause.
func (t *tx) lost(x *entry, e *api.Exit) sched.Event {
	n := x.Lost + 1
	wait := backOff(n)
	switch {
	case e.Saw(api.HostRestarted) && t.now.Sub(x.Job.Since) >= diagnose.DefaultPolicy().Healthy:
		wait = firstBackOff
	case e.Saw(api.HostRestarted):
		wait = min(mostRestartBackOff, firstBackOff<<min(n-1, 20))
	case n > maxLost:
		e.Next = fmt.Sprintf("not retried: it was lost %d times in a row without saving new work", n)
		return failed(e)
	}
	next := t.again(e, wait)
	next.Avoid = unfit(e)
	e.Next += " (does not count as a retry)"
	return next
}

// unfit returns the nodes that the executor found the job does not accept.
func unfit(e *api.Exit) []string {
	var out []string
	for _, h := range e.Host {
		if h.Kind == api.HostUnfit {
			out = append(out, h.Node)
		}
	}
	return out
}

func (t *tx) again(e *api.Exit, wait time.Duration) sched.Event {
	e.Next = "retried at once"
	if wait > 0 {
		e.Next = "retried in " + sched.Duration(wait.Round(time.Second)).String()
	}
	return sched.Event{Kind: sched.JobFailed, Job: e.Job, Until: t.now.Add(wait)}
}

func failed(e *api.Exit) sched.Event {
	return sched.Event{Kind: sched.JobEnded, Job: e.Job, Phase: sched.Failed}
}

// enlarge asks for more of what ran out. It returns false if there is no more: the
// same request would fail again.
func (t *tx) enlarge(x *entry, e *api.Exit, next *sched.Event) bool {
	a, j := e.Advice, x.Job
	if a.MoreMemory > 0 && j.Memory > 0 {
		base := j.Memory
		if x.Asked > 0 {
			base = x.Asked
		}
		most := t.mem.memoryLeft(j)
		next.Memory = int64(min(float64(base)*a.MoreMemory, float64(most)))
		if next.Memory <= j.Memory && x.Task.Retry != api.RetryAlways {
			e.Next = fmt.Sprintf("not retried: it needs more than %s of host memory for each GPU, and no node has more", memorySize(j.Memory))
			return false
		}
		e.Next += fmt.Sprintf(", with %s of host memory for each GPU instead of %s", memorySize(max(next.Memory, j.Memory)), memorySize(j.Memory))
	}
	if a.SmallerBatch > 0 {
		e.Next += fmt.Sprintf(", with %g of the batch on each GPU if the program supports it (FAIRWAY_BATCH_SCALE)", a.SmallerBatch)
		if j.GPUMemory > 0 { // what it said it needs was too little
			next.GPUMemory = min(int64(1.5*float64(j.GPUMemory)), max(t.mem.largestGPU(j), j.GPUMemory))
		}
	}
	return true
}

// memorySize prints a size of memory.
func memorySize[N int64 | float64](bytes N) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// usable returns the number of nodes that are not down.
func (m *memory) usable() int {
	n := 0
	for _, node := range m.state.Cluster().Nodes {
		if node.State != sched.Down {
			n++
		}
	}
	return n
}

// memoryLeft returns the most host memory per GPU that a job can ask for and still
// be placed.
func (m *memory) memoryLeft(j *sched.Job) int64 {
	size := j.GPUs
	if j.Elastic() {
		size = j.MinGPUs
	}
	most := int64(0)
	for _, n := range m.state.Cluster().Nodes {
		switch {
		case n.State == sched.Down || n.GPUs == 0 || !n.Matches(j.Selector) || !j.Accepts(n.Type):
		case n.Memory == 0:
			return math.MaxInt64 // unknown
		default:
			most = max(most, n.Memory/int64(min(size, n.GPUs)))
		}
	}
	return most
}

// largestGPU returns the most memory of a GPU that the job accepts; 0: unknown.
func (m *memory) largestGPU(j *sched.Job) int64 {
	most := int64(0)
	for _, n := range m.state.Cluster().Nodes {
		if n.State != sched.Down && n.Matches(j.Selector) && j.Accepts(n.Type) {
			most = max(most, n.GPUMemory)
		}
	}
	return most
}

// backOff returns the wait before the n-th retry.
func backOff(n int) time.Duration {
	return min(mostBackOff, firstBackOff<<min(max(0, n-1), 10))
}

// heldBackOff returns the wait before the next try of a job that could not be started
// n times in a row and held GPUs in vain for a while. It is the longer of the usual wait
// and n times that while, so that of the GPUs' time such a job wastes a half at most,
// then a third, and less and less.
func heldBackOff(n int, held time.Duration) time.Duration {
	return max(backOff(n), min(mostHeldBackOff, time.Duration(n)*held).Round(time.Second))
}

// describeExit describes the end of an attempt: what, why, and what follows.
func describeExit(e *api.Exit) string {
	parts := []string{e.Text()}
	if cause := e.Cause(); cause != "" && !strings.Contains(e.Next, e.Finding.Text) { // it says why it is not retried
		parts = append(parts, cause)
	}
	if e.Next != "" {
		parts = append(parts, e.Next)
	}
	return strings.Join(parts, "; ")
}

// remember keeps what an exit tells about the job's failures.
func (m *memory) remember(x *entry, r *api.Record) {
	e := r.Exit
	uncounted := e.Advice != nil && e.Advice.Uncounted
	if e.Saw(api.HostHeldBack) {
		x.HeldBack++
		return
	}
	x.HeldBack = 0
	if e.Lost || uncounted {
		x.Lost++
	} else {
		x.Lost = 0
	}
	current := x.Job.Phase == sched.Running && x.Job.Starts == e.Number
	if !current {
		return
	}
	if e.Finding != nil && !e.Lost {
		if len(x.Failed) == maxFailed {
			x.Failed = x.Failed[1:]
		}
		x.Failed = append(x.Failed[:len(x.Failed):len(x.Failed)], m.failure(x, e, r.At))
	}
	if e.Advice != nil && e.Advice.SmallerBatch > 0 {
		x.BatchScale = e.Advice.SmallerBatch
	}
	m.noteExit(x, r)
}
