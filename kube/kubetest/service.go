// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
)

// serviceAddress is that of the Service "kubernetes", the first of the range that
// the API server is told. Kubelets tell it to pods, whose clients look for it.
const serviceAddress = "10.0.0.1"

// openService leads the address of the Service "kubernetes" to the API server, for
// pods of real nodes: a proxy of the cluster would do that, and there is none. The
// address exists on the nodes' network only, as this machine's may have it too.
func (c *Cluster) openService() error {
	pid := c.machine.holder.PID()
	add := exec.Command("nsenter", fmt.Sprintf("--target=%d", pid), "--net", "--", "ip", "addr", "add", serviceAddress+"/32", "dev", "lo")
	if out, err := add.CombinedOutput(); err != nil {
		return fmt.Errorf("add service address: %w: %s", err, out)
	}
	listener, err := listenOn(pid, net.JoinHostPort(serviceAddress, "443"))
	if err != nil {
		return fmt.Errorf("open service address: %w", err)
	}
	c.machine.service = newLink(listener, c.apiAddress())
	return nil
}

// listenOn listens on an address of the network of another process.
func listenOn(pid int, address string) (net.Listener, error) {
	type result struct {
		net.Listener
		error
	}
	made := make(chan result)
	go func() {
		// The thread is not used again: it ends with this function.
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
