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
	"github.com/fairway-gpu/fairway/kube/volumes"
)

// The scheduler knows which nodes can use the volumes of a job (package constraint). The
// executor checks it again, because claims change, and has the claims bound that wait for a
// node. No pod of a gang is bound before all its claims are: a pod without its volume would
// hold GPUs, and the rest of the gang with it.

// asked is what the executor has asked for about a claim, for one attempt.
type asked struct {
	at     time.Time
	chosen bool // the claim had a node of the attempt
}

// waitsForClaim is a reason with the claim that it is about.
func waitsForClaim(claim, why string) string {
	return fmt.Sprintf("waits for volume claim %s: %s", volumes.Name(claim), why)
}

// unusable ends an attempt whose pods name a claim that they cannot use now, or not on the
// nodes that they were given; nil: they can.
func (e *Executor) unusable(r *run, pod *corev1.PodSpec) *api.Exit {
	if e.Volumes == nil {
		return nil
	}
	claims := volumes.Named(r.namespace(), pod)
	for _, claim := range claims {
		why := e.Volumes.Pending(claim)
		if why == "" && e.Volumes.Exclusive(claim) {
			why = e.inUse(r, claim)
		}
		if why != "" {
			exit := heldBack(waitsForClaim(claim, why))
			return &exit
		}
	}
	unmet := func(n *corev1.Node) (claim, why string) {
		for _, claim := range claims {
			chosen := e.Volumes.Chosen(claim)
			switch {
			case slices.Contains(r.nodes, chosen):
				continue // it is judged when it exists
			case chosen != "" && chosen != n.Name:
				return claim, "a volume is being made for node " + chosen
			}
			if why := e.Volumes.Unmet(claim, n); why != "" {
				return claim, why
			}
		}
		return "", ""
	}
	exit, others := e.unsuited(r, func(n *corev1.Node) bool { _, why := unmet(n); return why == "" })
	if exit == nil {
		return nil
	}
	claim, why := unmet(e.nodes[r.nodes[exit.Rank]])
	held := heldBack(fmt.Sprintf("%s; suitable nodes: %d", waitsForClaim(claim, why), others))
	held.Rank, held.Host = exit.Rank, append(held.Host, exit.Host...)
	return &held
}

// inUse says which other pod uses a claim that one pod at a time may use; empty: none does.
func (e *Executor) inUse(r *run, claim string) string {
	if n := len(r.nodes); n > 1 {
		return fmt.Sprintf("it is ReadWriteOncePod, and the job has %d pods", n)
	}
	for _, pods := range e.uses {
		for _, u := range pods {
			// Pods of an earlier attempt are about to go, and are waited for.
			if u.id.Job != r.id.Job && slices.Contains(u.volumes, claim) {
				return fmt.Sprintf("it is ReadWriteOncePod, and pod %s uses it", u.name)
			}
		}
	}
	return ""
}

// bindVolumes has the claims of a gang bound, and reports whether all are.
func (e *Executor) bindVolumes(ctx context.Context, r *run, pods map[int]*corev1.Pod, now time.Time) bool {
	steps, bound := e.volumeSteps(r, pods, now)
	if len(steps) > 0 {
		e.background(r, func() func() {
			err := e.takeSteps(ctx, steps)
			return func() { e.noteSteps(ctx, r, err) }
		})
	}
	return bound && len(steps) == 0
}

// volumeSteps returns what has to be done for the claims of a gang, and whether all are
// bound. It ends an attempt of which a node cannot use a claim.
func (e *Executor) volumeSteps(r *run, pods map[int]*corev1.Pod, now time.Time) (steps []*volumes.Step, bound bool) {
	if e.Volumes == nil {
		return nil, true
	}
	users := map[string][]*corev1.Node{}
	var claims []string
	for rank, node := range r.nodes {
		p := pods[rank]
		if p == nil || e.nodes[node] == nil {
			return nil, false
		}
		for _, claim := range slices.Concat(volumes.Named(p.Namespace, &p.Spec), volumes.Ephemeral(p)) {
			if users[claim] == nil {
				claims = append(claims, claim)
			}
			users[claim] = append(users[claim], e.nodes[node])
		}
	}
	taken := volumes.Taken{}
	bound = true
	for _, claim := range claims {
		p := e.Volumes.Next(claim, users[claim], taken)
		was := r.claims[claim]
		switch {
		case p.Unfit != "":
			e.end(r, *noRoom(p.Node, waitsForClaim(claim, p.Unfit)))
			return nil, false
		case p.Waits != "":
			r.trouble = waitsForClaim(claim, p.Waits)
			if e.Volumes.Chosen(claim) != "" {
				r.claim(claim, asked{was.at, true})
			}
		case p.Step != nil && was.chosen:
			// The provisioner took the node off: it cannot make a volume there.
			node := users[claim][0].Name
			e.end(r, *noRoom(node, waitsForClaim(claim, "its provisioner could make no volume for node "+node)))
			return nil, false
		case p.Step != nil && now.Sub(was.at) >= cacheLag:
			r.claim(claim, asked{at: now})
			steps = append(steps, p.Step)
		case p.Step == nil:
			continue
		}
		bound = false
	}
	return steps, bound
}

func (r *run) claim(claim string, a asked) {
	if r.claims == nil {
		r.claims = map[string]asked{}
	}
	r.claims[claim] = a
}

// takeSteps makes requests for claims.
func (e *Executor) takeSteps(ctx context.Context, steps []*volumes.Step) error {
	return e.parallel(ctx, later, len(steps), func(ctx context.Context, i int) error { return steps[i].Do(ctx, e.Client) })
}

// noteSteps records the outcome of such requests. After an error they are made again, from
// what the cluster shows then.
func (e *Executor) noteSteps(ctx context.Context, r *run, err error) {
	switch {
	case err == nil:
		r.succeeded()
	case ctx.Err() == nil:
		clear(r.claims)
		e.retry(r, "bind volume claims", err)
	}
}

// externalVolumes is bindVolumes for an external workload of which one pod is known, and
// which runs in the background.
func (e *Executor) externalVolumes(ctx context.Context, r *run, pod *corev1.PodSpec) (bound bool) {
	e.mu.Lock()
	// The claims that are made for single pods are left to the start deadline: which pod
	// goes to which node is decided when they are bound.
	like := &corev1.Pod{Spec: *pod}
	like.Namespace = r.namespace()
	like.Spec.Volumes = slices.DeleteFunc(slices.Clone(pod.Volumes), func(v corev1.Volume) bool { return v.Ephemeral != nil })
	pods := map[int]*corev1.Pod{}
	for rank := range r.nodes {
		pods[rank] = like
	}
	steps, bound := e.volumeSteps(r, pods, e.Now())
	e.mu.Unlock()
	if len(steps) == 0 {
		return bound
	}
	err := e.takeSteps(ctx, steps)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noteSteps(ctx, r, err)
	return false
}
