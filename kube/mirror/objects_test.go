// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/kube/workload"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/tune/runner"
)

func searchApp(namespace, name string) *v1alpha1.App {
	return &v1alpha1.App{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.AppSpec{Search: &v1alpha1.Search{
			Parameters: map[string]v1alpha1.Parameter{"lr": {Values: []string{"0.1", "0.2"}}}, Method: "grid", AtOnce: 2,
			Trial: v1alpha1.TrainingJobSpec{GPUs: 1, Template: v1alpha1.PodTemplate{PodTemplateSpec: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "trainer:1", Command: []string{"train", "--lr={lr}"}, Env: []corev1.EnvVar{{Name: "NAME", Value: "lr-{lr}"}},
			}}}}}},
		}},
	}
}

// TestSearch: an app with a search gets trials, whose pods have their parameters;
// suspending or deleting the app stops them.
func TestSearch(t *testing.T) {
	w := open(t)
	ns := w.namespace("search")
	go func() {
		_ = runner.Run(t.Context(), runner.Config{Jobs: w.state, Ledger: w.state, Log: slog.New(slog.DiscardHandler), Every: 50 * time.Millisecond})
	}()
	app := searchApp(ns, "sweep")
	w.create(app)
	w.until("has trials", app, func() bool { return app.Status.Running == 2 && app.Status.State == api.Running })
	seen := map[string]bool{}
	w.until("both are ordered", nil, func() bool { return len(w.state.Attempts()) == 2 })
	for _, a := range w.state.Attempts() {
		pod, err := w.mirror.Template(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		c := pod.Templates[0].Spec.Containers[0]
		lr := a.Task.Env["FAIRWAY_PARAM_LR"]
		seen[lr] = true
		if c.Command[1] != "--lr="+lr || c.Env[0].Value != "lr-"+lr || c.Env[1] != (corev1.EnvVar{Name: "FAIRWAY_PARAM_LR", Value: lr}) {
			t.Errorf("trial with lr = %s has container %+v", lr, c)
		}
		if pod.Name != string(a.Job) || pod.Namespace != ns || pod.Owner.UID != app.UID || pod.GPUResource != "nvidia.com/gpu" {
			t.Errorf("trial %s has pods %+v", a.Job, pod)
		}
		// The cached object is not changed.
		if again, err := w.mirror.Template(t.Context(), a); err != nil || again.Templates[0].Spec.Containers[0].Command[1] != "--lr="+lr {
			t.Errorf("asked again: %+v, %v", again, err)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the trials have %v; want both values", seen)
	}
	attempt := w.state.Attempts()[0]
	w.patch(app, func() { app.Spec.Suspend = true })
	w.until("is paused", app, func() bool {
		return app.Status.State == api.Paused && app.Status.Phase == "Paused" && len(w.state.Attempts()) == 0
	})
	w.patch(app, func() { app.Spec.Suspend = false })
	w.until("goes on", app, func() bool { return app.Status.State == api.Running })
	if err := w.client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	w.until("all are cancelled", nil, func() bool {
		for _, j := range w.jobs(ns) {
			if j.State != api.Cancelled {
				return false
			}
		}
		return true
	})
	// A new app of the same name is a new search, and gives no template to trials of
	// the old one.
	again := searchApp(ns, "sweep")
	w.create(again)
	w.until("the new one has trials", again, func() bool { return again.Status.Running+again.Status.Waiting == 2 })
	if _, err := w.mirror.Template(t.Context(), attempt); !apierrors.IsNotFound(err) {
		t.Errorf("template of a trial of the old app: %v; want not found", err)
	}
	bad := searchApp(ns, "bad")
	bad.Spec.Search.Parameters = map[string]v1alpha1.Parameter{"lr": {Values: []string{"only"}}}
	w.create(bad)
	w.until("is refused", bad, func() bool {
		_, reason, message := condition(bad.Status.Conditions, v1alpha1.Accepted)
		return reason == "Invalid" && strings.Contains(message, "give 2 to 1000")
	})
}

// TestAppSuspends: the jobs of an app are suspended with it.
func TestAppSuspends(t *testing.T) {
	w := open(t)
	ns := w.namespace("group")
	app := &v1alpha1.App{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "team"}, Spec: v1alpha1.AppSpec{Suspend: true}}
	w.create(app)
	w.until("is seen", app, func() bool { return app.Status.State == api.Paused })
	job := trainingJob(ns, "member", 1)
	job.Spec.App = "team"
	w.create(job)
	w.until("waits", job, func() bool { return job.Status.State == api.Paused })
	if _, reason, _ := condition(job.Status.Conditions, v1alpha1.Accepted); reason != "Suspended" || len(w.jobs(ns)) != 0 {
		t.Errorf("Accepted because of %q with %d jobs in the state; want Suspended and none", reason, len(w.jobs(ns)))
	}
	w.patch(app, func() { app.Spec.Suspend = false })
	w.until("begins", job, func() bool { return job.Status.State == api.Starting })
	w.until("is counted", app, func() bool { return app.Status.Running == 1 && app.Status.ID == "group/group.team" })
}

// TestTemplate: the pods of a training job, and what happens when a new object has its
// name.
func TestTemplate(t *testing.T) {
	w := open(t)
	ns := w.namespace("template")
	job := trainingJob(ns, "bert", 1)
	job.Spec.Template.Labels = map[string]string{"team": "nlp"}
	w.create(job)
	w.until("is ordered", nil, func() bool { return len(w.state.Attempts()) == 1 })
	a := w.state.Attempts()[0]
	pod, err := w.mirror.Template(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Templates[0].Labels["team"] != "nlp" || pod.Name != "bert" || pod.Owner.Kind != "TrainingJob" || pod.Owner.UID != job.UID || !*pod.Owner.Controller {
		t.Errorf("pods %+v", pod)
	}
	if err := w.client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.until("its template is gone", nil, func() bool {
		_, err := w.mirror.Template(t.Context(), a)
		return apierrors.IsNotFound(err)
	})
}

// TestBatchJob: a batch Job with the label is accepted, started where the state says,
// stopped, and ends.
func TestBatchJob(t *testing.T) {
	w := open(t)
	ns := w.namespace("plain")
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "old-style", Labels: map[string]string{v1alpha1.LabelManaged: "true"}},
		Spec: batchv1.JobSpec{Suspend: ptr(true), Parallelism: ptr(int32(2)), Completions: ptr(int32(2)), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubetest.RunFor: "1h"}},
			Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "main", Image: "trainer", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
			}}},
		}},
	}
	w.create(job)
	w.until("says how it is", job, func() bool { return strings.HasPrefix(job.Annotations[v1alpha1.AnnotationWhy], "starting") })
	a := w.state.Attempts()[0]
	f := External{Mirror: w.mirror, Now: time.Now}
	nodes := []string{"node-0", "node-1"}
	w.until("is up", nil, func() bool {
		if err := f.Start(t.Context(), a, nodes); err != nil {
			t.Fatal(err)
		}
		return f.State(a.AttemptID).Up
	})
	var list corev1.PodList
	if err := w.client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for _, p := range list.Items {
		at[p.Spec.NodeName]++
		if id, number := p.Annotations[v1alpha1.LabelID], p.Annotations[v1alpha1.LabelAttempt]; id != string(a.Job) || number != "1" {
			t.Errorf("pod %s was told to be of attempt %q of job %q; want 1 of %s", p.Name, number, id, a.Job)
		}
	}
	if len(list.Items) != 2 || at["node-0"] != 1 || at["node-1"] != 1 {
		t.Errorf("pods are at %v; want one on each node", at)
	}
	if err := f.Stop(t.Context(), a.AttemptID); err != nil {
		t.Fatal(err)
	}
	w.until("is gone", nil, func() bool { s := f.State(a.AttemptID); return s.Gone && s.Exit == nil })
	if err := w.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	w.until("is cancelled", nil, func() bool { return w.jobs(ns)[0].State == api.Cancelled })
	w.until("a deleted Job has an end", nil, func() bool { s := f.State(a.AttemptID); return s.Gone && s.Exit != nil })
}

// TestBatchJobChanged: a Job that has grown since its submission is not started,
// because its pods would take GPUs that were not allocated to it.
func TestBatchJobChanged(t *testing.T) {
	w := open(t)
	ns := w.namespace("changed")
	for name, c := range map[string]struct {
		edit func(*batchv1.JobSpec)
		want string
	}{
		"larger": {func(s *batchv1.JobSpec) {
			s.Template.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("8")
			s.Template.Spec.Containers[0].Resources.Requests = nil
		}, "its pods request 8 GPUs each, but it was submitted with 2"},
		"more": {func(s *batchv1.JobSpec) { s.Parallelism = ptr(int32(6)) }, "it is a gang of 6 pods, but it was submitted with 2"},
	} {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{v1alpha1.LabelManaged: "true"}},
			Spec: batchv1.JobSpec{Suspend: ptr(true), Parallelism: ptr(int32(2)), Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName, RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
					Name: "main", Image: "trainer", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
				}}},
			}},
		}
		w.create(job)
		var a api.Attempt
		w.until("is placed", nil, func() bool {
			for _, a = range w.state.Attempts() {
				if a.Task.Origin == origin(kindJob, ns, name) {
					return true
				}
			}
			return false
		})
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			t.Fatal(err)
		}
		was := job.DeepCopy()
		c.edit(&job.Spec)
		if err := w.client.Patch(t.Context(), job, client.MergeFrom(was)); err != nil {
			t.Logf("%s: this API server does not let it change: %v", name, err)
			continue
		}
		w.until("is seen changed", nil, func() bool {
			var seen batchv1.Job
			return w.mirror.Cache.Get(t.Context(), client.ObjectKeyFromObject(job), &seen) == nil && seen.Generation == job.Generation
		})
		f := External{Mirror: w.mirror, Now: time.Now}
		var s workload.External
		w.until("has ended or runs", nil, func() bool { // as the executor does before each step
			if s = f.State(a.AttemptID); s.Exit != nil || s.Up {
				return true
			}
			if err := f.Start(t.Context(), a, []string{"node-0", "node-1"}); err != nil {
				t.Fatal(err)
			}
			return false
		})
		if s.Up || s.Exit == nil || s.Exit.Code == 0 || !strings.Contains(s.Exit.Why, c.want) {
			t.Errorf("%s: it is %+v, %+v; want it ended: %s", name, s, s.Exit, c.want)
		}
	}
}

// TestServices: the same job file as on one machine becomes a training job.
func TestServices(t *testing.T) {
	w := open(t)
	ns := w.namespace("served")
	w.create(tenantObject("blue", nil, ns))
	w.until("the tenant is known", nil, func() bool { _, known, _ := w.mirror.tenantView("blue"); return known })
	ann := api.Identity{User: "ann", Tenant: "blue", Role: api.User}
	s := Jobs{Jobs: w.state, Mirror: w.mirror, Image: "standard:1"}
	file := api.Submission{Spec: sched.Spec{GPUs: 2, CPUs: 3}, Task: api.Task{Name: "My Job!", Command: []string{"train", "$(date)"}, Env: map[string]string{"A": "1"}}, Key: "k-1"}
	first, err := s.Submit(t.Context(), ann, []api.Submission{file})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := s.Submit(t.Context(), ann, []api.Submission{file})
	if err != nil || twice[0].ID != first[0].ID {
		t.Errorf("sent twice: %+v, %v; want the same job", twice, err)
	}
	if j := first[0]; j.User != "ann" || j.Tenant != "blue" || !strings.HasPrefix(j.Origin, "TrainingJob/served/my-job-") || j.CPUs != 3 || j.Command[1] != "$(date)" {
		t.Errorf("job %+v", j)
	}
	object := &v1alpha1.TrainingJob{}
	object.Namespace, object.Name = ns, strings.TrimPrefix(first[0].Origin, "TrainingJob/served/")
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	if c := object.Spec.Template.Spec.Containers[0]; c.Image != "standard:1" || c.Command[1] != "$$(date)" || c.Env[0].Value != "1" {
		t.Errorf("container %+v", c)
	}
	for _, c := range []struct {
		who  api.Identity
		edit func(*api.Submission)
		want string
	}{
		{ann, func(s *api.Submission) { s.Tenant = "red" }, "may not submit for tenant"},
		{ann, func(s *api.Submission) { s.Origin = "App/other/x" }, "origin"},
		{ann, func(s *api.Submission) { s.GPUs = -1 }, "gpus"},
		{ann, func(s *api.Submission) { s.GPUs = 100_000 }, "should be less than or equal to 65536"},
		{api.Identity{User: "eve", Tenant: "blue", Role: api.Viewer}, func(*api.Submission) {}, "role viewer"},
		{api.Identity{User: "root", Role: api.Admin}, func(*api.Submission) {}, "root belongs to none"},
		{api.Identity{User: "bob", Tenant: "nowhere", Role: api.User}, func(*api.Submission) {}, "nowhere"},
	} {
		bad := file
		bad.Key = ""
		c.edit(&bad)
		if _, err := s.Submit(t.Context(), c.who, []api.Submission{bad}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
	w.patch(object, func() { object.Spec.Suspend = true })
	w.until("is paused", nil, func() bool { return w.jobs(ns)[0].PausedBy == suspendActor })
	if _, err := s.Command(t.Context(), ann, first[0].ID, api.Resume); err != nil {
		t.Fatal(err)
	}
	w.until("is resumed for good", object, func() bool { return !object.Spec.Suspend && w.jobs(ns)[0].PausedBy == "" })

	search := api.SearchSpec{ID: "hunt", Method: "grid", Parameters: map[string]api.Parameter{"lr": {Min: ptr(0.1), Max: ptr(0.2)}}, Trial: file, Key: "h-1"}
	search.Trial.Key = ""
	made, err := Searches{State: w.state, Jobs: s}.CreateSearch(t.Context(), ann, search)
	if err != nil || !strings.HasPrefix(string(made.ID), "blue/served.hunt-") || made.User != "ann" {
		t.Errorf("search %+v, %v", made, err)
	}
	boss := api.Identity{User: "root", Role: api.Admin}
	c := Cluster{Cluster: w.state, Mirror: w.mirror}
	if _, err := c.SetTenant(t.Context(), boss, sched.Tenant{ID: "blue", Quota: 3, Weight: 2.5}); err != nil {
		t.Error(err)
	}
	if _, err := c.SetPolicy(t.Context(), boss, "srtf", false); err != nil {
		t.Error(err)
	}
	blue, p := tenantObject("blue", nil), &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	w.until("the policy is in the object", p, func() bool { return p.Status.InForce == "srtf" })
	w.until("so is the quota", blue, func() bool {
		return *blue.Spec.Quota == 3 && blue.Spec.Weight == "2.5" && blue.Spec.Namespaces[0] == ns
	})
}

// TestManyWrites: a long queue does not cause a stream of writes.
func TestManyWrites(t *testing.T) {
	const jobs, calm = 500, 10 * time.Second
	w := open(t, func(c *Config) { c.Gap, c.TextGap, c.Sweep, c.Writes = time.Second, calm, 2*time.Second, 100 })
	ns := w.namespace("many")
	begin := time.Now()
	var group errGroup
	for i := range jobs {
		group.Go(func() error { return w.client.Create(t.Context(), trainingJob(ns, fmt.Sprintf("job-%d", i), 1)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	created := time.Since(begin)
	for i := range jobs {
		j := trainingJob(ns, fmt.Sprintf("job-%d", i), 1)
		w.until(j.Name+" has a status", j, func() bool { return j.Status.ID != "" })
	}
	took := time.Since(begin)
	first := w.writes.Load()
	time.Sleep(3 * time.Second)
	t.Logf("%d jobs created in %v, all with a status after %v, %d writes; %d more in the 3 s after", jobs, created.Round(time.Millisecond), took.Round(time.Millisecond), first, w.writes.Load()-first)
	// Jobs end, and the forecasts of all other jobs change.
	before, start := w.writes.Load(), time.Now()
	for range 6 {
		for _, a := range w.state.Attempts() {
			if err := w.state.Exited(t.Context(), api.Exit{AttemptID: a.AttemptID}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	churn, churned := w.writes.Load()-before, time.Since(start)
	t.Logf("%d writes in %v while 48 jobs ended one after the other", churn, churned.Round(time.Millisecond))
	if most := int64(churned.Seconds()*150) + 150; churn > most { // 100 urgent and 50 lazy a second, and a burst
		t.Errorf("%d writes in %v; want at most %d", churn, churned, most)
	}
	// A slow machine has time for writes that are not urgent, too.
	if most := int64(3+took/calm) * jobs; first > most {
		t.Errorf("%d writes for %d jobs in %v; want at most %d", first, jobs, took, most)
	}
	if most := int64(took.Seconds()+1)*150 + 200; first > most {
		t.Errorf("%d writes in %v; want at most %d", first, took, most)
	}
	if got := len(w.jobs(ns)); got != jobs {
		t.Errorf("the state has %d jobs; want %d", got, jobs)
	}
}
