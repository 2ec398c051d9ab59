// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// world is the cluster of one test: without jobs, and with an empty journal.
type world struct {
	*kubetest.Cluster
	admin      client.WithWatch
	ledger     *ledger
	namespaces []string
	stopAudit  func()
}

// setting configures the world of a test.
type setting struct {
	namespaces []string
	grace      time.Duration // how long a gang may be half-placed; default 45 s
	shared     bool          // with pods of other schedulers
	posing     bool          // with pods that imitate those of a gang
}

var installed sync.Once

// begin prepares the world for a test, and checks at its end that no rule was ever
// broken.
func begin(t *testing.T, s setting) *world {
	t.Helper()
	c := shared.Cluster(t)
	admin, err := clientOf(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	installed.Do(func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := operator.Install(ctx, c); err != nil {
			t.Fatal(err)
		}
	})
	w := &world{Cluster: c, admin: admin, namespaces: s.namespaces}
	w.empty(t)
	for _, n := range s.namespaces {
		if err := c.Namespace(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	w.ledger = follow(t, admin, s.shared)
	if s.grace == 0 {
		s.grace = 45 * time.Second
	}
	w.stopAudit = func() {}
	if !s.shared { // with other pods on the nodes, only the ledger can tell who is to blame
		audit := kubetest.AuditOptions{Gang: v1alpha1.LabelID, Grace: s.grace}
		if s.posing {
			audit.Gang = "" // the audit recognises gangs by their label alone
		}
		w.stopAudit = c.Auditor(audit).Throughout(t, time.Second)
	}
	t.Cleanup(func() {
		w.stopAudit()
		w.ledger.report(t)
	})
	return w
}

// clientOf returns a client with Fairway's kinds.
func clientOf(r *rest.Config) (client.WithWatch, error) {
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(r, client.Options{Scheme: s})
}

// empty removes what the previous test has left: jobs, their pods, tenants, and the
// journal. No operator runs.
func (w *world) empty(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var all corev1.NamespaceList
	eventually(t, "list namespaces", func() error { return w.admin.List(ctx, &all) })
	now := client.GracePeriodSeconds(0)
	for i := range all.Items {
		n := all.Items[i].Name
		if n == operator.Namespace || n == "default" || strings.HasPrefix(n, "kube-") {
			continue
		}
		for _, o := range []client.Object{&v1alpha1.TrainingJob{}, &v1alpha1.App{}, &corev1.Pod{}} {
			eventually(t, "remove what is left", func() error { return w.admin.DeleteAllOf(ctx, o, client.InNamespace(n), now) })
		}
	}
	for _, o := range []client.Object{&v1alpha1.Tenant{}, &v1alpha1.SchedulingPolicy{}} {
		eventually(t, "remove what is left", func() error { return w.admin.DeleteAllOf(ctx, o) })
	}
	for _, o := range []client.Object{&v1alpha1.JournalPage{}, &coordinationv1.Lease{}} {
		eventually(t, "remove what is left", func() error { return w.admin.DeleteAllOf(ctx, o, client.InNamespace(operator.Namespace)) })
	}
	// A request that an operator sent before it was killed may take effect after the
	// removal.
	eventually(t, "no pod is left", func() error {
		var pods corev1.PodList
		err := w.admin.List(ctx, &pods)
		for i := range pods.Items {
			p := &pods.Items[i]
			left := fmt.Errorf("pod %s/%s is left, in phase %s on node %q", p.Namespace, p.Name, p.Status.Phase, p.Spec.NodeName)
			err = errors.Join(err, left, client.IgnoreNotFound(w.admin.Delete(ctx, p, now)))
		}
		return err
	})
}

// training describes a job of a test.
type training struct {
	name, namespace string
	gpus, perPod    int32 // defaults 1
	least, most     int32 // elastic if not 0
	runFor          time.Duration
	exitCode        int
	stopAfter       time.Duration
	retries         int32
	retry           string
	suspend         bool
	rollouts        int32 // if not 0: it has roles, a trainer of gpus and from one to so many rollouts, which have no end
}

func (w *world) object(j training) *v1alpha1.TrainingJob {
	if j.namespace == "" {
		j.namespace = w.namespaces[0]
	}
	notes := map[string]string{}
	if j.runFor > 0 {
		notes[kubetest.RunFor] = j.runFor.String()
	}
	if j.exitCode != 0 {
		notes[kubetest.ExitCode] = strconv.Itoa(j.exitCode)
	}
	if j.stopAfter > 0 {
		notes[kubetest.StopAfter] = j.stopAfter.String()
	}
	per := max(1, j.perPod)
	o := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: j.name},
		Spec: v1alpha1.TrainingJobSpec{
			GPUs: max(1, j.gpus), GPUsPerPod: &per, Retries: j.retries, Retry: j.retry, Suspend: j.suspend,
			Template: v1alpha1.PodTemplate{PodTemplateSpec: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: notes},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none", Command: []string{"train"}}}},
			}},
		},
	}
	if j.most > 0 {
		o.Spec.MinGPUs, o.Spec.MaxGPUs, o.Spec.Preemptible = &j.least, &j.most, new(true) // it has no agent
	}
	if j.rollouts > 0 {
		endless := *o.Spec.Template.DeepCopy()
		delete(endless.Annotations, kubetest.RunFor)
		delete(endless.Annotations, kubetest.ExitCode)
		o.Spec.Roles = []v1alpha1.JobRole{{Name: "trainer", GPUs: o.Spec.GPUs}, {Name: "rollout", GPUs: 1, MaxGPUs: &j.rollouts, Template: endless}}
		o.Spec.GPUs, o.Spec.Preemptible = 1, new(true)
	}
	return o
}

func (w *world) create(t *testing.T, j training) *v1alpha1.TrainingJob {
	t.Helper()
	o := w.object(j)
	if err := w.admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// wait waits until a job is in one of some states.
func (w *world) wait(t *testing.T, job *v1alpha1.TrainingJob, states ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("job %s is %v", job.Name, states), func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		for _, s := range states {
			if job.Status.State == s {
				return nil
			}
		}
		return fmt.Errorf("it is %q: %q", job.Status.State, job.Status.Why)
	})
}

func hasEnded(state string) bool {
	return state == api.Finished || state == api.Failed || state == api.Cancelled || state == v1alpha1.Refused
}

// left returns how many jobs of the test have not ended, and describes one of them.
func (w *world) left(ctx context.Context) (n int, example string, err error) {
	for _, namespace := range w.namespaces {
		var jobs v1alpha1.TrainingJobList
		if err := w.admin.List(ctx, &jobs, client.InNamespace(namespace)); err != nil {
			return 0, "", err
		}
		for i := range jobs.Items {
			if j := &jobs.Items[i]; !hasEnded(j.Status.State) {
				n++
				example = fmt.Sprintf("%s (%s) is %q: %q", j.Name, j.Status.ID, j.Status.State, j.Status.Why)
			}
		}
	}
	return n, example, nil
}

// waitAll waits until all jobs of the test have ended, for as long as some do.
func (w *world) waitAll(t *testing.T) {
	t.Helper()
	w.waitAllWhile(t, func() {})
}

// waitAllWhile does the same, and calls a function again and again.
func (w *world) waitAllWhile(t *testing.T, do func()) {
	t.Helper()
	least, since, told := -1, time.Now(), time.Now()
	eventuallyIn(t, time.Hour, "all jobs have ended", func() error {
		do()
		left, example, err := w.left(t.Context())
		if err != nil {
			return err
		}
		if least < 0 || left < least {
			least, since = left, time.Now()
		}
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			t.Logf("%d jobs have not ended; %s", left, example)
		}
		if left > 0 && time.Since(since) > 2*patience {
			t.Fatalf("%d jobs have not ended, and none has for %v; %s", left, 2*patience, example)
		}
		if left > 0 {
			return fmt.Errorf("%d have not; %s", left, example)
		}
		return nil
	})
}

// podsOf returns the pods of a job's attempt, all phases.
func (w *world) podsOf(t *testing.T, job *v1alpha1.TrainingJob, number int32) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	err := w.admin.List(t.Context(), &pods, client.InNamespace(job.Namespace),
		client.MatchingLabels{v1alpha1.LabelJob: job.Name, v1alpha1.LabelAttempt: strconv.Itoa(int(number))})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// end makes all pods of a running job succeed at the same moment. Jobs that a test
// needs for a while run until then, because no fixed run time is long enough for a
// machine that stalls.
func (w *world) end(t *testing.T, job *v1alpha1.TrainingJob) {
	t.Helper()
	w.wait(t, job, api.Running)
	var all sync.WaitGroup
	for _, p := range w.podsOf(t, job, job.Status.Attempt) {
		all.Go(func() {
			if err := w.EndPod(t.Context(), client.ObjectKeyFromObject(&p), 0); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// knowsOthers waits until the journal says that other pods hold so many GPUs of the
// nodes. Later decisions count them.
func (w *world) knowsOthers(t *testing.T, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the operator knows that others have %d GPUs", want), func() error {
		got := 0
		for _, n := range w.readJournal(t).others {
			got += n
		}
		if got != want {
			return fmt.Errorf("it knows of %d", got)
		}
		return nil
	})
}

// patience is how long a test waits for something that is quick on an idle machine.
const patience = 3 * time.Minute

// eventually waits until a check succeeds, even on a busy machine.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	eventuallyIn(t, patience, what, check)
}

func eventuallyIn(t *testing.T, within time.Duration, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after %v: %v", what, within, err)
}
