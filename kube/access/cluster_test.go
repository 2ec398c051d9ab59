// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

var shared kubetest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

var installed sync.Once

// counter counts the requests that create something.
type counter struct {
	client.Client
	creates atomic.Int64
}

func (c *counter) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	c.creates.Add(1)
	return c.Client.Create(ctx, o, opts...)
}

// eventually waits for what takes moments on an idle machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// open returns the cluster of the tests and an administrator's client with Fairway's
// kinds.
func open(t *testing.T) (*kubetest.Cluster, *counter) {
	t.Helper()
	c := shared.Cluster(t)
	installed.Do(func() {
		if _, err := envtest.InstallCRDs(c.Admin(), envtest.CRDInstallOptions{Paths: []string{"../../deploy/chart/crds"}, ErrorIfPathMissing: true}); err != nil {
			t.Fatal(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c, &counter{Client: admin}
}

func namespace(t *testing.T, c *kubetest.Cluster, name string) {
	t.Helper()
	if err := c.Namespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// account creates a service account.
func account(t *testing.T, c client.Client, namespace, name string) *corev1.ServiceAccount {
	t.Helper()
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	create(t, c, a)
	return a
}

// token requests a token of a service account, bound to a pod if one is given.
func token(t *testing.T, c client.Client, a *corev1.ServiceAccount, audience string, pod *corev1.Pod) string {
	t.Helper()
	q := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if pod != nil {
		q.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	if err := c.SubResource("token").Create(t.Context(), a, q); err != nil {
		t.Fatal(err)
	}
	return q.Status.Token
}

// allow gives a service account permissions on training jobs in a namespace.
func allow(t *testing.T, c client.Client, a *corev1.ServiceAccount, in string, verbs ...string) {
	t.Helper()
	name := "allow-" + a.Namespace + "-" + a.Name
	create(t, c, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"fairway.dev"}, Resources: []string{"trainingjobs"}, Verbs: verbs}},
	}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: a.Namespace, Name: a.Name}},
	})
}

// resign changes the claims of a token and signs it again with the cluster's key.
func resign(t *testing.T, c *kubetest.Cluster, token string, change func(claims map[string]any)) string {
	t.Helper()
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	change(claims)
	if text, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(c.Folder, "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(file)
	var key *ecdsa.PrivateKey
	if any, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		key = any.(*ecdsa.PrivateKey)
	} else if key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
		t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(text)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
