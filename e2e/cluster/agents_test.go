// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// report sends a report as an agent does, and returns the response's status.
func (r *running) report(t *testing.T, token, body string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.API+"/v1/agent/report", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// TestReportsNotForged: only the pods of a job can report for it, and only with their
// own token that was issued for Fairway. The API server issues no token for less than
// ten minutes; the tests of kube/access cover expired ones.
func TestReportsNotForged(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"victim", "attacker"}})
	p := w.operator(t, how{})
	victim := w.create(t, training{name: "net", namespace: "victim", gpus: 2})
	w.wait(t, victim, api.Running)
	pod := w.podsOf(t, victim, 1)[0]
	const body = `{"done": 7, "rate": 1}`
	right := w.token(t, "victim", "default", "fairway-agents", &pod)
	if got := p.report(t, right, body); got != http.StatusOK {
		t.Fatalf("a report of the pod itself: %d; want 200", got)
	}

	plain := stranger("victim", "plain", 1, time.Hour)
	posing := impostor(w.object(training{name: "net", namespace: "attacker"}), victim.Status.ID)
	for _, pod := range []*corev1.Pod{plain, posing} {
		if err := w.admin.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(500 * time.Millisecond)
	const lie = `{"done": 1000000, "rate": 99, "complete": true}`
	for _, x := range []struct {
		name, token string
	}{
		{"no token", ""},
		{"a made-up token", "a.b.c"},
		{"a token that was changed", right[:len(right)-6] + "AAAAAA"},
		{"a token for the API server", w.token(t, "victim", "default", "https://kubernetes.default.svc", &pod)},
		{"a token for users", w.token(t, "victim", "default", "fairway", &pod)},
		{"a token of no pod", w.token(t, "victim", "default", "fairway-agents", nil)},
		{"another pod of the namespace", w.token(t, "victim", "default", "fairway-agents", plain)},
		{"a pod of another tenant with the job's labels", w.token(t, "attacker", "default", "fairway-agents", posing)},
		{"the job's id as a secret", victim.Status.ID + ".1"},
		{"a token of 100 kB", strings.Repeat("x", 100_000)},
	} {
		if got := p.report(t, x.token, lie); got == http.StatusOK {
			t.Errorf("%s: the report was taken", x.name)
		} else if got != http.StatusUnauthorized && got != http.StatusForbidden && got != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: answered with %d; want 401 or 403", x.name, got)
		}
	}
	if got := p.report(t, right, `{"done": 1`+strings.Repeat("0", 2<<20)+`}`); got == http.StatusOK {
		t.Error("a report of 2 MB was taken")
	}
	w.checkGone(t, p, victim, &pod)
	reports := w.readJournal(t).jobs[victim.Status.ID].reports
	if len(reports) == 0 || slices.ContainsFunc(reports, func(done float64) bool { return done != 7 }) {
		t.Errorf("the journal knows the reports %v; want only that of the pod itself", reports)
	}
}

// checkGone checks that the token of a deleted pod is invalid.
func (w *world) checkGone(t *testing.T, p *running, job *v1alpha1.TrainingJob, pod *corev1.Pod) {
	t.Helper()
	old := w.token(t, "victim", "default", "fairway-agents", pod)
	if err := w.admin.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job runs again", func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil || job.Status.Attempt < 2 || job.Status.State != api.Running {
			return fmt.Errorf("it is %s in attempt %d, %w", job.Status.State, job.Status.Attempt, err)
		}
		return nil
	})
	if got := p.report(t, old, `{"done": 2000000}`); got == http.StatusOK {
		t.Error("the report of a pod that is gone was taken")
	}
}
