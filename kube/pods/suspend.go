// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/nodeagent"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// Hands are the agents of the nodes, which suspend pods.
type Hands interface {
	// Able reports whether pods of a node can be suspended; if not, why.
	Able(node string) (ok bool, why string)
	// Begun reports whether the gang with a first pod is suspended, or was being.
	Begun(node, pod string) bool
	// Set gives an order and returns how far it is; false: that is not known.
	Set(node string, o nodeagent.Order) (nodeagent.State, bool)
	// Again repeats an order that has failed; Drop takes it back.
	Again(node string, id api.AttemptID)
	Drop(node string, id api.AttemptID)
}

const (
	handsPatience = 2 * time.Minute  // how long an agent may be silent before an attempt is not suspended
	suspendAgain  = 10 * time.Minute // after a reason that may pass
	tellPause     = time.Second
	resumeTries   = 30
	resumePause   = 2 * time.Second
)

// suspension is the executor's progress with suspending an attempt.
type suspension struct {
	wanted  bool
	away    bool           // it is suspended, and that was recorded: its GPUs are free
	going   bool           // it was told to go on: its GPUs are its own again
	refused *api.Suspended // why it cannot be; told until it is heard
	silent  time.Time      // since when nothing is heard of its node's agent
	after   time.Time
	tries   int
}

// stepSuspended makes an attempt that runs suspended or not, as it should be, and reports
// whether there is nothing left to do.
func (e *Executor) stepSuspended(ctx context.Context, r *run, pods map[int]*corev1.Pod, orders Orders, now time.Time) (settled bool) {
	s := &r.suspension
	if now.Before(s.after) {
		return false
	}
	if !s.wanted {
		s.refused = nil
		return e.goOn(ctx, r, pods, orders, now)
	}
	s.going = false
	switch {
	case s.away:
		return true
	case s.refused == nil:
		if why := e.unsuspendable(r, pods); why != "" {
			s.refuse(r.id, why, time.Time{})
			break
		}
		e.takeOff(ctx, r, pods, orders, now)
		return false
	}
	if s.refused != nil {
		s.after = now.Add(tellPause)
		e.tellSuspended(ctx, r, orders, *s.refused, func() {})
	}
	return false
}

func (s *suspension) refuse(id api.AttemptID, why string, until time.Time) {
	s.refused = &api.Suspended{AttemptID: id, Suspension: sched.Suspension{Failed: why, Until: until}}
}

// unsuspendable returns why the pods of an attempt can never be suspended; empty: they can.
func (e *Executor) unsuspendable(r *run, pods map[int]*corev1.Pod) string {
	if e.Hands == nil {
		return "there are no agents on the nodes"
	}
	for rank, node := range r.nodes {
		p := pods[rank]
		n := e.nodes[node]
		if node != r.nodes[0] || p == nil || n == nil {
			return "it has pods on several nodes"
		}
		for _, c := range p.Spec.Containers {
			if c.LivenessProbe != nil {
				return fmt.Sprintf("container %s has a liveness probe, which a frozen one fails", c.Name)
			}
		}
		var devices int64
		for _, name := range e.Resources {
			devices += devicesOf(&p.Spec)[name]
		}
		if gpus := int64(parseSet(p.Annotations[v1alpha1.AnnotationGPUs]).Len()); devices != gpus {
			return fmt.Sprintf("pod %s holds %d devices for %d GPUs, so no other pod could have them meanwhile; it was started before its node could suspend pods", p.Name, devices, gpus)
		}
	}
	return ""
}

// order gives the agent of a gang's node an order.
func (e *Executor) order(r *run, pods map[int]*corev1.Pod, want nodeagent.Want, told bool) (nodeagent.State, bool) {
	o := nodeagent.Order{AttemptID: r.id, Want: want, Told: told}
	for rank := range r.nodes {
		o.Pods = append(o.Pods, string(pods[rank].UID))
	}
	return e.Hands.Set(r.nodes[0], o)
}

// takeOff suspends the pods of an attempt.
func (e *Executor) takeOff(ctx context.Context, r *run, pods map[int]*corev1.Pod, orders Orders, now time.Time) {
	s := &r.suspension
	is, known := e.order(r, pods, nodeagent.Suspended, false)
	switch {
	case !known:
		able, why := e.Hands.Able(r.nodes[0])
		switch {
		case able:
			s.silent = time.Time{}
		case s.silent.IsZero():
			s.silent = now
		case now.Sub(s.silent) > handsPatience:
			e.order(r, pods, nodeagent.Running, false)
			s.refuse(r.id, why, now.Add(suspendAgain))
		}
	case is.Failed != "" && is.Is == nodeagent.Running:
		e.order(r, pods, nodeagent.Running, false)
		until := time.Time{}
		if is.Short {
			until = now.Add(suspendAgain)
		}
		s.refuse(r.id, is.Failed, until)
	case is.Failed != "": // it could not be undone: it is neither here nor there
		s.after = now.Add(resumePause)
		e.Hands.Again(r.nodes[0], r.id)
	case is.Told:
		s.away, s.silent, r.upReported = true, time.Time{}, false
		e.freed = true
		e.poke()
	default:
		done := api.Suspended{AttemptID: r.id, Suspension: sched.Suspension{Memory: is.Memory, Out: is.Out}}
		e.tellSuspended(ctx, r, orders, done, func() {
			s.away, r.upReported = true, false
			e.order(r, pods, nodeagent.Suspended, true)
			e.freed = true
		})
	}
}

// goOn lets a suspended attempt go on when its GPUs are free.
func (e *Executor) goOn(ctx context.Context, r *run, pods map[int]*corev1.Pod, orders Orders, now time.Time) (settled bool) {
	s := &r.suspension
	if e.Hands == nil {
		return true
	}
	if !s.going {
		if !s.away && !e.Hands.Begun(r.nodes[0], string(pods[0].UID)) {
			return true // as far as is known: see Recheck
		}
		if r.blocked = e.gpusTaken(r); r.blocked {
			return false
		}
		s.away, s.going = false, true
	}
	is, known := e.order(r, pods, nodeagent.Running, false)
	switch {
	case !known:
	case is.Failed != "":
		if s.tries++; s.tries >= resumeTries {
			e.end(r, api.Exit{Lost: true, Why: "it was suspended and could not be put back on its GPUs: " + is.Failed})
			return false
		}
		s.after = now.Add(resumePause)
		e.Hands.Again(r.nodes[0], r.id)
	default:
		s.tries = 0
		e.tellSuspended(ctx, r, orders, api.Suspended{AttemptID: r.id, Suspension: sched.Suspension{Back: max(1, is.Back)}}, func() { s.going = false })
	}
	return false
}

// Recheck looks at all attempts again: an agent has come, and may say that pods are
// suspended that should run.
func (e *Executor) Recheck() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range e.runs {
		e.dirty[id] = true
	}
	e.poke()
}

// tellSuspended reports something about a suspension, and calls heard when it was.
func (e *Executor) tellSuspended(ctx context.Context, r *run, orders Orders, s api.Suspended, heard func()) {
	e.background(r, func() func() {
		err := orders.Suspended(ctx, s)
		return func() {
			if err == nil {
				heard()
				return
			}
			if ctx.Err() == nil {
				e.Log.Error("report suspension", "job", r.id.Job, "attempt", r.id.Number, "err", err)
			}
			r.suspension.after = e.Now().Add(tellPause)
		}
	})
}

// thaw lets pods run that are going to be stopped: what is frozen cannot save its work.
func (e *Executor) thaw(r *run, pods []*corev1.Pod) {
	if e.Hands == nil || len(pods) == 0 {
		return
	}
	node := pods[0].Spec.NodeName
	byRank := func(a, b *corev1.Pod) int { _, x, _ := attemptOf(a); _, y, _ := attemptOf(b); return x - y }
	pods = slices.SortedFunc(slices.Values(pods), byRank)
	if node == "" || !r.suspension.away && !e.Hands.Begun(node, string(pods[0].UID)) {
		return
	}
	o := nodeagent.Order{AttemptID: r.id, Want: nodeagent.Stopping}
	for _, p := range pods {
		o.Pods = append(o.Pods, string(p.UID))
	}
	e.Hands.Set(node, o)
}

// gpusTaken reports whether others hold GPUs of an attempt that is suspended.
func (e *Executor) gpusTaken(r *run) bool {
	for rank, s := range seatsOf(r.attempt) {
		for _, u := range e.uses[r.nodes[rank]] {
			if u.id != r.id && u.gpus&s.gpus != 0 && !e.isAway(u.id) {
				return true
			}
		}
	}
	return false
}

// isAway reports whether the pods of an attempt are suspended, so that others may have
// their GPUs.
func (e *Executor) isAway(id api.AttemptID) bool {
	r := e.runs[id]
	return r != nil && r.suspension.away
}
