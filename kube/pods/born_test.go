// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/workload"
	"github.com/fairway-gpu/fairway/sched"
)

// three returns an executor and an attempt of three pods on nodes a, a and b.
func three(c Config) (*Executor, *run) {
	e := New(c)
	r := e.runOf(api.AttemptID{Job: "j", Number: 1})
	r.attempt = &api.Attempt{AttemptID: r.id, Placement: sched.Placement{{Node: 0, GPUs: 0b11, Milli: sched.WholeGPU}, {Node: 1, GPUs: 0b1, Milli: sched.WholeGPU}}}
	r.nodes = []string{"a", "a", "b"}
	r.plan = e.planOf(r, workload.Pod{Name: "j", GPUResource: "nvidia.com/gpu", Templates: []corev1.PodTemplateSpec{{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}}})
	return e, r
}

// TestBornLast: the first of the missing pods is created after all others and with its
// node, unless something comes before it is bound; and not at all if another cannot be
// created.
func TestBornLast(t *testing.T) {
	var mu sync.Mutex
	var made []string
	refuse := ""
	create := func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		p, ok := o.(*corev1.Pod)
		if !ok {
			return nil // the service
		}
		if p.Name == refuse {
			return apierrors.NewForbidden(corev1.Resource("pods"), p.Name, errors.New("no"))
		}
		mu.Lock()
		defer mu.Unlock()
		made = append(made, p.Name+"@"+p.Spec.NodeName)
		return nil
	}
	get := func(_ context.Context, _ client.WithWatch, k client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
		return apierrors.NewNotFound(corev1.Resource("services"), k.Name)
	}
	claim := corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}
	for name, x := range map[string]struct {
		rendezvous, refuse string
		missing            []int
		volumes            []corev1.Volume
		want               []string
		born               bool
	}{
		"a gang":                      {missing: []int{0, 2}, want: []string{"j-1-2@", "j-1-0@a"}, born: true},
		"a pod is gone":               {missing: []int{2}, want: []string{"j-1-2@b"}, born: true},
		"another is refused":          {missing: []int{0, 2}, refuse: "j-1-2"},
		"it is refused":               {missing: []int{0, 2}, refuse: "j-1-0", want: []string{"j-1-2@"}},
		"with a volume":               {missing: []int{0, 2}, volumes: []corev1.Volume{claim}, want: []string{"j-1-0@", "j-1-2@"}},
		"by address":                  {missing: []int{0, 2}, rendezvous: ByIP, want: []string{"j-1-2@", "j-1-0@a"}, born: true},
		"by address, not the first":   {missing: []int{2}, rendezvous: ByIP, want: []string{"j-1-2@"}},
		"with a folder of its node's": {missing: []int{1}, volumes: []corev1.Volume{{}}, want: []string{"j-1-1@a"}, born: true},
	} {
		made, refuse = nil, x.refuse
		e, r := three(Config{Client: interceptor.NewClient(nil, interceptor.Funcs{Create: create, Get: get}), Rendezvous: x.rendezvous, Parallel: 1})
		r.plan.from.Templates[0].Spec.Volumes = x.volumes
		e.create(t.Context(), r, x.missing, e.bornRank(r, x.missing))()
		if !x.born {
			slices.Sort(made) // they are created together
		}
		if diff := cmp.Diff(x.want, made); diff != "" || r.born.IsZero() == x.born {
			t.Errorf("%s: may appear: %v, want %v; pods (-want +got):\n%s", name, !r.born.IsZero(), x.born, diff)
		}
	}
}

// TestReserve: room for pods that are about to be is not given to another attempt, and
// each pod takes the place of its reservation.
func TestReserve(t *testing.T) {
	e, r := three(Config{})
	e.reserve(r, nil)
	held := func() (n int) {
		for _, u := range e.uses["a"] {
			n += u.gpus.Len()
		}
		return n
	}
	if len(e.uses["a"]) != 2 || held() != 2 || len(e.uses["b"]) != 1 {
		t.Errorf("held: %v; want two pods on a and one on b", e.uses)
	}
	p := e.pod(r.plan, 1)
	p.UID, p.Spec.NodeName = "uid", "a"
	e.setPod(p)
	if _, has := e.uses["a"]["uid"]; !has || len(e.uses["a"]) != 2 || held() != 2 {
		t.Errorf("held on a: %v; want the pod in place of its reservation", e.uses["a"])
	}
	e.dropPod(p)
	e.discard(r)
	if len(e.uses) != 0 {
		t.Errorf("held by an attempt that is over: %v", e.uses)
	}
}

// TestMayAppear: an attempt whose last pod may still be born does not end.
func TestMayAppear(t *testing.T) {
	asks := 0
	get := func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		asks++
		return apierrors.NewNotFound(corev1.Resource("pods"), "j-1-0")
	}
	bound := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "a"}}
	for name, x := range map[string]struct {
		do   func(e *Executor, r *run)
		want bool
		asks int
	}{
		"never asked for":                        {func(*Executor, *run) {}, false, 0},
		"just asked for":                         {func(_ *Executor, r *run) { r.born = noon.Add(-time.Second) }, true, 0},
		"asked for long ago":                     {func(_ *Executor, r *run) { r.born = noon.Add(-lateFor) }, true, 1},
		"it was there":                           {func(e *Executor, r *run) { r.born = noon; e.gangs[r.id] = &gang{gone: map[int]*corev1.Pod{0: bound}} }, false, 0},
		"the operator is new":                    {func(e *Executor, r *run) { r.plan, r.inherited, e.began = nil, true, noon.Add(-time.Second) }, true, 0},
		"the operator is new, but began with it": {func(e *Executor, r *run) { r.plan, e.began = nil, noon.Add(-time.Second) }, false, 0},
		"and has been for long":                  {func(e *Executor, r *run) { r.plan, r.inherited, e.began = nil, true, noon.Add(-lateFor) }, false, 0},
		"is new, and it is there": {func(e *Executor, r *run) {
			r.plan, r.inherited, e.began = nil, true, noon
			e.gangs[r.id] = &gang{pods: map[types.UID]*corev1.Pod{"x": bound}}
		}, false, 0},
	} {
		asks = 0
		e, r := three(Config{Client: interceptor.NewClient(nil, interceptor.Funcs{Get: get}), Now: func() time.Time { return noon }})
		x.do(e, r)
		e.mu.Lock()
		got := e.mayAppear(t.Context(), r, noon)
		e.mu.Unlock()
		e.work.Wait()
		if got != x.want || asks != x.asks {
			t.Errorf("%s: %v after %d requests; want %v after %d", name, got, asks, x.want, x.asks)
		}
		if x.asks > 0 && (!r.born.IsZero() || e.mayAppear(t.Context(), r, noon)) {
			t.Errorf("%s: it may appear, although the API server does not have it", name)
		}
	}
}

// TestPartAlone: a gang that lacks room waits for it, but not while a pod of it is bound.
func TestPartAlone(t *testing.T) {
	e, r := three(Config{})
	for _, name := range []string{"a", "b"} {
		e.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}}
	}
	if !e.hasRoom(r, noon) {
		t.Errorf("two empty nodes have no room: %+v", r.exit)
	}
	taken := e.pod(r.plan, 2)
	taken.UID, taken.Spec.SchedulerName, taken.Spec.NodeName = "other", "", "b"
	taken.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("2")
	e.setPod(taken)
	if e.hasRoom(r, noon) || r.exit != nil {
		t.Errorf("without room and without a pod: %+v; want that it waits", r.exit)
	}
	born := e.pod(r.plan, 0)
	born.UID, born.Spec.NodeName = "uid", "a"
	e.setPod(born)
	if e.hasRoom(r, noon) || r.exit == nil || !r.exit.Saw(api.HostHeldBack) {
		t.Errorf("without room and with a pod: %+v; want that it ends at once", r.exit)
	}
}

// exits are orders that note how attempts ended.
type exits struct {
	exited chan api.Exit
	Orders
}

func (o exits) Exited(_ context.Context, exit api.Exit) error {
	o.exited <- exit
	return nil
}

// TestDoneWhileGivenUp: an attempt that makes way, and whose pods succeed before they are asked
// to stop, has succeeded. It would run a second time otherwise.
func TestDoneWhileGivenUp(t *testing.T) {
	for name, x := range map[string]struct {
		edit func(last *corev1.Pod)
		lost bool
	}{
		"all succeeded":         {edit: func(*corev1.Pod) {}},
		"one was asked to stop": {edit: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, lost: true},
		"one was stopped":       {edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, lost: true},
	} {
		e, r := three(Config{})
		g := &gang{gone: map[int]*corev1.Pod{}}
		for rank := range r.nodes {
			g.gone[rank] = &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
		}
		x.edit(g.gone[2])
		e.gangs[r.id], r.logged, e.reporting = g, true, true
		r.exit = &api.Exit{AttemptID: r.id, Lost: true, Why: "this job makes way"}
		told := exits{make(chan api.Exit, 1), nil}
		e.stepEnding(t.Context(), r, told, time.Unix(2, 0))
		if exit := <-told.exited; exit.Lost != x.lost || exit.OK() == x.lost {
			t.Errorf("%s: it ended with %+v; want lost %t", name, exit, x.lost)
		}
		e.work.Wait()
	}
}

// TestMeetsWhereItBegan: a gang of which version 0.1 made a part meets at the service that this
// made; all others meet at the one of their namespace.
func TestMeetsWhereItBegan(t *testing.T) {
	e, r := three(Config{Rendezvous: ByDNS})
	from := r.plan.from
	for _, want := range []string{"fairway-gangs", "j"} {
		pod := e.pod(e.planOf(r, from), 2)
		if got := e.address(e.planOf(r, from), 2, 0, "").Value; pod.Spec.Subdomain != want || got != "j-1-0."+want+"..svc" {
			t.Errorf("its pods meet at %s, %s; want %s", pod.Spec.Subdomain, got, want)
		}
		e.set(ending("1", 0, func(p *corev1.Pod) { p.Namespace, p.Spec.Subdomain = "", "j" }))
	}
}
