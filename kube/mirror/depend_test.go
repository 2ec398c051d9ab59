// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// seeing is a cache that has seen every object.
type seeing struct{ emptyCache }

func (c seeing) Get(ctx context.Context, at client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.Reader.Get(ctx, at, o, opts...)
}

// TestDependsOn: a job waits for others, whether they are of the same request or earlier,
// its object has their names, and it ends when they can no longer finish.
func TestDependsOn(t *testing.T) {
	s, store := behind(t, 100)
	after := func(name string, depends ...string) api.Submission {
		f := file(name, "")
		f.DependsOn = depends
		return f
	}
	jobs, err := s.Submit(t.Context(), ann, []api.Submission{file("prepare", ""), after("train", "prepare")})
	if err != nil {
		t.Fatal(err)
	}
	more, err := s.Submit(t.Context(), ann, []api.Submission{after("test", string(jobs[1].ID), string(jobs[0].ID)+":any")})
	if err != nil {
		t.Fatal(err)
	}
	jobs = append(jobs, more...)
	object := func(j api.Job) string { return strings.TrimPrefix(j.Origin, "TrainingJob/red/") }
	for i, want := range []string{"", object(jobs[0]), object(jobs[1]) + " " + object(jobs[0]) + ":any"} {
		var o v1alpha1.TrainingJob
		if err := s.Mirror.Client.Get(t.Context(), client.ObjectKey{Namespace: "red", Name: object(jobs[i])}, &o); err != nil || strings.Join(o.Spec.DependsOn, " ") != want {
			t.Errorf("the object of %s depends on %q, %v; want %q", jobs[i].ID, o.Spec.DependsOn, err, want)
		}
		now, err := store.Job(cluster, jobs[i].ID)
		if waits := now.Reason != nil && now.Reason.Code == api.WaitsForJobs; err != nil || waits != (want != "") {
			t.Errorf("%s waits for others: %v (%+v), %v; want %v", now.ID, waits, now.Reason, err, want != "")
		}
		// The mirror sees the object later, and changes nothing.
		if err := s.Mirror.reconcile(t.Context(), key{kindTrainingJob, "red", object(jobs[i])}); err != nil {
			t.Errorf("%s: %v", now.ID, err)
		}
		if id := s.Mirror.index.last(jobs[i].Origin); id != now.ID {
			t.Errorf("the job of %s is %q; want %s", jobs[i].Origin, id, now.ID)
		}
	}
	if _, err := store.Command(t.Context(), cluster, jobs[0].ID, api.Cancel); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if now, err := store.Job(cluster, j.ID); err != nil || now.State != api.Cancelled {
			t.Errorf("%s is %s, %v; want it cancelled with what it waits for", j.ID, now.State, err)
		}
	}
	for text, want := range map[string]string{"nobody": `depends_on: no job "nobody"`, string(jobs[0].ID): "cannot finish any more"} {
		if _, err := s.Submit(t.Context(), ann, []api.Submission{after("late", text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("after %s: %v; want %q", text, err, want)
		}
	}
	if _, err := s.Submit(t.Context(), api.Identity{User: "bob", Tenant: "blue", Role: api.User}, []api.Submission{after("spy", string(jobs[0].ID))}); err == nil || !strings.Contains(err.Error(), "no job") {
		t.Errorf("a job of another tenant: %v; want that there is none", err)
	}
}

// TestDependsOnObjects: an object may name one that comes later, or one that ended so long
// ago that only its status is left.
func TestDependsOnObjects(t *testing.T) {
	s, _ := behind(t, 100)
	m := s.Mirror
	m.Cache = seeing{emptyCache{Reader: m.Client}}
	resolve := func(text string) (string, error) {
		f := file("train", "")
		f.DependsOn = []string{text}
		err := m.depend(t.Context(), "red", &f, nil)
		return strings.Join(f.DependsOn, " "), err
	}
	_, err := resolve("prepare")
	why, final := refusalOf(err)
	if !errors.Is(err, errRequeue) || why == nil || final || !strings.Contains(why.message, "training job prepare does not exist in namespace red; it is waited for") {
		t.Errorf("%v; want it waited for", err)
	}
	for _, c := range []struct{ state, depends, want string }{
		{"", "prepare", "is not accepted yet; it is waited for"},
		{api.Finished, "prepare", ""},
		{api.Failed, "prepare:any", ""},
		{api.Failed, "prepare", "prepare cannot finish any more: it is failed"},
		{api.Failed, "train", "names the job itself"},
	} {
		o := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "prepare"}, Status: v1alpha1.TrainingJobStatus{State: c.state}}
		if err := m.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		got, err := resolve(c.depends)
		switch {
		case c.want == "" && (err != nil || got != ""):
			t.Errorf("%s, which is %q: it depends on %q, %v; want on nothing", c.depends, c.state, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s, which is %q: %v; want %q", c.depends, c.state, err, c.want)
		}
		if err := m.Client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDependsOnApplied: of two objects on a real API server, the one that depends on the
// other comes first. It says what it waits for, queues when the other has finished, and
// keeps that over a restart of the operator.
func TestDependsOnApplied(t *testing.T) {
	w := open(t)
	ns := w.namespace("depend")
	late, early := trainingJob(ns, "late", 1), trainingJob(ns, "early", 1)
	late.Spec.DependsOn = []string{"early"}
	w.create(late)
	w.until("late says what it waits for", late, func() bool {
		status, reason, message := condition(late.Status.Conditions, v1alpha1.Accepted)
		return status == metav1.ConditionUnknown && reason == reasonDepends && strings.Contains(message, "training job early does not exist")
	})
	w.create(early)
	w.until("late is accepted, and waits", late, func() bool {
		return late.Status.State == api.Waiting && strings.Contains(late.Status.Why, "has to finish first")
	})
	w.stop()
	w.start()
	var id sched.JobID
	w.until("early is started", early, func() bool {
		for _, j := range w.jobs(ns) {
			if j.Name == "early" && j.Status.Phase == sched.Running {
				id = j.ID
			}
		}
		return id != ""
	})
	if err := w.state.Exited(t.Context(), api.Exit{AttemptID: api.AttemptID{Job: id, Number: 1}}); err != nil {
		t.Fatal(err)
	}
	w.until("late is started", late, func() bool { return late.Status.State == api.Starting || late.Status.State == api.Running })
}
