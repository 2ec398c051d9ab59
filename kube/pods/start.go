// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/workload"
)

// begin takes the next step to start an attempt: make the plan, create the pods, have their
// volumes bound, bind them.
func (e *Executor) begin(ctx context.Context, r *run, pods map[int]*corev1.Pod, now time.Time) {
	if exit := e.impossible(r); exit != nil {
		e.end(r, *exit)
		return
	}
	if r.plan == nil {
		e.background(r, func() func() { return e.prepare(ctx, r) })
		return
	}
	if exit := e.otherGPUs(r, r.plan.from.GPUResource); exit != nil {
		e.end(r, *exit)
		return
	}
	for i := range r.plan.from.Templates {
		spec := &r.plan.from.Templates[i].Spec
		if exit := cmp.Or(unsupported(spec, true), e.misplaced(r, spec), e.unusable(r, spec)); exit != nil {
			e.end(r, *exit)
			return
		}
	}
	if !e.hasRoom(r, now) {
		return
	}
	if len(pods) < len(r.nodes) {
		if now.Sub(r.created) < cacheLag {
			return
		}
		var missing []int
		for rank := range r.nodes {
			if pods[rank] == nil {
				missing = append(missing, rank)
			}
		}
		born := e.bornRank(r, missing)
		if born >= 0 {
			e.reserve(r, pods)
		}
		e.background(r, func() func() { return e.create(ctx, r, missing, born) })
		return
	}
	if e.bindVolumes(ctx, r, pods, now) {
		e.bindAll(ctx, r, pods, now)
	}
}

// cacheLag is how long the cache may take to show a write. Only after that is the write
// repeated.
const cacheLag = 5 * time.Second

// end records how an attempt ended. The next steps remove what is left of it.
func (e *Executor) end(r *run, exit api.Exit) {
	exit.AttemptID, exit.At = r.id, e.Now()
	r.exit = &exit
	e.dirty[r.id] = true
	e.poke()
}

// impossible ends an attempt that can never start; nil: it can.
func (e *Executor) impossible(r *run) *api.Exit {
	for _, name := range r.nodes {
		if e.nodes[name] == nil {
			return &api.Exit{Lost: true, Why: fmt.Sprintf("node %s is not part of the cluster", name)}
		}
	}
	if len(r.nodes) == 0 {
		return &api.Exit{Lost: true, Why: "its placement is empty"}
	}
	if _, err := r.attempt.Task.Positions(len(r.nodes)); err != nil {
		exit := refused(err.Error())
		return &exit
	}
	return nil
}

// prepare finds the template of the pods and makes the plan.
func (e *Executor) prepare(ctx context.Context, r *run) (after func()) {
	from, err := e.Templates.Template(ctx, *r.attempt)
	return func() {
		switch {
		case errors.Is(err, ErrGone) || apierrors.IsNotFound(err):
			e.end(r, api.Exit{Lost: true, Why: err.Error()})
		case err != nil:
			e.retry(r, "find pod template", err)
		default:
			r.plan = e.planOf(r, from)
			r.succeeded()
		}
	}
}

// planOf returns the plan of an attempt for the nodes as they are now.
func (e *Executor) planOf(r *run, from workload.Pod) *plan {
	if from.GPUResource != "" && !slices.Contains(e.Resources, from.GPUResource) {
		from.GPUResource = request.UsualGPU // not cpu, for example: the node has it, and would give it in place of GPUs
	}
	p := &plan{attempt: r.attempt, from: from, seats: seatsOf(r.attempt), nodes: r.nodes, service: meetingPoint}
	for _, pod := range e.gangs[r.id].ranks(r.namespace()) {
		// Version 0.1 made a service for each gang: one that it has begun meets there.
		p.service = cmp.Or(pod.Spec.Subdomain, p.service)
	}
	p.at, _ = r.attempt.Task.Positions(len(p.seats)) // otherwise it is impossible
	for i := range from.Templates {
		p.asks = append(p.asks, claimOf(&from.Templates[i].Spec))
	}
	for rank, s := range p.seats {
		o := e.offerOf(e.nodes[r.nodes[rank]], from.GPUResource)
		p.offers, p.devices = append(p.offers, o), append(p.devices, s.devices(o))
	}
	return p
}

func (e *Executor) retry(r *run, what string, err error) {
	r.tries++
	r.trouble = what + ": " + err.Error()
	r.after = e.Now().Add(min(10*time.Second, 100*time.Millisecond<<min(r.tries, 10)))
	e.Log.Warn("retrying attempt", "job", r.id.Job, "attempt", r.id.Number, "what", what, "err", err)
}

// succeeded ends the series of retries.
func (r *run) succeeded() { r.tries, r.trouble = 0, "" }

// isBlocked reports whether another attempt of the job, or an earlier holder of its
// GPUs, still exists.
func (e *Executor) isBlocked(r *run) bool {
	// The end of an earlier attempt must be known, and the orders be younger: if it
	// finished the job, there is nothing left to start.
	if e.ended[r.id.Job] {
		return true
	}
	for number := r.id.Number - 1; number > 0; number-- {
		if other := e.runs[api.AttemptID{Job: r.id.Job, Number: number}]; other != nil && (other.withdrawn || other.exit != nil) && other.reported.IsZero() {
			return true
		}
	}
	for number := range e.byJob[r.id.Job] {
		other := api.AttemptID{Job: r.id.Job, Number: number}
		if number != r.id.Number && e.gangs[other].live(r.namespace()) {
			return true
		}
	}
	for _, other := range e.withdrawnExternals(r) {
		if other.id.Job == r.id.Job || overlap(other.attempt, r.attempt) {
			return true
		}
	}
	for rank, s := range r.plan.seats {
		for g := s.gpus; g != 0; g &= g - 1 {
			if e.crowded(r, rank, g&-g) {
				return true
			}
		}
	}
	return false
}

// create creates the pods of some ranks and, before the first of them, the service
// at which they meet. The pod of the rank born, if it is not negative,
// comes last and has its node.
func (e *Executor) create(ctx context.Context, r *run, ranks []int, born int) (after func()) {
	p := r.plan
	others := slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return rank == born })
	var asked time.Time // for the pod that is born
	again := !r.created.IsZero()
	makePod := func(ctx context.Context, rank int) error {
		pod := e.pod(p, rank)
		if again { // the cache may be behind: to look costs the API server less than another try
			if err := e.isOurs(ctx, r.id, client.ObjectKeyFromObject(pod)); !apierrors.IsConflict(err) {
				return err
			}
		}
		if rank == born {
			pod.Spec.NodeName = p.nodes[rank]
			asked = e.Now()
		}
		err := e.Client.Create(ctx, pod)
		if apierrors.IsAlreadyExists(err) {
			return e.isOurs(ctx, r.id, client.ObjectKeyFromObject(pod))
		}
		return err
	}
	err := error(nil)
	if e.Rendezvous == ByDNS && len(p.seats) > 1 {
		err = e.request(ctx, func(ctx context.Context) error { return e.createService(ctx, p) })
	}
	if err == nil {
		err = e.parallel(ctx, later, len(others), func(ctx context.Context, i int) error { return makePod(ctx, others[i]) })
	}
	if err == nil && born >= 0 {
		err = e.through(ctx, first, func(ctx context.Context) error { return makePod(ctx, born) })
	}
	return func() {
		if !asked.IsZero() && !refusedForGood(err) {
			r.born, r.bornRank = asked, born
		}
		switch {
		case err == nil:
			r.succeeded()
			r.created = e.Now()
		case ctx.Err() != nil:
		case overQuota(err):
			e.end(r, heldBack("its pods cannot be created now: "+err.Error()))
		case apierrors.IsNotFound(err):
			e.end(r, api.Exit{Lost: true, Why: "its pods cannot be created: " + err.Error()})
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || errors.Is(err, errTaken):
			e.end(r, refused("its pods cannot be created: "+err.Error()))
		default:
			e.retry(r, "create pods", err)
		}
	}
}

// errTaken means that an object that is not Fairway's has the name.
var errTaken = errors.New("the name is taken")

// createService creates the service at which gangs meet, in a namespace that has none yet.
func (e *Executor) createService(ctx context.Context, p *plan) error {
	if p.service != meetingPoint {
		return nil // it exists: some of the pods do
	}
	s := serviceOf(p)
	at := client.ObjectKeyFromObject(s)
	err := e.Client.Get(ctx, at, s)
	if apierrors.IsNotFound(err) {
		s = serviceOf(p)
		if err = e.Client.Create(ctx, s); apierrors.IsAlreadyExists(err) { // by another gang
			err = e.Client.Get(ctx, at, s)
		}
	}
	if err != nil {
		return err
	}
	if s.Labels[discoveryv1.LabelManagedBy] != v1alpha1.GroupVersion.Group {
		return fmt.Errorf("service %s/%s is not Fairway's, and the pods of gangs meet at a Service of this name: %w; "+
			"rename the service, or set pods.rendezvous to ip", s.Namespace, s.Name, errTaken)
	}
	return nil
}

// leftover is the error for an object of an earlier job with the same name, which is
// about to be deleted.
func leftover(resource, name string) error {
	return apierrors.NewConflict(corev1.Resource(resource), name, errors.New("it belongs to an earlier job of this name and still exists"))
}

// isOurs checks whether an existing pod belongs to the attempt.
func (e *Executor) isOurs(ctx context.Context, id api.AttemptID, key client.ObjectKey) error {
	p := &corev1.Pod{}
	if err := e.Client.Get(ctx, key, p); err != nil {
		if apierrors.IsNotFound(err) {
			return apierrors.NewConflict(corev1.Resource("pods"), key.Name, errors.New("it existed a moment ago"))
		}
		return err
	}
	switch got, _, ours := attemptOf(e.known(p)); {
	case !ours:
		return fmt.Errorf("pod %s does not belong to this attempt: %w", key, errTaken)
	case got != id:
		return leftover("pods", key.Name)
	}
	return nil
}

// bindAll binds the pods that are not bound yet. If pods find each other by address,
// the first pod is bound before the others, and the first of each role before the others of it.
func (e *Executor) bindAll(ctx context.Context, r *run, pods map[int]*corev1.Pod, now time.Time) {
	var todo []int
	told := make([]map[string]string, len(r.nodes)) // by rank: annotations
	for rank := range r.nodes {
		if pods[rank].Spec.NodeName != "" || now.Sub(r.bound[pods[rank].UID]) < cacheLag {
			continue
		}
		if e.Rendezvous == ByIP && rank > 0 {
			first, _ := r.plan.role(rank)
			meet, master := pods[0].Status.PodIP, pods[first].Status.PodIP
			if meet == "" || master == "" && rank != first {
				continue
			}
			told[rank] = map[string]string{annotationMaster: master, annotationMeet: meet}
		}
		todo = append(todo, rank)
	}
	if len(todo) == 0 {
		return // their bindings are not in the cache yet
	}
	for _, rank := range todo {
		u := useOf(pods[rank])
		u.assumed = true
		e.hold(r.nodes[rank], pods[rank].UID, u)
	}
	e.background(r, func() func() {
		err := e.parallel(ctx, first, len(todo), func(ctx context.Context, i int) error {
			return e.bind(ctx, pods[todo[i]], r.nodes[todo[i]], told[todo[i]])
		})
		return func() {
			if err == nil {
				r.succeeded()
				for _, rank := range todo {
					r.bound[pods[rank].UID] = e.Now()
				}
				return
			}
			for _, rank := range todo {
				e.unassume(r, rank, pods[rank])
			}
			if ctx.Err() == nil {
				e.retry(r, "bind pods", err)
			}
		}
	})
}

// unassume reverts the assumption that a pod is bound, unless the cache has newer
// information.
func (e *Executor) unassume(r *run, rank int, p *corev1.Pod) {
	if u := e.uses[r.nodes[rank]][p.UID]; u.assumed {
		e.release(r.nodes[rank], p.UID)
	}
}

// bind binds a pod to a node. The API server copies the annotations of a binding to the pod,
// so these need no permission to change pods.
func (e *Executor) bind(ctx context.Context, p *corev1.Pod, node string, annotations map[string]string) error {
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	err := e.Client.SubResource("binding").Create(ctx, p.DeepCopy(), b)
	if err == nil || !apierrors.IsConflict(err) {
		return err
	}
	// It may be bound already: the response was lost, or an earlier leader bound it.
	now := &corev1.Pod{}
	if e.Client.Get(ctx, client.ObjectKeyFromObject(p), now) == nil && now.UID == p.UID && now.Spec.NodeName == node {
		return nil
	}
	return err
}

// overQuota reports whether a ResourceQuota rejected a pod. That may change when other
// pods end or the quota is raised.
func overQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// refused is the exit of an attempt that cannot start, now or later.
func refused(why string) api.Exit {
	return api.Exit{Code: 126, Host: []diagnose.Event{{Kind: api.HostRefused}}, Why: why}
}

// heldBack is the exit of an attempt that could not start now, but may later.
func heldBack(why string) api.Exit {
	return api.Exit{Lost: true, Host: []diagnose.Event{{Kind: api.HostHeldBack}}, Why: why}
}
