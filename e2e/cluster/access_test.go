// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	fairway "github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// user creates a service account with the role of users in its namespace, and returns a
// client with its token.
func (w *world) user(t *testing.T, namespace, name string) client.Client {
	t.Helper()
	config, err := w.ServiceAccount(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fairway-user"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}
	if err := w.admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	as, err := clientOf(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role counts", func() error {
		return as.List(t.Context(), &v1alpha1.TrainingJobList{}, client.InNamespace(namespace))
	})
	return as
}

// token requests a token of a service account, bound to a pod if one is given.
func (w *world) token(t *testing.T, namespace, name, audience string, pod *corev1.Pod) string {
	t.Helper()
	q := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if pod != nil {
		q.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := w.admin.SubResource("token").Create(t.Context(), account, q); err != nil {
		t.Fatal(err)
	}
	return q.Status.Token
}

// dial returns a client of Fairway's own API.
func (r *running) dial(t *testing.T, token string) *fairway.Client {
	t.Helper()
	c, err := fairway.New(fairway.Options{Address: r.API, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestTenantsApart: users can neither read nor change objects of another tenant,
// through the API server or Fairway's own API, and only an administrator can change
// cluster-wide settings.
func TestTenantsApart(t *testing.T) {
	w := begin(t, setting{namespaces: []string{"mine", "theirs"}})
	p := w.operator(t, how{})
	me := w.user(t, "mine", "trainer")
	theirs := w.create(t, training{name: "secret", namespace: "theirs", gpus: 2})
	own := w.object(training{name: "own", namespace: "mine"})
	if err := me.Create(t.Context(), own); err != nil {
		t.Fatalf("create a job of my own: %v", err)
	}
	w.wait(t, theirs, api.Running)
	w.wait(t, own, api.Running)
	t.Run("API server", func(t *testing.T) { w.checkObjects(t, me, theirs, own) })
	t.Run("Fairway", func(t *testing.T) {
		w.checkAPI(t, p.dial(t, w.token(t, "mine", "trainer", "fairway", nil)), theirs, own)
	})
	w.wait(t, theirs, api.Running)
	if theirs.Status.Attempt != 1 {
		t.Errorf("their job was started %d times; want 1", theirs.Status.Attempt)
	}
	w.account(t)
}

// checkObjects tries what must not be possible through the API server.
func (w *world) checkObjects(t *testing.T, me client.Client, theirs, own *v1alpha1.TrainingJob) {
	ctx := t.Context()
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"finished"}}`))
	suspend := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	for name, do := range map[string]func() error{
		"read their job":        func() error { return me.Get(ctx, client.ObjectKeyFromObject(theirs), &v1alpha1.TrainingJob{}) },
		"list their jobs":       func() error { return me.List(ctx, &v1alpha1.TrainingJobList{}, client.InNamespace("theirs")) },
		"list all jobs":         func() error { return me.List(ctx, &v1alpha1.TrainingJobList{}) },
		"suspend their job":     func() error { return me.Patch(ctx, theirs.DeepCopy(), suspend) },
		"delete their job":      func() error { return me.Delete(ctx, theirs.DeepCopy()) },
		"create among theirs":   func() error { return me.Create(ctx, w.object(training{name: "x", namespace: "theirs"})) },
		"write my job's status": func() error { return me.Status().Patch(ctx, own.DeepCopy(), status) },
		"write their status":    func() error { return me.Status().Patch(ctx, theirs.DeepCopy(), status) },
		"read their pods":       func() error { return me.List(ctx, &corev1.PodList{}, client.InNamespace("theirs")) },
		"read the journal":      func() error { return me.List(ctx, &v1alpha1.JournalPageList{}, client.InNamespace(operator.Namespace)) },
		"create a page": func() error {
			return me.Create(ctx, &v1alpha1.JournalPage{ObjectMeta: meta(operator.Namespace, "records-0000000000000099"), Holds: "records", First: 99, Count: 1, Data: []byte("x")})
		},
		"create a page of mine": func() error {
			return me.Create(ctx, &v1alpha1.JournalPage{ObjectMeta: meta("mine", "records-1"), Holds: "records", First: 1, Count: 1, Data: []byte("x")})
		},
		"delete the journal": func() error {
			return me.DeleteAllOf(ctx, &v1alpha1.JournalPage{}, client.InNamespace(operator.Namespace))
		},
		"create a tenant": func() error {
			return me.Create(ctx, &v1alpha1.Tenant{ObjectMeta: meta("", "mine"), Spec: v1alpha1.TenantSpec{Namespaces: []string{"mine"}}})
		},
		"list tenants": func() error { return me.List(ctx, &v1alpha1.TenantList{}) },
		"set the policy": func() error {
			return me.Create(ctx, &v1alpha1.SchedulingPolicy{ObjectMeta: meta("", "cluster"), Spec: v1alpha1.SchedulingPolicySpec{Policy: "fifo"}})
		},
		"bind a pod": func() error {
			return me.SubResource("binding").Create(ctx, &corev1.Pod{ObjectMeta: meta("mine", "own-1-0")}, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "gpu-0"}})
		},
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v; want it forbidden", name, err)
		}
	}
	// A status in a new job of a user is ignored.
	lie := w.object(training{name: "lie", namespace: "mine", runFor: time.Second})
	lie.Status.State, lie.Status.ID = api.Finished, theirs.Status.ID
	if err := me.Create(ctx, lie); err != nil {
		t.Fatal(err)
	}
	w.wait(t, lie, api.Finished)
	if lie.Status.ID == theirs.Status.ID || lie.Status.Attempt != 1 {
		t.Errorf("it is known as %s after %d starts; want an identity of its own and one start", lie.Status.ID, lie.Status.Attempt)
	}
	// A job for a tenant that is not the user's is refused.
	foreign := w.object(training{name: "foreign", namespace: "mine"})
	foreign.Spec.Tenant = "theirs"
	if err := me.Create(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	w.wait(t, foreign, v1alpha1.Refused)
	if !strings.Contains(foreign.Status.Why, "theirs") {
		t.Errorf("it was refused because %q; want the tenant named", foreign.Status.Why)
	}
}

// checkAPI tries what must not be possible through Fairway's own API.
func (w *world) checkAPI(t *testing.T, me *fairway.Client, theirs, own *v1alpha1.TrainingJob) {
	ctx := t.Context()
	id, mine := sched.JobID(theirs.Status.ID), sched.JobID(own.Status.ID)
	if got, err := me.Job(ctx, mine); err != nil || got.Tenant != "mine" {
		t.Fatalf("my own job: tenant %q, %v; want mine", got.Tenant, err)
	}
	var out strings.Builder
	refused := []api.Code{api.Unknown, api.Denied}
	for name, do := range map[string]func() error{
		"read":       func() error { _, err := me.Job(ctx, id); return err },
		"explain":    func() error { _, err := me.Explain(ctx, id); return err },
		"points":     func() error { _, err := me.Points(ctx, id); return err },
		"logs":       func() error { return me.Logs(ctx, id, api.LogQuery{}, &out) },
		"cancel":     func() error { _, err := me.Command(ctx, id, api.Cancel); return err },
		"pause":      func() error { _, err := me.Command(ctx, id, api.Pause); return err },
		"set policy": func() error { _, err := me.SetPolicy(ctx, "las", false); return err },
		"set tenant": func() error { _, err := me.SetTenant(ctx, sched.Tenant{ID: "mine", Weight: 100}); return err },
		"cordon":     func() error { _, err := me.SetNode(ctx, "gpu-0", sched.Cordoned); return err },
		"make a token": func() error {
			_, _, err := me.CreateToken(ctx, api.Token{User: "x", Role: api.Admin, Tenant: "theirs"})
			return err
		},
		"list tokens": func() error { _, err := me.Tokens(ctx); return err },
		"submit as them": func() error {
			_, err := me.Submit(ctx, api.Submission{Spec: sched.Spec{GPUs: 1, Tenant: "theirs"}, Task: api.Task{Name: "x", Command: []string{"x"}, Image: "x"}})
			return err
		},
	} {
		if err := do(); err == nil || !slices.Contains(refused, api.CodeOf(err)) {
			t.Errorf("%s: %v; want it refused", name, err)
		}
	}
	seen := ""
	for job, err := range me.List(ctx, api.JobFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen += fmt.Sprint(job.ID, " ")
	}
	page, err := me.Events(ctx, api.RecordFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		seen += fmt.Sprint(r.Job(), " ")
	}
	if strings.Contains(seen+" ", string(id)+" ") || !strings.Contains(seen, string(mine)) {
		t.Errorf("in lists I see %q; want %s and not %s", seen, mine, id)
	}
}
