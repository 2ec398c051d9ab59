// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairway-gpu/fairway/api"
)

// run is the executor's progress with an attempt. It can be lost, because it is rebuilt
// from the orders and the pods.
type run struct {
	id        api.AttemptID
	attempt   *api.Attempt // as ordered; nil: never seen
	nodes     []string     // by rank
	wanted    bool         // it should run
	withdrawn bool         // it should not run, and its end is not known yet
	inherited bool         // an operator that led before may have begun with it

	plan      *plan
	busy      bool
	tries     int
	after     time.Time               // not stepped before
	blocked   bool                    // by an earlier attempt or holder
	created   time.Time               // when its pods were created last
	born      time.Time               // when a pod with a node was asked for that may still appear
	bornRank  int                     // of that pod
	bound     map[types.UID]time.Time // when each pod was bound last
	published int                     // how many of its pods have a published address
	// addressed is when a pod first had an address, or when addresses were written
	// last.
	addressed time.Time
	held      time.Time               // since when it waits for room that other pods took
	waiting   time.Time               // since when a container cannot start
	stalled   time.Time               // since when a pod runs nothing although nothing blocks it
	trouble   string                  // why the last request to the API server failed, or which volume claim it waits for; empty: neither
	yields    time.Time               // since when some of its pods have ended after saving a checkpoint
	deleted   map[types.UID]time.Time // pods whose deletion was requested
	claims    map[string]asked        // volume claims that are not bound yet

	external bool // of an external workload, although the attempt was never seen
	probed   bool // it is known whether it is external
	gone     bool // external only: no pod is left

	up         bool      // its pods run
	upReported bool      // up was reported
	exit       *api.Exit // how it ended; nil: it has not
	logged     bool      // its logs were read
	reported   time.Time // when its end was acknowledged

	suspension suspension
}

func (r *run) namespace() string {
	if r.attempt == nil {
		return ""
	}
	return namespaceOf(r.attempt)
}

// reorder updates the runs from the orders.
func (e *Executor) reorder(orders Orders) {
	e.mu.Lock()
	clear(e.ended) // what is reported from here on may not be in them
	e.mu.Unlock()
	list := orders.Attempts()
	withdrawn := orders.Withdrawn() // read after Attempts, so that none is missed in between
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.began.IsZero() {
		e.began = e.Now()
		for i := range list {
			e.runOf(list[i].AttemptID).inherited = true
		}
		for _, id := range withdrawn {
			e.runOf(id).inherited = true
		}
	}
	wanted := make(map[api.AttemptID]bool, len(list)+len(withdrawn))
	for i := range list {
		a := &list[i]
		wanted[a.AttemptID] = true
		r := e.runOf(a.AttemptID)
		if r.attempt != nil && !r.attempt.Placement.Equal(a.Placement) {
			// The same attempt number in another place: the orders have lost a part of
			// their history.
			r.wanted = false
			e.dirty[r.id] = true
			continue
		}
		if !r.wanted || r.attempt == nil {
			e.dirty[r.id] = true
		}
		if r.attempt == nil {
			own := *a // a pointer into the list would keep the whole list in memory
			r.attempt = &own
			for _, s := range seatsOf(a) {
				r.nodes = append(r.nodes, orders.NodeName(s.node))
			}
		}
		if r.suspension.wanted != a.Suspended {
			e.dirty[r.id] = true
		}
		r.wanted, r.withdrawn, r.suspension.wanted = true, false, a.Suspended
	}
	for _, id := range withdrawn {
		wanted[id] = true
		if r := e.runOf(id); !r.withdrawn || r.wanted {
			r.wanted, r.withdrawn = false, true
			e.dirty[id] = true
		}
	}
	for id, r := range e.runs {
		if !wanted[id] {
			if r.wanted || r.withdrawn {
				e.dirty[id] = true
			}
			r.wanted, r.withdrawn = false, false
		}
	}
}

func (e *Executor) runOf(id api.AttemptID) *run {
	r := e.runs[id]
	if r == nil {
		r = &run{id: id, bound: map[types.UID]time.Time{}, deleted: map[types.UID]time.Time{}}
		e.runs[id] = r
		e.dirty[id] = true
	}
	return r
}

// scope selects the attempts to step.
type scope int

const (
	changedOnly scope = iota
	underWay          // also those that are in progress
	everything
)

// step takes the next step for each attempt in the scope.
func (e *Executor) step(ctx context.Context, orders Orders, which scope) {
	e.mu.Lock()
	now := e.Now()
	look := e.dirty
	e.dirty = map[api.AttemptID]bool{}
	if which >= underWay || e.freed {
		for id := range e.busy {
			if r := e.runs[id]; which >= underWay || r != nil && r.blocked {
				look[id] = true
			}
		}
	}
	e.freed = false
	e.reporting = which >= underWay
	if which == everything {
		for id := range e.runs {
			look[id] = true
		}
		for id := range e.gangs {
			look[id] = true
		}
	}
	ids := make([]api.AttemptID, 0, len(look))
	for id := range look {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b api.AttemptID) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Number, b.Number))
	})
	var up []api.AttemptID
	for _, id := range ids {
		r := e.runs[id]
		if r == nil {
			if e.gangs[id] == nil {
				continue
			}
			if !e.gangs[id].live("") {
				e.tidy(ctx, id, now)
				continue
			}
			r = e.runOf(id) // no order mentions it
		}
		steady := e.stepRun(ctx, r, orders, now)
		if r.up && r.exit == nil && r.wanted && !r.upReported && !r.suspension.away {
			r.upReported = true
			up = append(up, id)
		}
		if steady {
			delete(e.busy, id)
		} else {
			e.busy[id] = true
		}
	}
	e.mu.Unlock()
	for _, id := range up {
		orders.Started(id)
	}
}

// stepRun takes the next step for an attempt, and reports whether there is nothing to
// do until something changes.
func (e *Executor) stepRun(ctx context.Context, r *run, orders Orders, now time.Time) (steady bool) {
	if r.busy || now.Before(r.after) {
		return false
	}
	if e.isExternal(r) {
		return e.stepExternal(ctx, r, orders, now)
	}
	switch {
	case !r.reported.IsZero():
		return e.stepReported(r, now)
	case r.exit != nil:
		e.stepEnding(ctx, r, orders, now)
		return false
	case !r.wanted:
		return e.stepWithdrawn(ctx, r, orders, now)
	}
	return e.stepWanted(ctx, r, orders, now)
}

// discard forgets an attempt that is over.
func (e *Executor) discard(r *run) {
	if e.Hands != nil && len(r.nodes) > 0 {
		e.Hands.Drop(r.nodes[0], r.id)
	}
	e.unreserve(r)
	delete(e.runs, r.id)
	delete(e.externals, r.id)
	e.forget(r.id)
}

// stepReported handles an attempt whose exit was acknowledged. If the orders still contain
// it, the daemon has lost the exit, and it is reported again.
func (e *Executor) stepReported(r *run, now time.Time) (steady bool) {
	switch {
	case (r.wanted || r.withdrawn) && now.Sub(r.reported) > reportAgain:
		e.Log.Warn("ended attempt is still ordered; reporting its exit again", "job", r.id.Job, "attempt", r.id.Number)
		r.reported = time.Time{}
	case !r.wanted && !r.withdrawn:
		e.discard(r)
		return true
	}
	return false
}

// stepWithdrawn removes the pods of an attempt that should not run.
func (e *Executor) stepWithdrawn(ctx context.Context, r *run, orders Orders, now time.Time) (steady bool) {
	g := e.gangs[r.id]
	if g.live(r.namespace()) {
		e.remove(ctx, r, nil)
		return false
	}
	if e.mayAppear(ctx, r, now) {
		return false
	}
	if !r.withdrawn { // its exit is not needed
		e.discard(r)
		return true
	}
	exit := leftBy(r, g)
	exit.At = now
	r.exit = &exit
	e.stepEnding(ctx, r, orders, now)
	return false
}

// stepWanted starts an attempt, or checks whether it still runs.
func (e *Executor) stepWanted(ctx context.Context, r *run, orders Orders, now time.Time) (steady bool) {
	g := e.gangs[r.id]
	pods := g.ranks(r.namespace())
	if exit := e.verdict(r, g, pods, now); exit != nil {
		exit.AttemptID, exit.At = r.id, now
		r.exit = exit
		e.stepEnding(ctx, r, orders, now)
		return false
	}
	if exit := e.overdue(r, r.idle(pods), now); exit != nil {
		e.end(r, *exit)
		return false
	}
	bound, running := 0, 0
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			bound++
		}
		if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded {
			running++
		}
	}
	if bound < len(r.nodes) {
		e.begin(ctx, r, pods, now)
		return false
	}
	if e.publish(ctx, r, pods, now) || running < len(r.nodes) {
		return false
	}
	r.up = true
	if e.Hands != nil || r.suspension.wanted {
		if settled := e.stepSuspended(ctx, r, pods, orders, now); !settled {
			return false
		}
	}
	return r.waiting.IsZero() && r.yields.IsZero()
}

// stepEnding removes the rest of the gang and then reports how it ended.
func (e *Executor) stepEnding(ctx context.Context, r *run, orders Orders, now time.Time) {
	g := e.gangs[r.id]
	if !r.logged && !r.exit.OK() && !r.exit.Yielded && !r.exit.Noticed && e.ReadLog != nil {
		e.background(r, func() func() {
			pods := e.readable(r)
			tails := e.tails(ctx, pods, r.exit.Rank)
			return func() {
				r.logged, r.exit.Tails = true, tails
				if r.exit.Why == "" && len(tails) > 0 {
					r.exit.Why = lastLine(tails[0].Text)
				}
			}
		})
		return
	}
	if g.live(r.namespace()) {
		short := int64(endGrace / time.Second)
		e.remove(ctx, r, &short)
		return
	}
	if e.mayAppear(ctx, r, now) {
		return
	}
	if (r.exit.Lost || r.exit.Rank >= leading(r.attempt, len(r.nodes))) && r.endedWell(g) {
		r.exit = &api.Exit{AttemptID: r.id, At: now}
	}
	if !e.reporting {
		return
	}
	e.blameNode(r)
	e.unreserve(r)
	e.report(ctx, r, orders)
}

// report reports how an attempt ended, once none of its pods is left.
func (e *Executor) report(ctx context.Context, r *run, orders Orders) {
	exit := *r.exit
	e.background(r, func() func() {
		err := orders.Exited(ctx, exit)
		return func() {
			if err == nil {
				r.reported = e.Now()
				e.ended[r.id.Job] = true
				return
			}
			if ctx.Err() == nil {
				e.Log.Error("report exit", "job", r.id.Job, "attempt", r.id.Number, "err", err)
			}
			r.after = e.Now().Add(time.Second)
		}
	})
}

// endGrace is the grace period of the rest of a gang when one pod failed: there is
// nothing left to save.
const endGrace = 10 * time.Second
