// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

var _ api.Jobs = (*Store)(nil)

// Explain implements api.Jobs.
func (b *Store) Explain(who api.Identity, id sched.JobID) (api.Explanation, error) {
	b.look(b.idOf(who, id))
	return durably(b, func() (api.Explanation, error) { return b.explain(who, id) })
}

// explain is Explain under the lock.
func (b *Store) explain(who api.Identity, id sched.JobID) (api.Explanation, error) {
	const holders = 10
	n, refused := b.mem.refer(who, id)
	if refused != nil {
		return api.Explanation{}, refused
	}
	x := n.job
	if n.array != nil {
		x, _ = b.speaker(n.array)
	}
	fair := b.fair()
	e := api.Explanation{
		Job: b.view(x, fair), Now: fair.Now, Policy: b.mem.Policy,
		AllGPUs: b.mem.state.Cluster().GPUs(), Ledger: slices.Clone(x.Ledger),
	}
	if r := e.Job.Reason; r != nil && x.reason.OverShare() {
		r.Text += b.mem.family(x.Job)
	}
	held := 0
	for _, o := range b.mem.inOrder() {
		n := o.Job.Placement.GPUs()
		held += n
		if n > 0 {
			s := api.Share{GPUs: n, Left: o.left(fair.Now)}
			s.Job, s.Tenant = shown(who, o.Job)
			e.Holders = append(e.Holders, s)
		}
	}
	if x.Job.Phase == sched.Pending && !x.Hold {
		b.ahead(who, x, &e)
	}
	if e.Use = x.used(x.Job.Starts); e.Use == nil && x.Exit != nil {
		e.Use = x.Exit.Use
	}
	if !x.Job.Phase.Ended() {
		e.RunTime = runTime(b.mem.lengths(), x.run(fair.Now))
	}
	e.FreeGPUs = max(0, e.AllGPUs-held)
	slices.SortStableFunc(e.Holders, func(a, c api.Share) int { return cmp.Compare(c.GPUs, a.GPUs) })
	e.Holders = e.Holders[:min(len(e.Holders), holders)]
	if x.Job.Phase == sched.Running {
		e.Larger = b.larger(x, e.FreeGPUs)
		e.Plans = b.mem.planText(x, fair.Now)
	}
	if l := ongoing(e.Ledger); l != nil {
		l.Away = fair.Now.Sub(l.At).Seconds()
	}
	for _, l := range e.Ledger {
		e.Price.LostS += l.LostS
		e.Price.AwayS += l.Away
	}
	e.Price.Preemptions, e.Price.Moves = x.Job.Preemptions, x.Job.Moves
	e.Summary = summary(e)
	if n.array != nil {
		e.Job = b.fold(n.array, fair)
		e.Summary = fmt.Sprintf("An array of %d jobs: %s. The rest is about %s. %s", len(n.array.members), counts(e.Job.Members), x.Job.ID, e.Summary)
	}
	return e, nil
}

// shown is what an identity is told of a job's name: of other tenants, nothing.
func shown(who api.Identity, j *sched.Job) (sched.JobID, sched.TenantID) {
	if !who.Sees(j.Tenant) {
		return "(other tenant)", ""
	}
	return j.ID, j.Tenant
}

// summary describes the job's situation in one sentence.
func summary(e api.Explanation) string {
	j := e.Job
	after := fmt.Sprintf("after %s of running and %s of waiting", sched.Brief(j.Status.Ran.D()), sched.Brief(j.Status.Waited.D()))
	switch j.State {
	case api.Waiting:
		return fmt.Sprintf("It has waited for %s: %s.", ago(e.Now, j.Status.Since), j.Reason.Text)
	case api.Paused:
		return fmt.Sprintf("It is %s.", j.Reason.Text)
	case api.Stopping:
		if len(j.Status.Suspended) > 0 {
			return fmt.Sprintf("It is being suspended in place since %s.", ago(e.Now, j.Status.Since))
		}
		return fmt.Sprintf("It is being preempted: it was asked to save its work %s ago.", ago(e.Now, j.Status.Since))
	case api.Starting:
		return fmt.Sprintf("It was given %s %s ago and starts as soon as they are free.", where(j), ago(e.Now, j.Status.Since))
	case api.Running:
		if j.Status.Screening {
			return fmt.Sprintf("It is being screened: it has run on %s for %s, and gets all %d GPUs after %s.",
				where(j), ago(e.Now, j.Status.Since), j.GPUs, sched.Brief(j.Spec.Screen.D()))
		}
		s := fmt.Sprintf("It has run on %s for %s; its fair share is %.1f GPUs", where(j), ago(e.Now, j.Status.Since), j.FairShare)
		if j.Rho > 0 {
			s += fmt.Sprintf("; its app is on course to take %.2f times as long as it would alone on its fair share", j.Rho)
		}
		return s + "."
	case api.Cancelled:
		if j.MovedTo != "" {
			return "It was moved to " + j.MovedTo + " before it had started."
		}
		if j.Why != "" {
			return "It was cancelled: " + j.Why + "."
		}
		return "It was cancelled, " + after + "."
	case api.Failed:
		if j.Why != "" {
			return "It failed: " + j.Why + "."
		}
		if j.Exit != nil {
			return "It failed: " + describeExit(j.Exit) + "."
		}
		return "It failed."
	}
	return fmt.Sprintf("It is %s, %s.", j.State, after)
}

func where(j api.Job) string {
	var parts []string
	for _, h := range j.Held {
		parts = append(parts, fmt.Sprintf("%d GPU%s of %s", len(h.GPUs), plural(len(h.GPUs)), h.Node))
	}
	return strings.Join(parts, ", ")
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func ago(now, t time.Time) string { return sched.Brief(now.Sub(t)) }
