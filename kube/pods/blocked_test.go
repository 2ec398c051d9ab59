// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// none are orders that take in how attempts end, and want nothing.
type none struct{ exits }

func (none) Attempts() []api.Attempt    { return nil }
func (none) Withdrawn() []api.AttemptID { return nil }

// TestWaitsForTheEnd: an attempt does not start before the end of the previous one is
// known, which may have finished the job although none of its pods runs any more, and not
// on orders that are older than that.
func TestWaitsForTheEnd(t *testing.T) {
	e := New(Config{})
	orders := none{exits{exited: make(chan api.Exit, 1)}}
	before := e.runOf(api.AttemptID{Job: "j", Number: 1})
	next := e.runOf(api.AttemptID{Job: "j", Number: 3})
	next.attempt, next.plan = &api.Attempt{AttemptID: next.id}, &plan{}
	other := e.runOf(api.AttemptID{Job: "k", Number: 1})
	other.withdrawn = true
	for _, x := range []struct {
		name string
		do   func()
		want bool
	}{
		{"another job is withdrawn", func() {}, false},
		{"an earlier attempt is withdrawn", func() { before.withdrawn = true }, true},
		{"its end is not told yet", func() { before.withdrawn, before.exit = false, &api.Exit{} }, true},
		{"its end was told after the orders were read", func() { e.report(t.Context(), before, orders); e.work.Wait() }, true},
		{"the orders were read again", func() { e.reorder(orders) }, false},
		{"it is forgotten", func() { e.discard(before) }, false},
	} {
		x.do()
		if room := e.hasRoom(next, noon); next.blocked != x.want || room == x.want {
			t.Errorf("%s: blocked: %v, room: %v; want %v and %v", x.name, next.blocked, room, x.want, !x.want)
		}
	}
}

// TestKnown: a pod that only looks like one of Fairway's belongs to no gang, and holds
// what it requests and no more.
func TestKnown(t *testing.T) {
	genuine := false
	e := New(Config{OwnsPod: func(*corev1.Pod) bool { return genuine }})
	p := ending("0", 1, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Annotations = map[string]string{"fairway.dev/gpus": "0-7"}
	})
	e.setPod(p)
	if u := e.uses["n"][p.UID]; len(e.gangs) != 0 || u.id.Job != "" || u.gpus != 0 {
		t.Errorf("%d gangs, and it holds GPUs %v for %q; want none and nothing", len(e.gangs), u.gpus, u.id.Job)
	}
	genuine = true
	e.setPod(p)
	if u := e.uses["n"][p.UID]; len(e.gangs) != 1 || u.id.Job != "j" || u.gpus.Len() != 8 {
		t.Errorf("%d gangs, and it holds GPUs %v for %q; want one, all, and j", len(e.gangs), u.gpus, u.id.Job)
	}
}

// TestEndsAreToldTogether: ends are reported at fixed times, so that those between share a page
// of the journal.
func TestEndsAreToldTogether(t *testing.T) {
	e := New(Config{})
	orders := none{exits{exited: make(chan api.Exit, 2)}}
	for _, job := range []sched.JobID{"j", "k"} {
		r := e.runOf(api.AttemptID{Job: job, Number: 1})
		r.attempt, r.wanted, r.exit, r.probed = &api.Attempt{AttemptID: r.id}, true, &api.Exit{AttemptID: r.id}, true
	}
	for _, x := range []struct {
		which scope
		want  int
	}{{changedOnly, 0}, {changedOnly, 0}, {underWay, 2}} {
		e.step(t.Context(), orders, x.which)
		e.work.Wait()
		if got := len(orders.exited); got != x.want {
			t.Errorf("%d ends are told in scope %d; want %d", got, x.which, x.want)
		}
	}
}
