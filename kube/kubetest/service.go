// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serviceAddress is the address of the Service "kubernetes", the first in the API
// server's service range. Kubelets pass it to pods, whose clients use it.
const serviceAddress = "10.0.0.1"

func (c *Cluster) toAPIServer() (string, error) { return c.apiAddress(), nil }

// RouteService routes the address of a Service, for pods of real nodes, to the first of
// its pods that is ready when they connect. There is no kube-proxy to do this for all
// Services. It needs Options.ControllerManager. It returns the address.
func (c *Cluster) RouteService(ctx context.Context, service client.ObjectKey) (string, error) {
	if len(c.nodes) == 0 {
		return "", fmt.Errorf("route service %s: the cluster has no real nodes", service)
	}
	s := &corev1.Service{}
	if err := c.Client.Get(ctx, service, s); err != nil {
		return "", fmt.Errorf("route service %s: %w", service, err)
	}
	for _, p := range s.Spec.Ports {
		if err := c.route(s.Spec.ClusterIP, int(p.Port), func() (string, error) { return c.endpoint(service, p.Name) }); err != nil {
			return "", fmt.Errorf("route service %s: %w", service, err)
		}
	}
	return s.Spec.ClusterIP, nil
}

// endpoint returns the current endpoint of a Service's port.
func (c *Cluster) endpoint(service client.ObjectKey, port string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	var slices discoveryv1.EndpointSliceList
	if err := c.Client.List(ctx, &slices, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
		return "", err
	}
	for _, s := range slices.Items {
		for _, p := range s.Ports {
			if p.Name == nil || p.Port == nil || *p.Name != port {
				continue
			}
			for _, e := range s.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					return net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))), nil
				}
			}
		}
	}
	return "", errors.New("no pod is ready")
}

// route adds an address to the nodes' network, and forwards connections to it to the
// target. The address exists there only: this machine's own network may use it, too.
func (c *Cluster) route(address string, port int, target func() (string, error)) error {
	at := net.JoinHostPort(address, strconv.Itoa(port))
	if old := c.machine.services[at]; old != nil {
		old.close() // it may belong to a Service that no longer exists
	}
	pid := c.machine.holder.PID()
	add := exec.Command("nsenter", fmt.Sprintf("--target=%d", pid), "--net", "--", "ip", "addr", "replace", address+"/32", "dev", "lo")
	if out, err := add.CombinedOutput(); err != nil {
		return fmt.Errorf("add address %s: %w: %s", address, err, out)
	}
	listener, err := listenOn(pid, at)
	if err != nil {
		return err
	}
	c.machine.services[at] = newLink(listener, target)
	return nil
}

// listenOn listens on an address in the network namespace of another process.
func listenOn(pid int, address string) (net.Listener, error) {
	type result struct {
		net.Listener
		error
	}
	made := make(chan result)
	go func() {
		// The thread is not reused: it ends with this function.
		runtime.LockOSThread()
		if err := enterNetwork(pid); err != nil {
			made <- result{error: err}
			return
		}
		l, err := net.Listen("tcp", address)
		made <- result{l, err}
	}()
	r := <-made
	return r.Listener, r.error
}
