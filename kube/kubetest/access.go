// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// As returns a configuration that impersonates a user, with the permissions that RBAC
// gives the user.
func (c *Cluster) As(user string, groups ...string) *rest.Config {
	r := c.Admin()
	r.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return r
}

// ServiceAccount returns a configuration with a real token of a service
// account, which it creates if it does not exist.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Client.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create service account %s/%s: %w", namespace, name, err)
	}
	seconds := int64(tokenFor / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := c.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("request token of %s/%s: %w", namespace, name, err)
	}
	r := c.Admin()
	r.BearerToken = request.Status.Token
	return r, nil
}

// tokenFor is how long the token of a service account is valid. It is not renewed.
const tokenFor = 7 * 24 * time.Hour

// WriteKubeconfig writes a configuration to a file in the cluster's folder, for
// programs, and returns its path.
func (c *Cluster) WriteKubeconfig(name string, r *rest.Config) (string, error) {
	const one = "test"
	k := clientcmdapi.NewConfig()
	k.Clusters[one] = &clientcmdapi.Cluster{Server: r.Host, CertificateAuthorityData: r.CAData}
	k.AuthInfos[one] = &clientcmdapi.AuthInfo{
		Token:                 r.BearerToken,
		ClientCertificateData: r.CertData, ClientKeyData: r.KeyData,
		Impersonate: r.Impersonate.UserName, ImpersonateGroups: r.Impersonate.Groups,
	}
	k.Contexts[one] = &clientcmdapi.Context{Cluster: one, AuthInfo: one}
	k.CurrentContext = one
	path := c.file(strings.ReplaceAll(name, ":", "-") + ".kubeconfig")
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return "", fmt.Errorf("write kubeconfig %s: %w", name, err)
	}
	return path, os.Chmod(path, 0o600)
}

// kubeconfigForUser writes a configuration for a user with a client certificate.
func (c *Cluster) kubeconfigForUser(user string, groups ...string) (string, error) {
	p, err := c.ca.issue(strings.ReplaceAll(user, ":", "-"), identity{name: user, groups: groups})
	if err != nil {
		return "", err
	}
	r := c.Admin()
	r.BearerToken = ""
	r.CertData, r.KeyData = p.cert, p.key
	return c.WriteKubeconfig(user, r)
}

// Namespace creates a namespace in which pods can be created.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	if err := c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return c.ensureDefaultAccount(ctx, name)
}

// ensureDefaultAccount makes sure that a namespace has the service account that pods
// need. The controller manager creates it; without one, the test does.
func (c *Cluster) ensureDefaultAccount(ctx context.Context, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if !c.options.ControllerManager {
		if err := c.Client.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create default service account of %s: %w", namespace, err)
		}
		return nil
	}
	return poll(ctx, func(ctx context.Context) error {
		return c.Client.Get(ctx, client.ObjectKeyFromObject(account), account)
	})
}

// PodLogs returns what the only container of a pod on a real node has written.
func (c *Cluster) PodLogs(ctx context.Context, pod client.ObjectKey) (string, error) {
	transport, err := rest.HTTPClientFor(c.Admin())
	if err != nil {
		return "", fmt.Errorf("read log of pod %s: %w", pod, err)
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/log", c.Admin().Host, pod.Namespace, pod.Name)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("read log of pod %s: %w", pod, err)
	}
	response, err := transport.Do(request)
	if err != nil {
		return "", fmt.Errorf("read log of pod %s: %w", pod, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxLog))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return "", fmt.Errorf("read log of pod %s: %w: %s", pod, err, text)
	}
	return string(text), nil
}

// maxLog is the most that PodLogs reads.
const maxLog = 1 << 20

// poll calls check until it returns nil or ctx is done, at growing intervals, because
// each check may cost the API server as much as what is waited for.
func poll(ctx context.Context, check func(context.Context) error) error {
	const first, longest = 20 * time.Millisecond, 500 * time.Millisecond
	for pause := first; ; pause = min(pause*3/2, longest) {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}
