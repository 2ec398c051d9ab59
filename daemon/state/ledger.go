// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// maxLedger bounds the entries that are kept of what happened to one job.
const maxLedger = 200

func (x *entry) started(r *api.Record, was *sched.Job) {
	if !r.Event.InPlace {
		x.Open, x.Resized, x.Plan = append(x.Open, x.Job.Starts), nil, r.Plan
	}
	x.reason, x.Company, x.Warning, x.Slow, x.SlowLinks = sched.Reason{}, noReport, "", nil, nil
	to := r.Event.Placement.GPUs()
	if !x.reports() {
		x.back(r.At)
	}
	if n := len(x.Ledger); n > 0 {
		if last := &x.Ledger[n-1]; last.Verb == "move" && last.To == 0 && last.At.Equal(r.At) { // both sides of a move are one entry
			last.To = to
			return
		}
	}
	x.addLedger(api.Entry{At: r.At, Verb: "start", Attempt: x.Job.Starts, To: to, Why: r.Text})
}

// lostGPUs records that the job lost its GPUs. The cost is known when its
// processes are gone; until then it is the work since the last checkpoint.
func (x *entry) lostGPUs(r *api.Record, was *sched.Job, verb string) {
	e := api.Entry{
		At: r.At, Verb: verb, Attempt: was.Starts, From: was.Placement.GPUs(), Why: r.Text,
		Lost: max(0, was.DoneBy(r.At)-was.CheckpointedWork), LostS: was.Unsaved(r.At), Ongoing: true,
	}
	gone := x.Exit != nil && x.Exit.Number == was.Starts
	left := gone && x.Exit.Yielded && x.Exit.Unsaved == 0 // before it was asked
	unborn := len(x.Open) > 0 && x.Open[0] != was.Starts  // an earlier attempt is still there
	e.InPlace = r.Event.InPlace
	if e.InPlace || r.Event.Suspend || left || unborn || gone && x.Exit.Saw(api.HostHeldBack) {
		e.Lost, e.LostS = 0, 0
	}
	if e.InPlace && x.changing() {
		ongoing(x.Ledger).Ongoing = false // the ranks train; how long they paused is yet to be reported
	} else {
		x.back(r.At)
	}
	x.addLedger(e)
}

func (x *entry) held(r *api.Record, was *sched.Job, e sched.Event) {
	x.PausedBy = ""
	if x.Job.Paused {
		x.PausedBy = cmp.Or(r.Actor, "somebody")
	}
	if was.Phase == sched.Running {
		x.lostGPUs(r, was, "pause")
	}
}

// resized records that the attempt has changed in place: as it was ordered, or because
// a rank died.
func (x *entry) resized(r *api.Record) {
	z, from := r.Resized, x.Job.Placement.GPUs()
	why := "a process died; the others went on with another in its place"
	if before := x.Resized; before != nil && before.GPUs < from {
		from, why = before.GPUs, "there is another process in place of the one that died"
	}
	if z.GPUs < from {
		why = "a process died; the others went on without it"
	}
	x.Resized = z
	if e := ongoing(x.Ledger); e == nil {
		x.addLedger(api.Entry{At: r.At, Verb: "recover", Attempt: x.Job.Starts, From: from, To: z.GPUs, Away: z.Away, InPlace: true, Why: why})
	} else if e.InPlace && e.To == z.GPUs {
		e.Away, e.Ongoing = z.Away, false
	} else if e := x.unmeasured(z.GPUs); e != nil {
		e.Away = z.Away
	}
}

// unmeasured returns the entry of a change of the running attempt in place to a number of
// GPUs, of which it is not known how long it took because the next one was ordered before
// the agent could say; nil: there is none.
func (x *entry) unmeasured(gpus int) *api.Entry {
	for i := len(x.Ledger) - 1; i >= 0 && x.Ledger[i].Attempt == x.Job.Starts; i-- {
		if e := &x.Ledger[i]; e.InPlace && !e.Ongoing && e.To == gpus && e.Away == 0 {
			return e
		}
	}
	return nil
}

// back records that the job trains again, or will never.
func (x *entry) back(at time.Time) {
	if e := ongoing(x.Ledger); e != nil {
		e.Away, e.Ongoing = at.Sub(e.At).Seconds(), false
	}
}

// changing reports whether the job's attempt changes in place. Its ranks train on
// while new ones start, so that it trains does not say that it is there. Of a gang of roles
// nobody has to meet: it is there as soon as its first role has trained.
func (x *entry) changing() bool {
	e := ongoing(x.Ledger)
	return e != nil && e.InPlace && e.To > 0
}

// changedLast reports whether the last that happened to the job's attempt is a change of its
// roles in place: if it saves and leaves, that was not possible.
func (x *entry) changedLast() bool {
	n := len(x.Ledger)
	return n > 0 && len(x.Task.Roles) > 0 && x.Ledger[n-1].InPlace && x.Ledger[n-1].Attempt == x.Job.Starts
}

// ongoing returns the entry of the stop that the job is not back from; nil: it trains,
// or never did.
func ongoing(ledger []api.Entry) *api.Entry {
	for i := len(ledger) - 1; i >= 0; i-- {
		if e := &ledger[i]; e.From > 0 {
			if e.Ongoing {
				return e
			}
			return nil
		}
	}
	return nil
}

// stopOf returns the entry for the GPUs that an attempt lost, failures aside; nil:
// there is none.
func (x *entry) stopOf(attempt int) *api.Entry {
	for i := len(x.Ledger) - 1; i >= 0; i-- {
		if e := &x.Ledger[i]; e.Attempt == attempt && e.Verb != "start" && e.Verb != "fail" {
			return e
		}
	}
	return nil
}

// foundLess corrects what the last stop cost: its successor found less in the
// checkpoint than was reported as saved, or more.
func (x *entry) foundLess(work float64) {
	i := len(x.Ledger) - 1
	for i >= 0 && x.Ledger[i].From == 0 {
		i--
	}
	if i < 0 || work == 0 {
		return
	}
	e := &x.Ledger[i]
	e.Lost = max(0, e.Lost+work)
	if e.Lost == 0 {
		e.LostS = 0
	} else if x.Rate > 0 {
		e.LostS = max(0, e.LostS+finite(work/x.Rate*float64(x.RateGPUs)))
	}
}

func (x *entry) addLedger(e api.Entry) {
	if len(x.Ledger) == maxLedger {
		x.Spent.lose(x.Ledger[:maxLedger/4])
		x.Ledger = slices.Delete(x.Ledger, 0, maxLedger/4)
	}
	x.Ledger = append(x.Ledger, e)
}
