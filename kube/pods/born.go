// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
)

// The last pod of a gang to be created is born on its node: it needs no binding, and a job
// of one pod takes one request to start. When it is created, all others exist, so a gang
// of which a pod is bound is still whole.
//
// Such a request may arrive late: after its answer was lost, or from an operator that no
// longer leads. Without a node, a pod that comes too late holds nothing; with one, it would
// take GPUs that others may have by then. So an attempt does not end while such a pod may
// still appear.

// lateFor is how long after a request a pod may appear: the API server gives up on it after
// RequestWithin, and the rest is for etcd.
const lateFor = RequestWithin + 10*time.Second

// bornRank returns the rank whose pod is created last and with its node; -1: all pods are
// bound later, because the volumes of some, or the address of the first, come before.
func (e *Executor) bornRank(r *run, missing []int) int {
	if e.Rendezvous == ByIP && missing[0] != 0 {
		return -1
	}
	for i := range r.plan.from.Templates {
		for _, v := range r.plan.from.Templates[i].Spec.Volumes {
			if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
				return -1
			}
		}
	}
	return missing[0]
}

// reserve holds what the pods of an attempt will take of their nodes: there is room for
// them now, and no other attempt gets it before they are bound.
func (e *Executor) reserve(r *run, pods map[int]*corev1.Pod) {
	for rank, node := range r.nodes {
		s := r.plan.seats[rank]
		e.hold(node, reservation(r.id, rank), use{
			id: r.id, rank: rank, claim: e.claimAt(r, pods, rank), gpus: s.gpus, milli: s.milli, assumed: true,
			name: podName(r.plan.from.Name, r.id.Number, rank),
		})
	}
}

// unreserve gives back what no pod has taken.
func (e *Executor) unreserve(r *run) {
	for rank, node := range r.nodes {
		e.release(node, reservation(r.id, rank))
	}
}

// reservation stands for the UID of a pod that has none yet.
func reservation(id api.AttemptID, rank int) types.UID {
	return types.UID(fmt.Sprintf("%s/%d/%d", id.Job, id.Number, rank))
}

// refusedForGood reports whether the API server has refused a request, so that what was
// asked for will not appear.
func refusedForGood(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) ||
		apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || errors.Is(err, errTaken)
}

// mayAppear reports whether a pod of an attempt, none of which is left, may still be born.
func (e *Executor) mayAppear(ctx context.Context, r *run, now time.Time) bool {
	g := e.gangs[r.id]
	if begun(g, g.ranks(r.namespace())) {
		r.born = time.Time{} // it was the first that was bound
	}
	switch {
	case r.born.IsZero():
		// An operator that led before may have asked for one.
		return r.inherited && r.plan == nil && now.Sub(e.began) < lateFor && !begun(g, g.ranks(r.namespace()))
	case now.Sub(r.born) < lateFor:
		return true
	}
	key := client.ObjectKey{Namespace: r.namespace(), Name: podName(r.plan.from.Name, r.id.Number, r.bornRank)}
	e.background(r, func() func() {
		err := e.request(ctx, func(ctx context.Context) error { return e.Client.Get(ctx, key, &corev1.Pod{}) })
		return func() {
			switch {
			case apierrors.IsNotFound(err):
				r.born = time.Time{}
			case err == nil:
				r.after = e.Now().Add(time.Second) // the cache will show it
			case ctx.Err() == nil:
				e.retry(r, "look for a late pod", err)
			}
		}
	})
	return true
}
