// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
)

// External runs attempts of external workloads, such as batch Jobs: their own
// controllers create the pods, and Fairway decides when and where they run. Its
// methods are called repeatedly and must return at once if there is nothing to do.
type External interface {
	// Start lets the controller make the pods, and binds existing ones, node by node
	// in the order of the placement. Nil does not mean that they run yet.
	Start(context.Context, api.Attempt, []string) error
	// Stop has the pods end.
	Stop(context.Context, api.AttemptID) error
	// State returns the progress of the attempt.
	State(api.AttemptID) ExternalState
}

// ExternalState is how far an attempt of an external workload is.
type ExternalState struct {
	Up   bool      // all of its pods run
	Gone bool      // no pod of it is left that could hold a GPU
	Exit *api.Exit // how it ended by itself; nil: it did not
	// Waits is one of its pods that wait to be bound, which are alike; nil: none does.
	Waits *corev1.PodSpec
	// Missing is how many of its pods do not exist yet, after its start.
	Missing int
}

// external reports whether an attempt is one of an external workload.
func external(a *api.Attempt) bool {
	kind, _, _ := strings.Cut(a.Task.Origin, "/")
	return kind != "" && kind != "TrainingJob" && kind != "App"
}

// namespaceOf returns the namespace of an attempt's pods; empty: not known.
func namespaceOf(a *api.Attempt) string {
	_, rest, _ := strings.Cut(a.Task.Origin, "/")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

// externalEvery is how often external workloads are checked.
const externalEvery = 500 * time.Millisecond

// isExternal reports whether an attempt is one of an external workload. After a crash
// an attempt that is leaving may be either: External is asked about it first.
func (e *Executor) isExternal(r *run) bool {
	if r.attempt != nil {
		return external(r.attempt)
	}
	return r.external || e.External != nil && !r.probed && r.leaving && e.gangs[r.id] == nil
}

// stepExternal takes the next step for an attempt of an external workload.
func (e *Executor) stepExternal(ctx context.Context, r *run, orders Orders, now time.Time) (steady bool) {
	e.externals[r.id] = r
	switch {
	case !r.told.IsZero():
		return e.stepTold(r, now)
	case e.External == nil:
		if r.exit == nil {
			e.end(r, refused(fmt.Sprintf("this executor does not run %s", r.attempt.Task.Origin)))
		}
		e.tell(ctx, r, orders)
	case r.exit != nil && r.gone:
		e.tell(ctx, r, orders)
	case !r.wanted && !r.leaving && r.gone:
		e.discard(r)
		return true
	default:
		stays := r.wanted && r.exit == nil
		e.background(r, func() func() {
			state := e.External.State(r.id) // it may take a while
			var err error
			switch {
			case state.Exit == nil && stays && !state.Up:
				if state.Gone && !e.mayBegin(r) || state.Waits != nil && !e.mayBind(r, state.Waits) {
					break
				}
				err = e.request(ctx, func(ctx context.Context) error { return e.External.Start(ctx, *r.attempt, r.nodes) })
			case !stays && !state.Gone:
				err = e.request(ctx, func(ctx context.Context) error { return e.External.Stop(ctx, r.id) })
			}
			return func() { e.noteExternal(ctx, r, state, err) }
		})
	}
	return false
}

// noteExternal records how far an attempt of an external workload is.
func (e *Executor) noteExternal(ctx context.Context, r *run, state ExternalState, err error) {
	r.after = e.Now().Add(externalEvery)
	if state.Up {
		r.after = r.after.Add(externalEvery) // most are, for hours
	}
	r.gone = state.Gone
	if r.attempt == nil {
		r.probed, r.external = true, r.external || !state.Gone
		if !r.external { // it is one of ours after all, of which nothing is left
			r.after = time.Time{}
			delete(e.externals, r.id)
			return
		}
	}
	switch {
	case err != nil:
		if ctx.Err() == nil {
			e.retry(r, "have an attempt begin or end", err)
		}
	case r.exit != nil:
	case r.wanted && state.Exit != nil:
		e.end(r, *state.Exit)
	case r.wanted:
		r.up, r.tries = state.Up, 0
		if exit := e.neverMade(r, state.Missing); exit != nil {
			e.end(r, *exit)
		}
	case r.leaving && state.Gone && state.Exit != nil:
		e.end(r, *state.Exit)
	case r.leaving && state.Gone:
		e.end(r, api.Exit{Noticed: true})
	}
}

// neverMade ends an attempt whose pods were not created within the start timeout: a
// quota forbids them, or their controller is missing. Others can use its GPUs.
func (e *Executor) neverMade(r *run, missing int) *api.Exit {
	switch {
	case missing == 0:
		r.waiting = time.Time{}
	case r.waiting.IsZero():
		r.waiting = e.Now()
	case e.Now().Sub(r.waiting) >= e.PullFor:
		kind, name, _ := strings.Cut(r.attempt.Task.Origin, "/")
		exit := heldBack(fmt.Sprintf("%d of %d pods were not made in %v; see the events of %s %s", missing, len(r.nodes), e.PullFor, kind, name))
		return &exit
	}
	return nil
}

// mayBegin reports whether nothing blocks an external attempt. One that is blocked
// for too long ends.
func (e *Executor) mayBegin(r *run) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if exit := e.impossible(r); exit != nil {
		e.end(r, *exit)
		return false
	}
	if exit := e.cannotShare(r); exit != nil {
		e.end(r, *exit)
		return false
	}
	r.plan = e.planOf(r, Pod{})
	return e.hasRoom(r, e.Now())
}

// mayBind reports whether external pods accept the nodes that they were given. If
// not, the attempt ends, and the next is elsewhere.
func (e *Executor) mayBind(r *run, pod *corev1.PodSpec) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	exit := e.misplaced(r, pod)
	if exit != nil {
		e.end(r, *exit)
	}
	return exit == nil
}

// leavingExternals returns the other external attempts that have started and must
// leave, or may still be there.
func (e *Executor) leavingExternals(but *run) []*run {
	var out []*run
	for _, r := range e.externals {
		if r != but && !r.wanted && !r.gone && r.told.IsZero() {
			out = append(out, r)
		}
	}
	return out
}

// overlap reports whether two attempts were given the same GPUs. An attempt that
// was never seen may have any.
func overlap(a, b *api.Attempt) bool {
	if a == nil || b == nil {
		return true
	}
	for _, s := range a.Placement {
		for _, o := range b.Placement {
			if s.Node == o.Node && s.GPUs&o.GPUs != 0 {
				return true
			}
		}
	}
	return false
}
