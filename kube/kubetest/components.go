// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// stages defines what the simulated kubelets do.
//
//go:embed stages.yaml
var stages []byte

// probeWithin bounds one health check of a process.
const probeWithin = 10 * time.Second

func (c *Cluster) startEtcd(ctx context.Context) error {
	client, peer := loopback("http", c.ports.etcd), loopback("http", c.ports.etcdPeer)
	var err error
	c.etcd, err = c.run("etcd", flags{
		"--name=default", "--data-dir=" + c.file("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--log-level=warn",
		// No data must survive a crash of this machine.
		"--unsafe-no-fsync",
	})
	if err != nil {
		return err
	}
	return c.etcd.until(ctx, c.probe(client+"/health"))
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	args := flags{
		"--etcd-servers=" + loopback("http", c.ports.etcd),
		"--bind-address=" + c.host, "--advertise-address=" + c.host, "--secure-port=" + strconv.Itoa(c.ports.apiServer),
		"--tls-cert-file=" + c.file("apiserver.crt"), "--tls-private-key-file=" + c.file("apiserver.key"),
		"--client-ca-file=" + c.file("ca.crt"), "--token-auth-file=" + c.file("tokens.csv"),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file("sa.pub"), "--service-account-signing-key-file=" + c.file("sa.key"),
		"--service-cluster-ip-range=10.0.0.0/16", "--endpoint-reconciler-type=none",
		"--kubelet-client-certificate=" + c.file("apiserver-to-kubelet.crt"), "--kubelet-client-key=" + c.file("apiserver-to-kubelet.key"),
		"--kubelet-preferred-address-types=InternalIP",
	}
	if !c.options.ControllerManager {
		// This adds a taint to new nodes that nothing would remove.
		args = args.add("--disable-admission-plugins=TaintNodesByCondition")
	}
	var err error
	if c.apiServer, err = c.run("kube-apiserver", args.add(c.options.APIServerFlags...)); err != nil {
		return err
	}
	return c.apiServer.until(ctx, c.probe(c.Admin().Host+"/readyz"))
}

func (c *Cluster) beginControllerManager() (ready func(context.Context) error, err error) {
	kubeconfig, err := c.kubeconfigForUser("system:kube-controller-manager")
	if err != nil {
		return nil, err
	}
	c.controllerManager, err = c.run("kube-controller-manager", c.control(kubeconfig, c.ports.controllerManager).add(
		"--service-account-private-key-file="+c.file("sa.key"), "--root-ca-file="+c.file("ca.crt"), "--use-service-account-credentials",
		"--cluster-signing-cert-file="+c.file("ca.crt"), "--cluster-signing-key-file="+c.file("ca.key"),
		"--node-monitor-grace-period="+c.options.NodeGrace.String(), "--node-monitor-period="+(min(c.options.NodeGrace, 5*time.Second)/2).String(),
		// By default it creates a folder in /usr.
		"--flex-volume-plugin-dir="+c.file("volume-plugins"),
		// It would write to every node, for kubelets that do not exist.
		"--controllers=*,-ttl-controller",
		// Otherwise the protection against failures of whole zones would spare a failed
		// node of a small cluster.
		"--unhealthy-zone-threshold=1", "--large-cluster-size-threshold=0", "--node-eviction-rate=100",
	))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return c.controllerManager.until(ctx, c.probe(loopback("https", c.ports.controllerManager)+"/healthz"))
	}, nil
}

func (c *Cluster) beginScheduler() (ready func(context.Context) error, err error) {
	kubeconfig, err := c.kubeconfigForUser("system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	if c.scheduler, err = c.run("kube-scheduler", c.control(kubeconfig, c.ports.scheduler)); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return c.scheduler.until(ctx, c.probe(loopback("https", c.ports.scheduler)+"/healthz"))
	}, nil
}

// control returns the flags that the controller manager and the scheduler share.
func (c *Cluster) control(kubeconfig string, port int) flags {
	return flags{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--authentication-skip-lookup=true",
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.file("apiserver.crt"), "--tls-private-key-file=" + c.file("apiserver.key"),
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}
}

func (c *Cluster) beginKWOK() (ready func(context.Context) error, err error) {
	if err := os.WriteFile(c.file("stages.yaml"), stages, 0o600); err != nil {
		return nil, fmt.Errorf("write stages: %w", err)
	}
	c.kwok, err = c.run("kwok", flags{
		"--kubeconfig=" + c.Kubeconfig, "--config=" + c.file("stages.yaml"),
		"--manage-nodes-with-annotation-selector=" + managed + "=fake",
		"--node-lease-duration-seconds=" + strconv.Itoa(int(c.options.NodeLease.Seconds())),
		"--cidr=10.244.0.0/16", "--node-ip=127.0.0.1",
		"--server-address=" + fmt.Sprintf("127.0.0.1:%d", c.ports.kwok),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return c.kwok.until(ctx, c.probe(loopback("http", c.ports.kwok)+"/healthz"))
	}, nil
}

func loopback(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

// probe returns a check that a URL answers 200. Health checks need no credentials.
func (c *Cluster) probe(url string) func(context.Context) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.ca.pem)
	prober := &http.Client{Timeout: probeWithin, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("probe %s: %w", url, err)
		}
		response, err := prober.Do(request)
		if err != nil {
			return fmt.Errorf("probe %s: %w", url, err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10)) // for the message only
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("probe %s: %s: %s", url, response.Status, body)
		}
		return nil
	}
}
