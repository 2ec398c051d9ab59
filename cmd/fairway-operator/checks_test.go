// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
	"github.com/fairway-gpu/fairway/sim/replay"
)

// checkRequests: nothing that the operators asked for was refused, so their roles
// suffice.
func checkRequests(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(requestLog)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var r struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			Response  struct{ Code int } `json:"responseStatus"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			continue // it is being written
		}
		if r.User.Username != "system:serviceaccount:"+system+":fairway-operator" || r.ObjectRef.Resource == "" {
			continue
		}
		what := fmt.Sprintf("%s %s.%s/%s", r.Verb, r.ObjectRef.Resource, r.ObjectRef.APIGroup, r.ObjectRef.Subresource)
		used[what]++
		if r.Response.Code == http.StatusForbidden {
			t.Errorf("%s %s in namespace %q was refused", what, r.ObjectRef.Name, r.ObjectRef.Namespace)
		}
	}
	for _, what := range []string{"create journalpages.fairway.dev/", "create pods./binding", "create tokenreviews.authentication.k8s.io/", "patch pods./"} {
		if used[what] == 0 {
			t.Errorf("there was no request %q; want some, or this test sees nothing", what)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(used)) {
		t.Logf("%5d %s", used[what], what)
	}
}

// checkUsers: a job is seen by its tenant, and by nobody else.
func checkUsers(t *testing.T, r *running, id sched.JobID, by tokens) {
	t.Helper()
	if got, err := dial(t, r, by.mine).Job(t.Context(), id); err != nil || got.Tenant != "team" {
		t.Errorf("its own tenant sees %v, %v; want the job", got.Tenant, err)
	}
	if _, err := dial(t, r, by.theirs).Job(t.Context(), id); api.CodeOf(err) != api.Unknown {
		t.Errorf("another tenant: %v; want unknown", err)
	}
	if _, err := dial(t, r, by.theirs).Command(t.Context(), id, api.Cancel); api.CodeOf(err) != api.Unknown && api.CodeOf(err) != api.Denied {
		t.Errorf("another tenant cancels: %v; want it refused", err)
	}
	if _, err := dial(t, r, by.mine).SetPolicy(t.Context(), "fifo", false); api.CodeOf(err) != api.Denied {
		t.Errorf("a user changes the policy: %v; want denied", err)
	}
	boss := dial(t, r, by.admins)
	if _, err := boss.SetPolicy(t.Context(), "fifo", true); err != nil {
		t.Errorf("an admin asks what a policy would do: %v", err)
	}
	if _, err := boss.SetPolicy(t.Context(), "tiresias", false); err != nil {
		t.Errorf("an admin changes the policy: %v", err)
	}
	if v, err := boss.SetTenant(t.Context(), sched.Tenant{ID: "others", Weight: 2}); err != nil || v.Weight != 2 {
		t.Errorf("an admin changes a tenant: weight %v, %v; want 2", v.Weight, err)
	}
	if _, err := dial(t, r, "x.y.z").Job(t.Context(), id); err == nil {
		t.Error("a made-up token was taken")
	}
}

// checkAgent: the agent in a pod reports with the pod's own token.
func checkAgent(t *testing.T, admin ctrlclient.Client, r *running) {
	t.Helper()
	var pod corev1.Pod
	if err := admin.Get(t.Context(), ctrlclient.ObjectKey{Namespace: "team", Name: "net-1-0"}, &pod); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: pod.Spec.ServiceAccountName}}
	q := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:      []string{"fairway-agents"},
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if err := admin.SubResource("token").Create(t.Context(), account, q); err != nil {
		t.Fatal(err)
	}
	report := func(token string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.api+"/v1/agent/report", strings.NewReader(`{"done": 7}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := report(q.Status.Token); got != http.StatusOK {
		t.Errorf("a report was answered with %d; want 200", got)
	}
	if got := report(q.Status.Token + "x"); got != http.StatusUnauthorized {
		t.Errorf("a report with a wrong token was answered with %d; want 401", got)
	}
}

// checkMetrics: both replicas have metrics, and the leader those of the scheduler.
func checkMetrics(t *testing.T, leader, other *running) {
	t.Helper()
	for _, x := range []struct {
		url, want string
	}{
		{leader.metrics + "/metrics", "leader_election_master_status"},
		{other.metrics + "/metrics", "leader_election_master_status"},
		{leader.metrics + "/metrics/fairway", "fairway_decisions_total{result=\"ok\"}"},
	} {
		eventually(t, x.url, func() error {
			response, err := http.Get(x.url)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err == nil && !strings.Contains(string(text), x.want) {
				err = fmt.Errorf("%d bytes without %s", len(text), x.want)
			}
			return err
		})
	}
}

// checkSubmit: what the fairway command submits becomes a training job.
func checkSubmit(t *testing.T, admin ctrlclient.Client, r *running, by tokens) {
	t.Helper()
	s := api.Submission{Task: api.Task{Name: "small", Command: []string{"train"}, Image: "none"}, Spec: sched.Spec{GPUs: 1}}
	job, err := dial(t, r, by.mine).Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var list v1alpha1.TrainingJobList
	if err := admin.List(t.Context(), &list, ctrlclient.InNamespace("team")); err != nil {
		t.Fatal(err)
	}
	there := slices.ContainsFunc(list.Items, func(j v1alpha1.TrainingJob) bool { return strings.HasPrefix(j.Name, "small") })
	if job.Tenant != "team" || !there {
		t.Errorf("got job %s of %s, object there: %v; want it in the namespace team", job.ID, job.Tenant, there)
	}
	if _, err := dial(t, r, by.theirs).Submit(t.Context(), s); api.CodeOf(err) != api.Denied {
		t.Errorf("a viewer submits: %v; want denied", err)
	}
	if _, err := dial(t, r, by.mine).Command(t.Context(), job.ID, api.Cancel); err != nil {
		t.Errorf("cancel: %v", err)
	}
}

// checkExport: the journal can be read while the operator runs, begins with the first
// record, and its decisions come out the same when they are taken again.
func checkExport(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs([]string{"journal", "export", "--kubeconfig", c.Kubeconfig, "--namespace", system})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines < 5 || !strings.HasPrefix(out.String(), `{"seq":1,`) {
		t.Errorf("got %d lines that begin %.80q; want the whole journal", lines, out.String())
	}
	records, err := replay.Read(&out, 0)
	if err != nil {
		t.Fatal(err)
	}
	bounds, err := guard.New(guard.Default())
	if err != nil {
		t.Fatal(err)
	}
	v, err := replay.Verify(records, replay.VerifyOptions{Build: policy.Builtin().New, First: defaultConfig().Policy, Guard: bounds})
	if err != nil || v.Decisions == 0 || v.Different > 0 {
		t.Errorf("of %d decisions %d come out otherwise, %v; want some and none: %+v", v.Decisions, v.Different, err, v.Differences)
	}
}
