// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/kube/nodeagent"
)

// nodeOptions are the flags of "fairway-operator node".
type nodeOptions struct {
	client  nodeagent.Client
	ca      string
	dir     string
	cgroups string
	log     daemon.Log
}

func newNode() *cobra.Command {
	o := nodeOptions{log: daemon.Log{Level: "info", Format: "json"}}
	c := &cobra.Command{
		Use:   "node --operator URL",
		Short: "Suspend the pods of this node for the operator",
		Long: `Run the agent of a node, which suspends pods of training jobs in place when the
operator says so (docs/kubernetes/suspend.md). It needs the process IDs and the
control groups of the host, and no rights in the cluster.

It can be stopped and started at any time: what is suspended stays so.`,
		Example: `  fairway-operator node --operator http://fairway-nodes.fairway-system.svc:8461`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.client.HTTP, err = trusting(o.ca); err != nil {
				return err
			}
			return runNode(c.Context(), o, o.log.New(c.ErrOrStderr()))
		},
	}
	f := c.Flags()
	f.StringVar(&o.client.URL, "operator", "", "`URL` of the operator's address for agents (required)")
	f.StringVar(&o.client.TokenFile, "token-file", "/var/run/secrets/fairway.dev/token", "`file` with the token of this pod")
	f.StringVar(&o.ca, "ca", "", "`file` with the certificates that sign the operator's; empty: those of the system")
	f.StringVar(&o.dir, "dir", "/run/fairway", "`folder` of the host, in its memory, that says what is suspended")
	f.StringVar(&o.cgroups, "cgroups", "/sys/fs/cgroup", "`folder` with the control groups of the host")
	_ = c.MarkFlagRequired("operator")
	return c
}

// trusting returns an HTTP client that trusts the certificates of a file.
func trusting(ca string) (*http.Client, error) {
	if ca == "" {
		return &http.Client{}, nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read certificates: %s has none", ca)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: t}, nil
}
