// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	operatortest "github.com/fairway-gpu/fairway/kube/kubetest/operator"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

var shared kubetest.Shared

// requestLog is the file in which the API server writes down what it was asked for.
var requestLog string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	folder, err := os.MkdirTemp("", "fairway-operator-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	requestLog = filepath.Join(folder, "requests.jsonl")
	rules := filepath.Join(folder, "audit.yaml")
	text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, userGroups: ['system:serviceaccounts:" + system + "']}]\n"
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		panic(err)
	}
	shared.Options = kubetest.Options{
		ControllerManager: true, Nodes: []kubetest.NodeSpec{{Prefix: "gpu", Count: 3, GPUs: 8, Type: "NVIDIA-H200"}},
		APIServerFlags: []string{
			"--audit-policy-file=" + rules, "--audit-log-path=" + requestLog,
			"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true", // PodGroups
		},
	}
	return shared.Main(m)
}

const (
	system    = "fairway-system"
	manifests = "../../deploy/manifests/fairway.yaml"
)

// TestManifestsAreOfThisChart: whoever changes the chart re-makes the manifests. The
// test of tools/chart renders it; this one needs no Helm.
func TestManifestsAreOfThisChart(t *testing.T) {
	h := sha256.New()
	files := os.DirFS("../../deploy/chart")
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); !strings.Contains(string(text), sum) {
		t.Error("deploy/chart has changed since deploy/manifests/fairway.yaml was made; run make manifests")
	}
}

// documents returns the objects of the manifests.
func documents(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	out, err := operatortest.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var applied sync.Once

// install applies the manifests to the cluster of the tests, once, and returns a client
// of an administrator that knows Fairway's kinds.
func install(t *testing.T) (*kubetest.Cluster, client.Client) {
	t.Helper()
	c := shared.Cluster(t)
	admin, err := where{}.client(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	applied.Do(func() {
		for _, u := range documents(t) {
			apply(t, admin, u)
		}
		eventually(t, "the kinds are known", func() error {
			return admin.List(t.Context(), &v1alpha1.JournalPageList{})
		})
	})
	return c, admin
}

func apply(t *testing.T, c client.Client, u *unstructured.Unstructured) {
	t.Helper()
	eventually(t, "apply "+u.GetKind()+" "+u.GetName(), func() error {
		return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership)
	})
}

// patience is how long a test waits for what takes moments on an idle machine.
const patience = 5 * time.Minute

// eventually waits until a check holds.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// TestRolesAreLeast: the operator may do what it needs, and nothing that would hurt.
func TestRolesAreLeast(t *testing.T) {
	_, admin := install(t)
	for _, x := range []struct {
		verb, group, resource, namespace string
		want                             bool
	}{
		{"create", "", "pods", "team", true},
		{"create", "", "pods/binding", "team", true},
		{"get", "", "pods/log", "team", true},
		{"patch", "", "pods", system, true},
		{"create", "fairway.dev", "journalpages", system, true},
		{"create", "authentication.k8s.io", "tokenreviews", "", true},
		{"patch", "batch", "jobs", "team", true},
		{"patch", "fairway.dev", "trainingjobs/status", "team", true},
		{"update", "fairway.dev", "trainingjobs/status", "team", true}, // version 0.1
		{"patch", "", "persistentvolumeclaims", "team", true},
		{"patch", "", "persistentvolumes", "", true},
		{"list", "storage.k8s.io", "storageclasses", "", true},
		{"list", "node.k8s.io", "runtimeclasses", "", true},

		{"get", "", "secrets", system, false},
		{"list", "", "secrets", "team", false},
		{"get", "", "configmaps", "team", false},
		{"create", "", "pods/exec", "team", false},
		{"create", "", "pods/eviction", "team", false},
		{"update", "", "pods", "team", false},
		{"patch", "", "pods", "team", false},
		{"delete", "", "services", "team", false},
		{"create", "", "persistentvolumeclaims", "team", false},
		{"delete", "", "persistentvolumeclaims", "team", false},
		{"create", "", "persistentvolumes", "", false},
		{"delete", "", "persistentvolumes", "", false},
		{"update", "", "nodes", "", false},
		{"patch", "", "nodes", "", false},
		{"delete", "", "nodes", "", false},
		{"create", "", "serviceaccounts/token", "team", false},
		{"create", "fairway.dev", "journalpages", "team", false},
		{"update", "fairway.dev", "journalpages", system, false},
		{"delete", "fairway.dev", "tenants", "", false},
		{"delete", "fairway.dev", "apps", "team", false},
		{"create", "batch", "jobs", "team", false},
		{"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", false},
		{"escalate", "rbac.authorization.k8s.io", "clusterroles", "", false},
		{"impersonate", "", "users", "", false},
		{"update", "coordination.k8s.io", "leases", "kube-system", false},
		{"*", "*", "*", "", false},
	} {
		name, sub, _ := strings.Cut(x.resource, "/")
		q := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + system + ":fairway-operator",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: x.verb, Group: x.group, Resource: name, Subresource: sub, Namespace: x.namespace,
			},
		}}
		eventually(t, "ask", func() error { // RBAC takes a moment to know new roles
			q.Status = authorizationv1.SubjectAccessReviewStatus{}
			if err := admin.Create(context.Background(), q); err != nil {
				return err
			}
			if q.Status.Allowed != x.want {
				return fmt.Errorf("%s %s.%s in %q: allowed %v; want %v", x.verb, x.resource, x.group, x.namespace, q.Status.Allowed, x.want)
			}
			return nil
		})
	}
}

// TestNoWildcards: every rule names its verbs, groups and resources.
func TestNoWildcards(t *testing.T) {
	for _, u := range documents(t) {
		if !slices.Contains([]string{"ClusterRole", "Role"}, u.GetKind()) {
			continue
		}
		rules, _, err := unstructured.NestedSlice(u.Object, "rules")
		if err != nil || len(rules) == 0 {
			t.Errorf("%s %s: rules %v, %v; want some", u.GetKind(), u.GetName(), rules, err)
		}
		for _, r := range rules {
			for _, field := range []string{"apiGroups", "resources", "verbs"} {
				names, _, _ := unstructured.NestedStringSlice(r.(map[string]any), field)
				if len(names) == 0 || slices.Contains(names, rbacv1.VerbAll) {
					t.Errorf("%s %s: %s = %v; want names", u.GetKind(), u.GetName(), field, names)
				}
			}
		}
	}
}
