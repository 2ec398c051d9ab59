// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/workload"
)

// Some pods never start, for reasons that no list can hold: a volume that nobody
// provides, a node that hangs, a binding that the API server refuses. Such a gang would
// hold its GPUs for ever, so it has a deadline. Until a pod runs a container, it runs
// nothing of the job's, and stopping it loses nothing. Once it does, even if that is an
// init container that fetches data for hours, its time is the job's own.

// overdue ends an attempt of which a pod has run nothing for too long, with what that
// pod waits for; empty: every pod runs. The time in which the attempt waits for others
// to leave does not count.
func (e *Executor) overdue(r *run, idle string, now time.Time) *api.Exit {
	switch {
	case idle == "" || r.blocked:
		r.stalled = time.Time{}
	case r.stalled.IsZero():
		r.stalled = now
	case now.Sub(r.stalled) >= e.StartFor:
		exit := heldBack(fmt.Sprintf("not all its pods started within %v: %s", e.StartFor, idle))
		return &exit
	}
	return nil
}

// idle describes the first pod that has run nothing so far; empty: there is none.
func (r *run) idle(pods map[int]*corev1.Pod) string {
	if r.up {
		return ""
	}
	for rank := range r.nodes {
		p := pods[rank]
		switch {
		case p == nil:
			return r.because(fmt.Sprintf("the pod of rank %d does not exist", rank))
		case p.Spec.NodeName == "":
			return r.because(fmt.Sprintf("pod %s is not bound to node %s", p.Name, r.nodes[rank]))
		case request.Idle(p):
			return fmt.Sprintf("pod %s on node %s has started no container%s", p.Name, p.Spec.NodeName, waitsFor(p))
		}
	}
	return ""
}

// because adds the last failed request to a text.
func (r *run) because(text string) string {
	if r.trouble == "" {
		return text
	}
	return text + ": " + lastLine(r.trouble)
}

// waitsFor says what the kubelet says about a pod that does not start.
func waitsFor(p *corev1.Pod) string {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			return ": " + strings.TrimSuffix(w.Reason+": "+lastLine(w.Message), ": ")
		}
	}
	if p.Status.Message != "" {
		return ": " + lastLine(p.Status.Message)
	}
	return "; see its events"
}

// idleExternal is idle for an external workload. What becomes of one that was up is its
// controller's business.
func (r *run) idleExternal(s workload.External) string {
	if s.Idle+s.Missing == 0 || s.Up || r.upReported {
		return ""
	}
	kind, name, _ := strings.Cut(r.attempt.Task.Origin, "/")
	return r.because(fmt.Sprintf("see the events of the pods of %s %s", kind, name))
}
