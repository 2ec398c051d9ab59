// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/workload"
)

// External runs attempts of external workloads, such as batch Jobs: their own
// controllers create the pods, and Fairway decides when and where they run. Its
// methods are called repeatedly and must return at once if there is nothing to do.
type External interface {
	// Start lets the controller create the pods, and binds existing ones to the given
	// nodes, in order. Nil does not mean that they run yet.
	Start(context.Context, api.Attempt, []string) error
	// Stop ends the pods.
	Stop(context.Context, api.AttemptID) error
	// State returns the progress of the attempt.
	State(api.AttemptID) workload.External
}

// external reports whether an attempt belongs to an external workload.
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

// isExternal reports whether an attempt belongs to an external workload. After a crash
// this is unknown for a withdrawn attempt: External is asked first.
func (e *Executor) isExternal(r *run) bool {
	if r.attempt != nil {
		return external(r.attempt)
	}
	return r.external || e.External != nil && !r.probed && r.withdrawn && e.gangs[r.id] == nil
}

// stepExternal takes the next step for an attempt of an external workload.
func (e *Executor) stepExternal(ctx context.Context, r *run, orders Orders, now time.Time) (steady bool) {
	e.externals[r.id] = r
	switch {
	case !r.reported.IsZero():
		return e.stepReported(r, now)
	case e.External == nil:
		if r.exit == nil {
			e.end(r, refused(fmt.Sprintf("this executor does not run %s", r.attempt.Task.Origin)))
		}
		e.report(ctx, r, orders)
	case r.exit != nil && r.gone:
		e.report(ctx, r, orders)
	case !r.wanted && !r.withdrawn && r.gone:
		e.discard(r)
		return true
	default:
		stays, certain := r.wanted && r.exit == nil, r.certain()
		e.background(r, func() func() {
			state := e.External.State(r.id) // this may take a while
			var err error
			switch {
			case state.Exit == nil && stays && !state.Up:
				if state.Gone && !e.mayBegin(r) || state.Waits != nil && !(e.mayBind(r, state.Waits) && e.externalVolumes(ctx, r, state.Waits)) {
					break
				}
				err = e.request(ctx, func(ctx context.Context) error { return e.External.Start(ctx, *r.attempt, r.nodes) })
			case !stays && !state.Gone:
				if !certain {
					err = e.Confirm(ctx)
				}
				if err == nil {
					err = e.request(ctx, func(ctx context.Context) error { return e.External.Stop(ctx, r.id) })
				}
			}
			return func() { e.noteExternal(ctx, r, state, err) }
		})
	}
	return false
}

// noteExternal records the progress of an external attempt.
func (e *Executor) noteExternal(ctx context.Context, r *run, state workload.External, err error) {
	r.after = e.Now().Add(externalEvery)
	if state.Up {
		r.after = r.after.Add(externalEvery) // most attempts are up for hours
	}
	r.gone = state.Gone
	if r.attempt == nil {
		r.probed, r.external = true, r.external || !state.Gone
		if !r.external { // it is not external, and has no pods left
			r.after = time.Time{}
			delete(e.externals, r.id)
			return
		}
	}
	switch {
	case err != nil:
		if ctx.Err() == nil {
			e.retry(r, "start or stop external workload", err)
		}
		if r.wanted && r.exit == nil {
			if exit := e.overdue(r, r.idleExternal(state), e.Now()); exit != nil {
				e.end(r, *exit)
			}
		}
	case r.exit != nil:
	case r.wanted && state.Exit != nil:
		e.end(r, *state.Exit)
	case r.wanted:
		r.up = state.Up
		r.succeeded()
		if exit := cmp.Or(e.neverCreated(r, state.Missing), e.overdue(r, r.idleExternal(state), e.Now())); exit != nil {
			e.end(r, *exit)
		}
	case r.withdrawn && state.Gone && state.Exit != nil:
		e.end(r, *state.Exit)
	case r.withdrawn && state.Gone:
		e.end(r, api.Exit{Noticed: true})
	}
}

// neverCreated ends an attempt whose pods were not created in time, for example because of
// a ResourceQuota or a missing controller. Its GPUs become free for other jobs.
func (e *Executor) neverCreated(r *run, missing int) *api.Exit {
	switch {
	case missing == 0:
		r.waiting = time.Time{}
	case r.waiting.IsZero():
		r.waiting = e.Now()
	case e.Now().Sub(r.waiting) >= e.PullFor:
		kind, name, _ := strings.Cut(r.attempt.Task.Origin, "/")
		exit := heldBack(fmt.Sprintf("%d of %d pods were not created within %v; see the events of %s %s", missing, len(r.nodes), e.PullFor, kind, name))
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
	r.plan = e.planOf(r, workload.Pod{Templates: make([]corev1.PodTemplateSpec, 1)})
	return e.hasRoom(r, e.Now())
}

// mayBind reports whether external pods accept the nodes that they were given. If not,
// the attempt ends, and the next one is placed elsewhere.
func (e *Executor) mayBind(r *run, pod *corev1.PodSpec) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	exit := cmp.Or(unsupported(pod, false), e.misplaced(r, pod), e.unusable(r, pod))
	if exit != nil {
		e.end(r, *exit)
	}
	return exit == nil
}

// withdrawnExternals returns the other external attempts that are withdrawn and whose
// pods may still exist.
func (e *Executor) withdrawnExternals(but *run) []*run {
	var out []*run
	for _, r := range e.externals {
		if r != but && !r.wanted && !r.gone && r.reported.IsZero() {
			out = append(out, r)
		}
	}
	return out
}

// overlap reports whether two attempts were given the same GPUs. An attempt that was
// never seen may hold any GPU.
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
