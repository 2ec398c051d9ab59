// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/request"
)

// askAgain is how long the cache may take to show a deletion.
const askAgain = 5 * time.Second

// remove deletes the pods of an attempt that have not ended, with their own grace
// period or another. Pods on lost nodes count as gone.
func (e *Executor) remove(ctx context.Context, r *run, grace *int64) {
	now := e.Now()
	namespace := r.namespace()
	var todo []*corev1.Pod
	force := map[*corev1.Pod]bool{}
	for _, p := range e.gangs[r.id].pods {
		if request.Ended(p) || namespace != "" && p.Namespace != namespace {
			continue
		}
		silent := e.silent(p, now)
		if p.DeletionTimestamp != nil && !silent || now.Sub(r.deleted[p.UID]) < askAgain {
			continue
		}
		r.deleted[p.UID] = now
		force[p] = silent
		todo = append(todo, p)
	}
	if len(todo) == 0 {
		return
	}
	e.thaw(r, todo)
	certain := r.certain()
	e.background(r, func() func() {
		if !certain {
			if err := e.Confirm(ctx); err != nil {
				return func() { e.notRemoved(ctx, r, err) }
			}
		}
		err := e.parallel(ctx, first, len(todo), func(ctx context.Context, i int) error {
			with := grace
			if force[todo[i]] {
				with = new(int64)
				e.Log.Warn("giving up on a pod that cannot be stopped", "pod", todo[i].Name, "namespace", todo[i].Namespace, "node", todo[i].Spec.NodeName)
			}
			return e.deletePod(ctx, todo[i], with, !force[todo[i]])
		})
		return func() { e.notRemoved(ctx, r, err) }
	})
}

// certain reports whether the journal says that the attempt must not run: this operator has
// seen that it was ordered, and that it was withdrawn. No later leader orders it again.
// Everything else that ends an attempt this operator has concluded from what it knows, and
// before it acts upon that it confirms that it still leads.
func (r *run) certain() bool { return r.attempt != nil && r.withdrawn }

// notRemoved has the removal of an attempt's pods tried again after an error.
func (e *Executor) notRemoved(ctx context.Context, r *run, err error) {
	if err != nil && ctx.Err() == nil {
		clear(r.deleted)
		e.retry(r, "delete pods", err)
	}
}

// deletePod deletes a pod, and no other pod of its name. An exact deletion fails if the
// pod has changed: a pod that has ended in the meantime must stay, because it holds the
// result.
func (e *Executor) deletePod(ctx context.Context, p *corev1.Pod, grace *int64, exact bool) error {
	o := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}
	if exact {
		o.Preconditions.ResourceVersion = &p.ResourceVersion
	}
	if grace != nil && (p.Spec.TerminationGracePeriodSeconds == nil || *grace < *p.Spec.TerminationGracePeriodSeconds) {
		o.GracePeriodSeconds = grace
	}
	err := e.Client.Delete(ctx, p.DeepCopy(), o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) && !exact {
		return nil // it is gone, or another pod has its name
	}
	return err
}

// silent reports whether a pod will never report again: its node is gone or has been
// silent for too long, or it has been stopping for too long.
func (e *Executor) silent(p *corev1.Pod, now time.Time) bool {
	if p.DeletionTimestamp != nil && now.Sub(p.DeletionTimestamp.Time) > e.StuckFor {
		return true
	}
	if p.Spec.NodeName == "" {
		return false
	}
	n := e.nodes[p.Spec.NodeName]
	if n == nil {
		return true
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return now.Sub(c.LastTransitionTime.Time) > e.LostAfter
		}
	}
	return false
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// tidy deletes the pods of an ended attempt when they have been kept for long enough.
// They hold its result: it must be in the journal, and not be about to be written by another leader.
func (e *Executor) tidy(ctx context.Context, id api.AttemptID, now time.Time) {
	var old []*corev1.Pod
	for _, p := range e.gangs[id].pods {
		if now.Sub(endOf(p)) >= e.KeepPods && p.DeletionTimestamp == nil {
			old = append(old, p)
		}
	}
	e.forget(id)
	if len(old) == 0 {
		return
	}
	e.work.Go(func() {
		err := e.Confirm(ctx)
		if err == nil {
			err = e.parallel(ctx, later, len(old), func(ctx context.Context, i int) error { return e.deletePod(ctx, old[i], nil, false) })
		}
		if err != nil && ctx.Err() == nil {
			e.Log.Warn("delete ended pods", "job", id.Job, "attempt", id.Number, "err", err)
		}
	})
}

// endOf returns when a pod ended.
func endOf(p *corev1.Pod) time.Time {
	at := p.CreationTimestamp.Time
	for _, c := range p.Status.ContainerStatuses {
		if s := c.State.Terminated; s != nil && s.FinishedAt.After(at) {
			at = s.FinishedAt.Time
		}
	}
	return at
}

// blameNode attributes the failure of a rank to the loss of another rank's node: the
// other ranks lose their connection long before the node counts as lost.
func (e *Executor) blameNode(r *run) {
	x, g := r.exit, e.gangs[r.id]
	if x.OK() || x.Yielded || x.Noticed || x.Lost || g == nil {
		return
	}
	for _, rank := range slices.Sorted(maps.Keys(g.gone)) {
		p := g.gone[rank]
		if request.Ended(p) || p.Spec.NodeName == "" {
			continue
		}
		if n := e.nodes[p.Spec.NodeName]; n != nil && ready(n) {
			continue
		}
		why := fmt.Sprintf("node %s with rank %d was lost", p.Spec.NodeName, rank)
		x.Lost, x.Host = true, append(x.Host, diagnose.Event{Kind: hostLost, Node: p.Spec.NodeName, Text: why})
		x.Why = strings.TrimSuffix(fmt.Sprintf("%s, and rank %d failed: %s", why, x.Rank, x.Why), ": ")
		return
	}
}
