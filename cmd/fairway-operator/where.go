// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

// where is the cluster, and the operator's own place in it.
type where struct {
	kubeconfig string
	namespace  string // of the operator and its journal
	pod        string // of this process; empty: it runs outside of the cluster
}

func (w *where) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster (default: the cluster it runs in, else $KUBECONFIG)")
	f.StringVar(&w.namespace, "namespace", w.namespace, "namespace of the operator and its journal (default: $POD_NAMESPACE)")
}

func (w *where) complete() error {
	if w.namespace == "" {
		return errors.New("--namespace is missing; give the namespace of the operator, or set POD_NAMESPACE")
	}
	return nil
}

// name is what this process is called among the replicas.
func (w where) name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return cmp.Or(w.pod, host)
}

// config says how to reach the cluster.
func (w where) config() (*rest.Config, error) {
	if w.kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the cluster: %w", err)
		}
		return c, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = w.kubeconfig
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	return c, nil
}

// client makes a client without a cache.
func (w where) client(c *rest.Config) (client.Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	k, err := client.New(c, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create a client of the cluster: %w", err)
	}
	return k, nil
}

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}
