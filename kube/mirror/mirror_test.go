// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// TestLife: a training job appears in the state, runs, is suspended, resumes, and is
// cancelled when its object is deleted.
func TestLife(t *testing.T) {
	w := open(t)
	ns := w.namespace("life")
	job := trainingJob(ns, "bert", 4)
	job.Spec.App = "pretrain"
	w.create(job)
	w.until("has GPUs", job, func() bool { return job.Status.State == api.Starting })
	if s := job.Status; s.Size != "4/4" || s.GPUs != 4 || s.Phase != "Starting" || s.Nodes != "node-0:0-3" || s.Tenant != ns || s.Attempt != 1 || s.ID == "" || s.StartTime == nil {
		t.Errorf("status %+v; want 4 of 4 GPUs of node-0 for tenant %s", s, ns)
	}
	if status, _, _ := condition(job.Status.Conditions, v1alpha1.Accepted); status != metav1.ConditionTrue {
		t.Errorf("Accepted is %q; want True", status)
	}
	if status, reason, _ := condition(job.Status.Conditions, v1alpha1.Running); status != metav1.ConditionFalse || reason != "Starting" {
		t.Errorf("Running is %q because of %q; want False, Starting", status, reason)
	}
	got := w.jobs(ns)
	if len(got) != 1 || got[0].Origin != "TrainingJob/life/bert" || got[0].App != "life/life.pretrain" || got[0].User != "namespace/life" || got[0].Image != "trainer:1" {
		t.Fatalf("the state has %+v", got)
	}
	attempt := w.state.Attempts()[0]
	w.state.Started(attempt.AttemptID)
	w.until("runs", job, func() bool { return job.Status.State == api.Running })
	if status, _, message := condition(job.Status.Conditions, v1alpha1.Running); status != metav1.ConditionTrue || message != "on node-0:0-3" {
		t.Errorf("Running is %q, %q; want True, on node-0:0-3", status, message)
	}

	w.patch(job, func() { job.Spec.Suspend = true })
	w.until("stops", job, func() bool { return job.Status.State == api.Stopping })
	if err := w.state.Exited(t.Context(), api.Exit{AttemptID: attempt.AttemptID, Yielded: true, Noticed: true}); err != nil {
		t.Fatal(err)
	}
	w.until("is paused", job, func() bool { return job.Status.State == api.Paused })
	if !strings.Contains(job.Status.Why, "paused by spec.suspend") {
		t.Errorf("why is %q; want who paused it", job.Status.Why)
	}
	w.patch(job, func() { job.Spec.Suspend = false })
	w.until("goes on", job, func() bool { return job.Status.Attempt == 2 })

	if err := w.client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.until("is cancelled", nil, func() bool { return w.jobs(ns)[0].State == api.Cancelled })
}

// TestEnds: the conditions say how a job ended, an event tells of what went wrong, and a
// job that asks for it is deleted.
func TestEnds(t *testing.T) {
	events := make(chan string, 100)
	w := open(t, func(c *Config) {
		c.Event = func(o runtime.Object, kind, reason, message string) {
			events <- kind + " " + o.(client.Object).GetName() + ": " + message
		}
	})
	ns := w.namespace("ends")
	good, bad, gone := trainingJob(ns, "good", 1), trainingJob(ns, "bad", 1), trainingJob(ns, "gone", 1)
	good.Spec.TTLSecondsAfterFinished, gone.Spec.TTLSecondsAfterFinished = ptr(int32(3600)), ptr(int32(0))
	for _, job := range []*v1alpha1.TrainingJob{good, bad, gone} {
		w.create(job)
	}
	w.until("all have GPUs", nil, func() bool { return len(w.state.Attempts()) == 3 })
	for _, a := range w.state.Attempts() {
		e := api.Exit{AttemptID: a.AttemptID}
		if a.Task.Name == "bad" {
			e.Code, e.Rank, e.Why = 3, 0, "ValueError: no data"
		}
		if err := w.state.Exited(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	w.until("good has ended", good, func() bool { return good.Status.State == api.Finished })
	if status, reason, _ := condition(good.Status.Conditions, v1alpha1.Finished); status != metav1.ConditionTrue || reason != "Completed" {
		t.Errorf("Finished is %q, %q; want True, Completed", status, reason)
	}
	if good.Status.CompletionTime == nil || good.Status.Size != "0/1" || good.Status.GPUs != 0 || good.Status.Phase != "Finished" {
		t.Errorf("status %+v; want a time of completion and no GPUs", good.Status)
	}
	w.until("bad has ended", bad, func() bool { return bad.Status.State == api.Failed })
	if _, _, message := condition(bad.Status.Conditions, v1alpha1.Failed); !strings.Contains(message, "exited with code 3: ValueError: no data") {
		t.Errorf("Failed says %q; want the exit", message)
	}
	w.until("gone is deleted", nil, func() bool {
		return apierrors.IsNotFound(w.client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone))
	})
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(good), good); err != nil {
		t.Errorf("good, which has an hour: %v", err)
	}
	w.stop()
	close(events)
	for text := range events {
		if !strings.HasPrefix(text, "Warning bad: rank 0 exited with code 3") {
			t.Errorf("event %q; want only that bad has failed", text)
		}
		bad = nil
	}
	if bad != nil {
		t.Error("no event tells that bad has failed")
	}
}

// TestPhaseOfBefore: jobs and apps that ended before there were phases get one.
func TestPhaseOfBefore(t *testing.T) {
	w := open(t)
	w.stop()
	ns := w.namespace("before")
	job, app := trainingJob(ns, "old", 1), searchApp(ns, "old")
	w.create(job)
	w.create(app)
	job.Status.State, app.Status.State = api.Finished, api.Failed
	for _, o := range []client.Object{job, app} {
		if err := w.client.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	w.until("has a phase", job, func() bool { return job.Status.Phase == "Finished" })
	w.until("has a phase", app, func() bool { return app.Status.Phase == "Failed" })
}

// TestRefused: a job that is refused says why, and one that can never run says so.
func TestRefused(t *testing.T) {
	w := open(t)
	ns := w.namespace("refused")
	long := trainingJob(ns, "long", 1)
	long.Spec.Template.Spec.Containers[0].Args = []string{strings.Repeat("x", 200<<10)}
	w.create(long)
	w.until("is refused", long, func() bool {
		status, _, _ := condition(long.Status.Conditions, v1alpha1.Accepted)
		return status == metav1.ConditionFalse
	})
	_, reason, message := condition(long.Status.Conditions, v1alpha1.Accepted)
	if reason != "Invalid" || !strings.Contains(message, "spec.template.spec.containers[0].command has 204807 bytes; use at most 131072") {
		t.Errorf("refused with %q, %q; want the field, the value and the bound", reason, message)
	}
	if long.Status.State != v1alpha1.Refused || long.Status.Phase != "Refused" || long.Status.Why != message {
		t.Errorf("state %q, why %q; want it refused with the same message", long.Status.State, long.Status.Why)
	}
	huge := trainingJob(ns, "huge", 64)
	w.create(huge)
	w.until("cannot run", huge, func() bool {
		_, reason, _ := condition(huge.Status.Conditions, v1alpha1.Running)
		return reason == "Impossible"
	})
	if want := "needs 64 GPUs in the cluster of an accepted type; this cluster has at most 8"; huge.Status.Why != want {
		t.Errorf("why is %q; want %q", huge.Status.Why, want)
	}
}

// TestTenants: quotas follow the objects, and no job uses another tenant's quota.
func TestTenants(t *testing.T) {
	w := open(t)
	red, blue, both, free := w.namespace("red-one"), w.namespace("blue-one"), w.namespace("both-one"), w.namespace("free-one")
	w.namespace("red")
	quota := int32(2)
	reds := tenantObject("red", &quota, red, both)
	w.create(reds)
	w.create(tenantObject("blue", nil, blue, both))
	accepted := func(job *v1alpha1.TrainingJob) func() bool {
		return func() bool {
			status, _, _ := condition(job.Status.Conditions, v1alpha1.Accepted)
			return status != ""
		}
	}
	for _, c := range []struct{ namespace, asked, want, reason, text string }{
		{red, "", "red", "Submitted", "accepted as job-x-"},
		{red, "red", "red", "Submitted", ""},
		{red, "blue", "", "NotYourTenant", `spec.tenant is "blue", and namespace red-one belongs to tenant red`},
		{both, "", "", "AmbiguousTenant", "namespace both-one belongs to tenant blue and red; name one of them in spec.tenant"},
		{both, "blue", "blue", "Submitted", ""},
		{free, "", free, "Submitted", ""},
		{free, "red", "", "NotYourTenant", "belongs to no tenant"},
		{"red", "", "", "NotYourTenant", "the Tenant of that name does not list it"},
		{"red", "red", "", "NotYourTenant", "belongs to no tenant"},
	} {
		gpus := int32(1)
		if c.namespace == red && c.asked == "" {
			gpus = 4 // more than its quota
		}
		job := trainingJob(c.namespace, "job-"+c.asked+"-x", gpus)
		job.Name = strings.ReplaceAll(job.Name, "--", "-")
		job.Spec.Tenant = c.asked
		w.create(job)
		w.until("is judged", job, accepted(job))
		_, reason, message := condition(job.Status.Conditions, v1alpha1.Accepted)
		if job.Status.Tenant != c.want || reason != c.reason || !strings.Contains(message, c.text) {
			t.Errorf("job of %s that asks for %q: tenant %q, %s: %s; want %q, %s: %s", c.namespace, c.asked, job.Status.Tenant, reason, message, c.want, c.reason, c.text)
		}
	}
	over := &v1alpha1.TrainingJob{}
	over.Namespace, over.Name = red, "job-x"
	w.until("is over quota", over, func() bool {
		_, reason, _ := condition(over.Status.Conditions, v1alpha1.Running)
		return reason == "OverQuota"
	})
	w.patch(reds, func() { more := int32(8); reds.Spec.Quota = &more })
	w.until("has GPUs when the quota is larger", over, func() bool { return over.Status.State == api.Starting })
	w.until("the tenant shows it", reds, func() bool { return reds.Status.GPUs >= 4 && reds.Status.Running >= 1 })

	// A namespace that is added later lets refused jobs be accepted.
	w.patch(reds, func() { reds.Spec.Namespaces = append(reds.Spec.Namespaces, "red") })
	late := &v1alpha1.TrainingJob{}
	late.Namespace, late.Name = "red", "job-x"
	w.until("is taken on", late, func() bool { return late.Status.Tenant == "red" })

	if err := w.client.Delete(t.Context(), reds); err != nil {
		t.Fatal(err)
	}
	w.until("has no quota any more", nil, func() bool {
		view, known, err := w.mirror.tenantView("red")
		return err == nil && known && view.Quota == 0
	})
}

// TestTenantStatus: the status of a tenant follows its jobs without waiting for a sweep.
func TestTenantStatus(t *testing.T) {
	w := open(t, func(c *Config) { c.Sweep = time.Hour })
	ns := w.namespace("counted")
	tenant := tenantObject("counted", nil, ns)
	w.create(tenant)
	w.until("is in force", tenant, func() bool {
		status, _, _ := condition(tenant.Status.Conditions, v1alpha1.Accepted)
		return status == metav1.ConditionTrue
	})
	job := trainingJob(ns, "one", 4)
	w.create(job)
	w.until("has a job", tenant, func() bool { return tenant.Status.Running == 1 && tenant.Status.GPUs == 4 })
	w.create(trainingJob(ns, "too-many", 16))
	w.until("has another that waits", tenant, func() bool { return tenant.Status.Waiting == 1 })
	if err := w.client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.until("has its GPUs back", tenant, func() bool { return tenant.Status.GPUs != 4 })
}

// TestTenantTree: a tenant may come before its parent, is told what is wrong until it is
// right, and counts against the parent's quota.
func TestTenantTree(t *testing.T) {
	w := open(t, func(c *Config) { c.Sweep = time.Hour })
	left, right := w.namespace("left"), w.namespace("right")
	two, four, eight := int32(2), int32(4), int32(8)
	vision, nlp, research := tenantObject("tree-vision", &four, left), tenantObject("tree-nlp", nil, right), tenantObject("tree-research", &two)
	vision.Spec.Parent, nlp.Spec.Parent = research.Name, research.Name
	accepted := func(tenant *v1alpha1.Tenant, want metav1.ConditionStatus, text string) func() bool {
		return func() bool {
			status, _, message := condition(tenant.Status.Conditions, v1alpha1.Accepted)
			return status == want && strings.Contains(message, text)
		}
	}
	w.create(vision)
	w.until("has no parent yet", vision, accepted(vision, metav1.ConditionFalse, `parent = "tree-research"; want a tenant that exists`))
	w.create(research)
	w.until("has a parent that is too small", vision, accepted(vision, metav1.ConditionFalse, "quota = 2, and the quotas of its children are 4 together"))
	w.patch(research, func() { research.Spec.Quota = &four })
	w.until("is in force", vision, accepted(vision, metav1.ConditionTrue, ""))
	w.create(nlp)
	if want := "tree-research/tree-vision may have 4 of tree-research's 4"; vision.Status.Standing != want {
		t.Errorf("it %q; want %q", vision.Status.Standing, want)
	}
	w.create(trainingJob(left, "first", 4))
	w.until("counts for the parent", research, func() bool { return research.Status.GPUs == 0 && research.Status.GPUsBelow == 4 })
	second := trainingJob(right, "second", 1)
	w.create(second)
	w.until("waits for the parent's quota", second, func() bool {
		_, reason, _ := condition(second.Status.Conditions, v1alpha1.Running)
		return reason == "OverQuota"
	})
	w.patch(research, func() { research.Spec.Quota = &eight })
	w.until("runs", second, func() bool { return second.Status.State == api.Starting })
	w.until("counts too", research, func() bool { return research.Status.GPUsBelow == 5 })

	memory := resource.MustParse("3Gi")
	w.patch(research, func() { research.Spec.MaxCPUs, research.Spec.MaxMemory = &four, &memory })
	asks := func(name, cpu, memory string) *v1alpha1.TrainingJob {
		job := trainingJob(right, name, 1)
		job.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
		w.create(job)
		return job
	}
	runs := asks("third", "2500m", "1Gi")
	w.until("runs with 3 CPUs", runs, func() bool { return runs.Status.State == api.Starting })
	for _, x := range []struct{ name, cpu, memory, why string }{
		{"cpus", "2", "1Gi", "tree-research holds 3 of the 4 CPUs it may, and this job needs 2"},
		{"memory", "1", "2560Mi", "tree-research holds 1 of the 3 GiB of memory it may, and this job needs 2.5"},
	} {
		job := asks(x.name, x.cpu, x.memory)
		w.until("waits for the parent's bound of "+x.name, job, func() bool {
			_, reason, _ := condition(job.Status.Conditions, v1alpha1.Running)
			return reason == "OverQuota"
		})
		if e, err := w.state.Explain(cluster, sched.JobID(job.Status.ID)); err != nil || !strings.HasSuffix(e.Job.Reason.Text, x.why) {
			t.Errorf("it waits because it %s, %v; want %q", e.Job.Reason.Text, err, x.why)
		}
	}
	w.patch(research, func() { research.Spec.MaxCPUs, research.Spec.MaxMemory = nil, nil })
	last := trainingJob(right, "cpus", 1)
	w.until("runs without the bound", last, func() bool { return last.Status.State == api.Starting })
}

// TestPolicy: the policy follows the object; an invalid one changes nothing.
func TestPolicy(t *testing.T) {
	w := open(t)
	inForce := func() string {
		p, err := w.state.Policy(cluster)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.SchedulingPolicySpec{Policy: "tiresias"}}
	w.create(p)
	w.until("is in force", p, func() bool { return p.Status.InForce == "tiresias" })
	if got := inForce(); got != "tiresias" {
		t.Errorf("the state has policy %q; want tiresias", got)
	}
	w.patch(p, func() { p.Spec.Policy = "nonsense" })
	w.until("is refused", p, func() bool {
		status, _, _ := condition(p.Status.Conditions, v1alpha1.Accepted)
		return status == metav1.ConditionFalse
	})
	if _, _, message := condition(p.Status.Conditions, v1alpha1.Accepted); !strings.HasPrefix(message, `spec.policy: unknown policy "nonsense"`) || p.Status.InForce != "tiresias" || inForce() != "tiresias" {
		t.Errorf("status %+v, in force %s; want a message about nonsense, and tiresias in force", p.Status, inForce())
	}
	// A change while no operator leads takes effect before the first decision.
	w.stop()
	w.patch(p, func() { p.Spec.Policy = "las" })
	blue := tenantObject("blue", new(int32(3)), "team")
	w.create(blue)
	w.start()
	<-w.mirror.Configured()
	if view, known, err := w.mirror.tenantView("blue"); inForce() != "las" || !known || err != nil || view.Quota != 3 {
		t.Errorf("the state has policy %s, and for blue %+v %v; want las, and a quota of 3", inForce(), view, err)
	}
	if err := w.client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.until("the standard is back", nil, func() bool { return inForce() == "fifo" })
}

// TestRestart: no job is submitted twice, jobs whose objects were deleted meanwhile are
// cancelled, and a new object of the same name is a new job.
func TestRestart(t *testing.T) {
	w := open(t)
	ns := w.namespace("restart")
	for _, name := range []string{"stays", "goes", "changes"} {
		job := trainingJob(ns, name, 1)
		w.create(job)
		w.until("is taken on", job, func() bool { return job.Status.ID != "" })
	}
	before := w.jobs(ns)
	w.stop()
	for _, name := range []string{"goes", "changes"} {
		if err := w.client.Delete(t.Context(), trainingJob(ns, name, 1)); err != nil {
			t.Fatal(err)
		}
	}
	again := trainingJob(ns, "changes", 2)
	w.create(again)
	// The status of an object may have been lost: only the state counts.
	stays := trainingJob(ns, "stays", 1)
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(stays), stays); err != nil {
		t.Fatal(err)
	}
	stays.Status = v1alpha1.TrainingJobStatus{}
	if err := w.client.Status().Update(t.Context(), stays); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.until("the new one is taken on", again, func() bool { return again.Status.ID != "" })
	w.until("the old one is back", stays, func() bool { return stays.Status.ID != "" })
	w.until("what is gone is cancelled", nil, func() bool {
		killed := 0
		for _, j := range w.jobs(ns) {
			if j.State == api.Cancelled {
				killed++
			}
		}
		return killed == 2
	})
	after := w.jobs(ns)
	if len(before) != 3 || len(after) != 4 {
		t.Errorf("%d jobs before and %d after; want 3 and 4", len(before), len(after))
	}
	for _, j := range after {
		wantKilled := j.Name == "goes" || j.Name == "changes" && j.GPUs == 1
		if (j.State == api.Cancelled) != wantKilled {
			t.Errorf("job %s with %d GPUs is %s", j.Name, j.GPUs, j.State)
		}
	}
}
