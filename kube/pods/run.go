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

// run is what is being done about an attempt. All of it can be lost: it is made
// again from the orders and the pods.
type run struct {
	id      api.AttemptID
	attempt *api.Attempt // as ordered; nil: never seen
	nodes   []string     // by rank
	wanted  bool         // it should run
	leaving bool         // it should not, and its end is not known

	plan    *plan
	busy    bool
	tries   int
	after   time.Time               // nothing is done before
	blocked bool                    // by an earlier attempt or holder
	created time.Time               // when its pods were, last
	bound   map[types.UID]time.Time // when a pod was, last
	named   int                     // how many of its pods others find by name
	// addressed is when a pod first had an address, or when names were written last.
	addressed time.Time
	held      time.Time               // since when it waits for room that others took
	waiting   time.Time               // since when a container cannot start
	yields    time.Time               // since when some of its pods have left with their work saved
	asked     map[types.UID]time.Time // pods that were deleted

	external bool // of an external workload, although the attempt was never seen
	probed   bool // and that is known
	gone     bool // of an external workload: no pod is left

	up     bool      // its pods are
	upTold bool      // and this was reported
	exit   *api.Exit // how it ended; nil: it has not
	logged bool      // its logs were looked at
	told   time.Time // when its end was acknowledged
}

func (r *run) namespace() string {
	if r.attempt == nil {
		return ""
	}
	return namespaceOf(r.attempt)
}

// reorder takes note of what should run.
func (e *Executor) reorder(orders Orders) {
	list := orders.Attempts()
	leaving := orders.Withdrawn() // after the others, so that none is missed in between
	e.mu.Lock()
	defer e.mu.Unlock()
	wanted := make(map[api.AttemptID]bool, len(list)+len(leaving))
	for i := range list {
		a := &list[i]
		wanted[a.AttemptID] = true
		r := e.runOf(a.AttemptID)
		if r.attempt != nil && !r.attempt.Placement.Equal(a.Placement) {
			// The same number elsewhere: the orders have lost a part of their history.
			r.wanted = false
			e.dirty[r.id] = true
			continue
		}
		if !r.wanted || r.attempt == nil {
			e.dirty[r.id] = true
		}
		if r.attempt == nil {
			own := *a // or the whole list would stay as long as this attempt
			r.attempt = &own
			for _, s := range seatsOf(a) {
				r.nodes = append(r.nodes, orders.NodeName(s.node))
			}
		}
		r.wanted, r.leaving = true, false
	}
	for _, id := range leaving {
		wanted[id] = true
		if r := e.runOf(id); !r.leaving || r.wanted {
			r.wanted, r.leaving = false, true
			e.dirty[id] = true
		}
	}
	for id, r := range e.runs {
		if !wanted[id] {
			if r.wanted || r.leaving {
				e.dirty[id] = true
			}
			r.wanted, r.leaving = false, false
		}
	}
}

func (e *Executor) runOf(id api.AttemptID) *run {
	r := e.runs[id]
	if r == nil {
		r = &run{id: id, bound: map[types.UID]time.Time{}, asked: map[types.UID]time.Time{}}
		e.runs[id] = r
		e.dirty[id] = true
	}
	return r
}

// scope is which attempts to look at.
type scope int

const (
	changedOnly scope = iota
	underWay          // and those that are not as they should be
	everything
)

// step looks at attempts and does what is next about each.
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
			r = e.runOf(id) // it is not ordered
		}
		steady := e.stepRun(ctx, r, orders, now)
		if r.up && r.exit == nil && r.wanted && !r.upTold {
			r.upTold = true
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

// stepRun does what is next about an attempt, and reports whether nothing is
// left to do until something changes.
func (e *Executor) stepRun(ctx context.Context, r *run, orders Orders, now time.Time) (steady bool) {
	if r.busy || now.Before(r.after) {
		return false
	}
	if e.isExternal(r) {
		return e.stepExternal(ctx, r, orders, now)
	}
	switch {
	case !r.told.IsZero():
		return e.stepTold(r, now)
	case r.exit != nil:
		e.stepEnding(ctx, r, orders, now)
		return false
	case !r.wanted:
		return e.stepLeaving(ctx, r, orders, now)
	}
	return e.stepWanted(ctx, r, orders, now)
}

// discard drops what is known about an attempt that is over.
func (e *Executor) discard(r *run) {
	delete(e.runs, r.id)
	delete(e.externals, r.id)
	e.forget(r.id)
}

// stepTold handles an attempt whose exit was acknowledged. If it is still ordered,
// the other side has forgotten, and the exit is reported again.
func (e *Executor) stepTold(r *run, now time.Time) (steady bool) {
	switch {
	case (r.wanted || r.leaving) && now.Sub(r.told) > tellAgain:
		e.Log.Warn("an attempt that ended is still ordered: its end is told again", "job", r.id.Job, "attempt", r.id.Number)
		r.told = time.Time{}
	case !r.wanted && !r.leaving:
		e.discard(r)
		return true
	}
	return false
}

// stepLeaving takes the pods of an attempt away that should not run.
func (e *Executor) stepLeaving(ctx context.Context, r *run, orders Orders, now time.Time) (steady bool) {
	g := e.gangs[r.id]
	if g.live(r.namespace()) {
		e.remove(ctx, r, nil)
		return false
	}
	if !r.leaving { // its exit is not needed
		e.discard(r)
		return true
	}
	exit := leftBy(r, g)
	exit.At = now
	r.exit = &exit
	e.stepEnding(ctx, r, orders, now)
	return false
}

// stepWanted starts an attempt, or looks whether it still runs.
func (e *Executor) stepWanted(ctx context.Context, r *run, orders Orders, now time.Time) (steady bool) {
	g := e.gangs[r.id]
	pods := g.ranks(r.namespace())
	if exit := e.verdict(r, g, pods, now); exit != nil {
		exit.AttemptID, exit.At = r.id, now
		r.exit = exit
		e.stepEnding(ctx, r, orders, now)
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
	e.blameNode(r)
	e.tell(ctx, r, orders)
}

// tell reports how an attempt ended, when nothing of it is left.
func (e *Executor) tell(ctx context.Context, r *run, orders Orders) {
	exit := *r.exit
	e.background(r, func() func() {
		err := orders.Exited(ctx, exit)
		return func() {
			if err == nil {
				r.told = e.Now()
				return
			}
			if ctx.Err() == nil {
				e.Log.Error("the end of an attempt cannot be told", "job", r.id.Job, "attempt", r.id.Number, "err", err)
			}
			r.after = e.Now().Add(time.Second)
		}
	})
}

// endGrace is the grace period of the rest of a gang when one pod failed: there is
// nothing left to save.
const endGrace = 10 * time.Second
