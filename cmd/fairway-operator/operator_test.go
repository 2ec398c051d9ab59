// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// output is a log that a test can read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// running is an operator that runs in the test, as its service account.
type running struct {
	api, metrics string
	log          *output
	ended        chan error
	stop         func() error
}

// startOperator runs an operator with the rights that the manifests give it.
func startOperator(t *testing.T, c *kubetest.Cluster, pod string, edit ...func(*config)) *running {
	t.Helper()
	account, err := c.ServiceAccount(t.Context(), system, "fairway-operator")
	if err != nil {
		t.Fatal(err)
	}
	file, err := c.WriteKubeconfig("operator-"+pod, account)
	if err != nil {
		t.Fatal(err)
	}
	conf := defaultConfig()
	conf.Log.Level = "debug"
	free, err := kubetest.FreeAddresses("127.0.0.1", 3)
	if err != nil {
		t.Fatal(err)
	}
	conf.API.Address, conf.Metrics, conf.Health = free[0], free[1], free[2]
	// An operator that stops gives its lease back. Nothing here waits until one is over,
	// and a machine that stands still for some seconds is no reason to lose it.
	conf.Leader = leaderConfig{Lease: sched.Duration(60 * time.Second), Renew: sched.Duration(45 * time.Second), Retry: sched.Duration(300 * time.Millisecond)}
	for _, e := range edit {
		e(&conf)
	}
	if err := conf.validate(); err != nil {
		t.Fatal(err)
	}
	r := &running{api: "http://" + conf.API.Address, metrics: "http://" + conf.Metrics, log: &output{}}
	ctx, cancel := context.WithCancel(context.Background())
	r.ended = make(chan error, 1)
	go func() {
		r.ended <- run(ctx, where{kubeconfig: file, namespace: system, pod: pod}, conf, conf.Log.New(r.log))
	}()
	r.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-r.ended:
			return err
		case <-time.After(patience):
			return errors.New("the operator does not end")
		}
	})
	t.Cleanup(func() {
		_ = r.stop()
		if t.Failed() {
			t.Log(tail(r.log.String(), 8000))
		}
	})
	return r
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// operatorPod makes the object of the pod that a replica runs in.
func operatorPod(t *testing.T, admin ctrlclient.Client, name string) {
	t.Helper()
	no, yes, user := false, true, int64(65532)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name, Labels: map[string]string{labelLeader: "true"}},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			Containers: []corev1.Container{{Name: "operator", Image: "none", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, RunAsUser: &user,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}}},
		},
	}
	if err := admin.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// tokens are those of a user, of a viewer of another tenant, and of an administrator.
type tokens struct{ mine, theirs, admins string }

// userToken makes a service account with a role in its namespace, and a token of it.
func userToken(t *testing.T, admin ctrlclient.Client, namespace, name string) string {
	t.Helper()
	role := map[string]string{"trainer": "fairway-user"}[name]
	if role == "" {
		role = "fairway-viewer"
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, o := range []ctrlclient.Object{account, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the role of "+name+" counts", func() error { // Fairway would remember for a minute that it does not
		q := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + name,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: v1alpha1.GroupVersion.Group, Resource: "trainingjobs", Namespace: namespace},
		}}
		if err := admin.Create(t.Context(), q); err != nil {
			return err
		}
		if !q.Status.Allowed {
			return errors.New("it may not read the jobs of its namespace")
		}
		return nil
	})
	q := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"fairway"}}}
	if err := admin.SubResource("token").Create(t.Context(), account, q); err != nil {
		t.Fatal(err)
	}
	return q.Status.Token
}

// adminToken is one of a service account that may change everything of Fairway.
func adminToken(t *testing.T, admin ctrlclient.Client) string {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "boss"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fairway-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "team", Name: "boss"}},
	}
	if err := admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	return userToken(t, admin, "team", "boss")
}

func gang(namespace, name string, runFor time.Duration) *v1alpha1.TrainingJob {
	per := int32(8)
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TrainingJobSpec{GPUs: 16, GPUsPerPod: &per, Template: v1alpha1.PodTemplate{PodTemplateSpec: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubetest.RunFor: runFor.String()}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none", Command: []string{"train"}}}},
		}}},
	}
}

func waitState(t *testing.T, admin ctrlclient.Client, job *v1alpha1.TrainingJob, want string) {
	t.Helper()
	eventually(t, "job "+job.Name+" is "+want, func() error {
		if err := admin.Get(t.Context(), ctrlclient.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.State != want {
			return fmt.Errorf("it is %q: %q", job.Status.State, job.Status.Why)
		}
		return nil
	})
}

func leaders(t *testing.T, admin ctrlclient.Client) []string {
	t.Helper()
	var pods corev1.PodList
	if err := admin.List(t.Context(), &pods, ctrlclient.InNamespace(system), ctrlclient.MatchingLabels{labelLeader: "true"}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range pods.Items {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

// TestOperator installs Fairway from its manifests and runs two replicas with the
// rights of their service account: a gang runs, users see their own jobs and only
// those, and the second replica goes on when the first stops.
func TestOperator(t *testing.T) {
	c, admin := install(t)
	for _, n := range []string{"team", "others"} {
		if err := c.Namespace(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	by := tokens{
		mine: userToken(t, admin, "team", "trainer"), theirs: userToken(t, admin, "others", "looker"), admins: adminToken(t, admin),
	}
	operatorPod(t, admin, "fairway-0")
	operatorPod(t, admin, "fairway-1")
	first := startOperator(t, c, "fairway-0")
	eventually(t, "the first leads", func() error { return leads(first) })
	second := startOperator(t, c, "fairway-1")

	job := gang("team", "net", time.Hour) // it is told when to end
	if err := admin.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	waitState(t, admin, job, api.Running)
	eventually(t, "only the leader has the label", func() error {
		if got := leaders(t, admin); !slices.Equal(got, []string{"fairway-0"}) {
			return fmt.Errorf("got %v", got)
		}
		return nil
	})
	id := sched.JobID(job.Status.ID)
	checkUsers(t, first, id, by)
	checkAgent(t, admin, first)
	checkMetrics(t, first, second)
	eventually(t, "the pods of the gang are found by name", func() error {
		var names discoveryv1.EndpointSlice
		err := admin.Get(t.Context(), ctrlclient.ObjectKey{Namespace: "team", Name: "net-0"}, &names)
		if err == nil && (len(names.Endpoints) != 2 || *names.Endpoints[1].Hostname != "net-1-1") {
			err = fmt.Errorf("endpoints %+v; want those of net-1-0 and net-1-1", names.Endpoints)
		}
		return err
	})

	if err := first.stop(); err != nil {
		t.Errorf("the first ended with %v; want nothing: it was told to", err)
	}
	eventually(t, "the second leads", func() error { return leads(second) })
	for _, pod := range []string{"net-1-0", "net-1-1"} {
		if err := c.EndPod(t.Context(), ctrlclient.ObjectKey{Namespace: "team", Name: pod}, 0); err != nil {
			t.Fatal(err)
		}
	}
	waitState(t, admin, job, api.Finished)
	if job.Status.Attempt != 1 {
		t.Errorf("the job needed %d attempts; want 1: a change of the leader does not touch pods", job.Status.Attempt)
	}
	eventually(t, "the second has the label", func() error {
		if got := leaders(t, admin); !slices.Equal(got, []string{"fairway-1"}) {
			return fmt.Errorf("got %v", got)
		}
		return nil
	})
	var inForce v1alpha1.SchedulingPolicy
	if err := admin.Get(t.Context(), ctrlclient.ObjectKey{Name: "cluster"}, &inForce); err != nil || inForce.Spec.Policy != "tiresias" {
		t.Errorf("the policy of the cluster is %q, %v; want tiresias, which an admin has set", inForce.Spec.Policy, err)
	}
	checkSubmit(t, admin, second, by)
	checkExport(t, c)
	checkRequests(t)
}

// TestFenced: an operator that is no longer the one to write the journal ends, and
// does nothing more.
func TestFenced(t *testing.T) {
	c, admin := install(t)
	if err := c.Namespace(t.Context(), "fenced"); err != nil {
		t.Fatal(err)
	}
	operatorPod(t, admin, "fairway-fenced")
	r := startOperator(t, c, "fairway-fenced")
	eventually(t, "it leads", func() error { return leads(r) })
	// Somebody who leads as well writes the next page, whatever its number is by now.
	eventually(t, "write the next page", func() error {
		var pages v1alpha1.JournalPageList
		if err := admin.List(t.Context(), &pages, ctrlclient.InNamespace(system)); err != nil {
			return err
		}
		next := int64(1)
		for _, p := range pages.Items {
			next = max(next, p.First+int64(p.Count))
		}
		return admin.Create(t.Context(), &v1alpha1.JournalPage{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: fmt.Sprintf("records-%016d", next)},
			Holds:      "records", First: next, Count: 1, Leader: "somebody-else", Data: []byte("x"),
		})
	})
	job := gang("fenced", "late", time.Hour)
	if err := admin.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.ended:
		if err == nil || !strings.Contains(err.Error(), "another operator leads") {
			t.Errorf("it ended with %v; want: another operator leads", err)
		}
		r.ended <- err
	case <-time.After(patience):
		t.Error("it goes on")
	}
	var pods corev1.PodList
	if err := admin.List(t.Context(), &pods, ctrlclient.InNamespace("fenced")); err != nil || len(pods.Items) > 0 {
		t.Errorf("there are %d pods, %v; want none of a decision that was not written down", len(pods.Items), err)
	}
	// The tests that come later begin with an empty journal, a free lease, and without
	// this job.
	if err := admin.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	for _, o := range []ctrlclient.Object{&v1alpha1.JournalPage{}, &coordinationv1.Lease{}} {
		if err := admin.DeleteAllOf(t.Context(), o, ctrlclient.InNamespace(system)); err != nil {
			t.Fatal(err)
		}
	}
}

func leads(r *running) error {
	if !strings.Contains(r.log.String(), `"msg":"leading"`) {
		return errors.New("it does not lead yet")
	}
	return nil
}

func dial(t *testing.T, r *running, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Address: r.api, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
