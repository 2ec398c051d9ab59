// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/request"
)

// tally is the combined state of a gang's pods. Those that have succeeded or saved are
// counted of the leading ones only.
type tally struct {
	succeeded, saved int
	failed, lost     *api.Exit // the first of each
	failedAt         time.Time
}

// verdict returns how an attempt that should run has ended, if it has.
func (e *Executor) verdict(r *run, g *gang, pods map[int]*corev1.Pod, now time.Time) *api.Exit {
	if !begun(g, pods) {
		return nil // missing pods have not been created yet
	}
	n := leading(r.attempt, len(r.nodes))
	t := r.count(g, pods, n)
	switch {
	case t.saved+t.succeeded == n && t.saved > 0:
		return &api.Exit{Yielded: true, Code: api.YieldCode}
	case t.succeeded == n:
		return &api.Exit{} // whatever became of other roles
	case t.failed != nil:
		return t.failed
	case t.lost != nil:
		return t.lost
	case t.saved > 0:
		// The pod was asked to stop; the others get their grace period.
		if r.yields.IsZero() {
			r.yields = now
		}
		if now.Sub(r.yields) > e.notice(r.attempt) {
			return &api.Exit{Yielded: true, Code: api.YieldCode}
		}
		return nil
	}
	if exit := e.cannotStart(r, pods, now); exit != nil {
		return exit
	}
	return e.crowdedOut(r, pods, now)
}

// leading returns how many of a gang's pods, which are its first, decide how the attempt
// ends: those of its first role. The others need not end well once these have.
func leading(a *api.Attempt, pods int) int {
	if a == nil || len(a.Task.Roles) == 0 {
		return pods
	}
	return a.Task.RoleSizes(pods)[0]
}

// begun reports whether a pod of the gang has been bound, which means that all were
// created.
func begun(g *gang, pods map[int]*corev1.Pod) bool {
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			return true
		}
	}
	if g != nil {
		for _, p := range g.gone {
			if p.Spec.NodeName != "" {
				return true
			}
		}
	}
	return false
}

// count sums up the pods of all ranks, of which the first n lead.
func (r *run) count(g *gang, pods map[int]*corev1.Pod, n int) tally {
	var t tally
	lose := func(rank int, format string, args ...any) {
		if t.lost == nil {
			t.lost = &api.Exit{Lost: true, Rank: rank, Why: fmt.Sprintf(format, args...)}
		}
	}
	for rank := range r.nodes {
		p, removed := pods[rank], false
		if p == nil {
			p, removed = g.gone[rank], true
		}
		switch {
		case p == nil:
			lose(rank, "the pod of rank %d is gone", rank)
		case rank >= n && p.DeletionTimestamp == nil && (p.Status.Phase == corev1.PodSucceeded || yielded(p)):
			// It has ended well, and the others go on without it.
		case p.Status.Phase == corev1.PodSucceeded && rank < n:
			t.succeeded++
		case p.Status.Phase == corev1.PodFailed && (rank < n || !yielded(p)):
			t.add(rank, p)
		case removed:
			lose(rank, "pod %s was removed", p.Name)
		case p.DeletionTimestamp != nil:
			lose(rank, "pod %s was deleted%s", p.Name, disruption(p))
		case p.Spec.NodeName != "" && p.Spec.NodeName != r.nodes[rank]:
			lose(rank, "pod %s is on node %s instead of %s", p.Name, p.Spec.NodeName, r.nodes[rank])
		}
	}
	return t
}

// yielded reports whether a pod ended after it had saved its work.
func yielded(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodFailed {
		return false
	}
	exit, _ := failureOf(p)
	return exit.Yielded
}

// add counts a pod that failed.
func (t *tally) add(rank int, p *corev1.Pod) {
	exit, at := failureOf(p)
	exit.Rank = rank
	switch {
	case exit.Yielded:
		t.saved++
	case exit.Lost:
		if t.lost == nil || len(t.lost.Host) < len(exit.Host) {
			t.lost = &exit
		}
	case t.failed == nil || at.Before(t.failedAt):
		t.failed, t.failedAt = &exit, at
	}
}

// cannotStart ends an attempt if a container of the gang has not started for too
// long.
func (e *Executor) cannotStart(r *run, pods map[int]*corev1.Pod, now time.Time) *api.Exit {
	for rank := range r.nodes {
		p := pods[rank]
		if p == nil || p.Status.Phase != corev1.PodPending {
			continue
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			w := c.State.Waiting
			if w == nil || !badWait[w.Reason] {
				continue
			}
			if r.waiting.IsZero() {
				r.waiting = now
			}
			if !hopeless[w.Reason] && now.Sub(r.waiting) < e.PullFor {
				return nil
			}
			why := fmt.Sprintf("container %s of pod %s cannot start: %s", c.Name, p.Name, w.Reason)
			if w.Message != "" {
				why += ": " + lastLine(w.Message)
			}
			return &api.Exit{Code: 126, Rank: rank, Why: why}
		}
	}
	r.waiting = time.Time{}
	return nil
}

// badWait are the reasons for a waiting container that rarely go away; hopeless are
// those that never do.
var (
	badWait = map[string]bool{
		"ImagePullBackOff": true, "ErrImagePull": true, "ErrImageNeverPull": true, "InvalidImageName": true, "ImageInspectError": true,
		"RegistryUnavailable": true, "CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true,
	}
	hopeless = map[string]bool{"InvalidImageName": true, "ErrImageNeverPull": true}
)

// settled is how long a pod must have run to take precedence over pods that come to its
// node later. Before that, both may have been placed without knowing of each other.
const settled = 30 * time.Second

// crowdedOut ends an attempt in favour of pods that another scheduler placed on one of
// its nodes at the same time.
func (e *Executor) crowdedOut(r *run, pods map[int]*corev1.Pod, now time.Time) *api.Exit {
	if r.plan == nil && r.up {
		return nil // it started before this operator did
	}
	for rank := range r.nodes {
		p := pods[rank]
		if p == nil || p.Spec.NodeName == "" || p.Status.StartTime != nil && now.Sub(p.Status.StartTime.Time) > settled {
			continue
		}
		n := e.nodes[p.Spec.NodeName]
		if n == nil {
			continue
		}
		for name := range claimOf(&p.Spec).amounts {
			if !strings.Contains(string(name), "/") {
				continue // the scheduler leaves room for others of these
			}
			strangers, mine := int64(0), int64(0)
			for _, u := range e.uses[n.Name] {
				if u.id.Job == "" {
					strangers += u.amounts[name]
				} else {
					mine += u.amounts[name]
				}
			}
			q := n.Status.Allocatable[name]
			if strangers > 0 && strangers+mine > q.Value() {
				exit := heldBack(fmt.Sprintf(
					"node %s has %d %s, but its pods request %d: another scheduler placed pods at the same time, and this job makes way", n.Name, q.Value(), name, strangers+mine))
				if r.up {
					exit.Host = nil // it has run, and has lost that
				}
				exit.Rank = rank
				return &exit
			}
		}
	}
	return nil
}

// endedWell reports whether all leading pods of an attempt that was given up came to a good end before
// anybody asked them to stop: then the job is done, and must not run again.
func (r *run) endedWell(g *gang) bool {
	if g == nil || len(r.nodes) == 0 {
		return false
	}
	pods := g.ranks(r.namespace())
	for rank := range leading(r.attempt, len(r.nodes)) {
		p := pods[rank]
		if p == nil {
			p = g.gone[rank]
		}
		if p == nil || p.Status.Phase != corev1.PodSucceeded || p.DeletionTimestamp != nil {
			return false
		}
	}
	return true
}

// size returns the number of leading pods of an attempt: as ordered or, if that is unknown,
// as its pods say; 0: unknown.
func (r *run) size(pods map[int]*corev1.Pod) int {
	n := leading(r.attempt, len(r.nodes))
	for _, p := range pods {
		if told, err := strconv.Atoi(p.Annotations[annotationPods]); n == 0 && err == nil {
			n = told
		}
	}
	return n
}

// leftBy returns how an attempt that should no longer run has ended.
func leftBy(r *run, g *gang) api.Exit {
	exit := api.Exit{AttemptID: r.id, Noticed: true}
	if g == nil || len(g.pods)+len(g.gone) == 0 {
		exit.Why = "withdrawn before it started"
		return exit
	}
	all := g.ranks(r.namespace())
	for rank, p := range g.gone {
		if all[rank] == nil {
			all[rank] = p
		}
	}
	n := r.size(all)
	maps.DeleteFunc(all, func(rank int, _ *corev1.Pod) bool { return n > 0 && rank >= n })
	// A pod of which nothing is known may have been stopped at any moment.
	noticed, saved, succeeded := len(all) < n, 0, 0
	for _, p := range all {
		noticed = noticed || !request.Ended(p) || p.DeletionTimestamp != nil && !endedBefore(p)
		switch p.Status.Phase {
		case corev1.PodSucceeded:
			succeeded++
		case corev1.PodFailed:
			if f, _ := failureOf(p); f.Yielded {
				saved++
			} else if exit.Code == 0 && exit.Signal == "" {
				exit.Code, exit.Signal, exit.Why = f.Code, f.Signal, f.Why
			}
		}
	}
	exit.Noticed = noticed
	if saved > 0 && saved+succeeded == len(all) {
		exit.Yielded, exit.Code = true, api.YieldCode
	}
	return exit
}

// endedBefore reports whether all containers of a pod that is being deleted had ended before
// anybody asked for that. Kubernetes tells both to the second, so it takes a whole one to
// be sure.
func endedBefore(p *corev1.Pod) bool {
	asked := p.DeletionTimestamp.Time
	if s := p.DeletionGracePeriodSeconds; s != nil {
		asked = asked.Add(-time.Duration(*s) * time.Second)
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t == nil || t.FinishedAt.IsZero() || !t.FinishedAt.Add(time.Second).Before(asked) {
			return false
		}
	}
	return len(p.Status.ContainerStatuses) > 0
}

// disruption returns who deleted a pod, if known.
func disruption(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return ": " + strings.TrimSpace(c.Reason+" "+c.Message)
		}
	}
	return " by somebody else"
}
