// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a running control plane.
type Cluster struct {
	// Client is an administrator's client, without a cache.
	Client client.Client
	// Kubeconfig is an administrator's kubeconfig file.
	Kubeconfig string
	// Folder holds the cluster's files.
	Folder string

	options   Options
	programs  string // folder of the programs
	temporary bool   // Close removes Folder
	spawner   *spawner
	ca        *authority
	ports     ports
	host      string // address of the API server
	token     string // the administrator's

	etcd, apiServer, controllerManager, scheduler, kwok *Process
	started                                             []*Process // by Run

	machine *machine    // the network of real nodes, if there are any
	nodes   []*realNode // the real ones
}

// ports are the loopback ports of one cluster.
type ports struct {
	etcd, etcdPeer, apiServer, controllerManager, scheduler, kwok int
}

// Open starts a cluster and waits until it is ready. It is for programs; tests use
// Start. The folder must be absent or empty, and stays; an empty name means a temporary
// folder, which Close removes. ctx bounds the start only: the cluster runs until Close,
// or until the process ends.
//
// It returns ErrAbsent if the programs are not built.
func Open(ctx context.Context, folder string, o Options) (*Cluster, error) {
	o, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	programs, err := findPrograms(o.programs()...)
	if err != nil {
		return nil, err
	}
	sweep()
	c := &Cluster{options: o, programs: programs, host: "127.0.0.1", token: rand.Text()}
	if err := c.makeFolder(folder); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c.spawner = newSpawner()
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if err := c.launch(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	return c, nil
}

// makeFolder makes the cluster's folder.
func (c *Cluster) makeFolder(name string) error {
	var err error
	if name == "" {
		c.temporary = true
		c.Folder, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", ownPrefix, os.Getpid()))
		return err
	}
	if c.Folder, err = filepath.Abs(name); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Folder, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.Folder)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("folder %s is not empty", c.Folder)
	}
	return err
}

// Program returns the path of a program that was built with the control plane, such as
// kubectl. It returns ErrAbsent if the program is not built.
func Program(name string) (string, error) {
	folder, err := findPrograms(name)
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, name), nil
}

func (c *Cluster) launch(ctx context.Context) error {
	if c.options.RealNodes > 0 {
		if err := c.startMachine(ctx); err != nil {
			return err
		}
		c.host = c.machine.hostAddress()
	}
	if err := c.prepare(); err != nil {
		return err
	}
	for _, start := range []func(context.Context) error{c.startEtcd, c.startAPIServer} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	var err error
	if c.Client, err = client.New(c.Admin(), client.Options{}); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	// Each of these needs only the API server, so they start in parallel.
	var begun []func(context.Context) error
	for _, part := range []struct {
		wanted bool
		begin  func() (func(context.Context) error, error)
	}{
		{c.options.ControllerManager, c.beginControllerManager},
		{c.options.Scheduler, c.beginScheduler},
		{c.options.KWOK, c.beginKWOK},
	} {
		if !part.wanted {
			continue
		}
		ready, err := part.begin()
		if err != nil {
			return err
		}
		begun = append(begun, ready)
	}
	for _, ready := range begun {
		if err := ready(ctx); err != nil {
			return err
		}
	}
	if err := c.ensureDefaultAccount(ctx, "default"); err != nil {
		return err
	}
	if err := c.startRealNodes(ctx); err != nil {
		return err
	}
	return c.AddNodes(ctx, c.options.Nodes...)
}

// prepare writes the files that the programs read: certificates, keys, tokens.
func (c *Cluster) prepare() error {
	var err error
	if c.ca, err = newAuthority(c.Folder); err != nil {
		return err
	}
	if _, err := c.ca.issue("apiserver", identity{name: "kube-apiserver", ips: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(c.host), net.ParseIP(serviceAddress)}}); err != nil {
		return err
	}
	if _, err := c.ca.issue("apiserver-to-kubelet", identity{name: "kube-apiserver", groups: []string{"system:masters"}}); err != nil {
		return err
	}
	if err := writeTokenKeys(c.Folder); err != nil {
		return err
	}
	tokens := fmt.Sprintf("%s,admin,admin,\"system:masters\"\n", c.token)
	if err := os.WriteFile(c.file("tokens.csv"), []byte(tokens), 0o600); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	if err := choosePorts(&c.ports.etcd, &c.ports.etcdPeer, &c.ports.apiServer, &c.ports.controllerManager, &c.ports.scheduler, &c.ports.kwok); err != nil {
		return err
	}
	c.Kubeconfig, err = c.WriteKubeconfig("admin", c.Admin())
	return err
}

// choosePorts finds free ports of this machine.
func choosePorts(into ...*int) error {
	ports, err := freePorts("127.0.0.1", len(into))
	for i, port := range ports {
		*into[i] = port
	}
	return err
}

// FreeAddresses returns addresses of a host on which nothing listens, for programs that
// are about to start.
func FreeAddresses(host string, n int) ([]string, error) {
	ports, err := freePorts(host, n)
	var out []string
	for _, port := range ports {
		out = append(out, net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return out, err
}

// freePorts finds free ports below the kernel's ephemeral range, from which other
// connections could take a port before it is used. Another test process does not choose
// the same ones.
func freePorts(host string, n int) ([]int, error) {
	const lowest, highest, tries = 20000, 32000, 100
	var out []int
	for range n {
		for try := 0; ; try++ {
			if try == tries {
				return nil, fmt.Errorf("choose ports: none of %d tried between %d and %d is free", tries, lowest, highest)
			}
			port := lowest + mathrand.IntN(highest-lowest)
			if !claim(fmt.Sprintf("port-%d", port)) {
				continue
			}
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				continue
			}
			defer l.Close() // held until all are chosen, so that none is chosen twice
			out = append(out, port)
			break
		}
	}
	return out, nil
}

func (c *Cluster) file(name string) string { return filepath.Join(c.Folder, name) }

// run starts one of the programs.
func (c *Cluster) run(program string, args flags) (*Process, error) {
	return c.spawner.start(c.Folder, program, exec.Command(filepath.Join(c.programs, program), args...))
}

// Run starts a program, such as an operator under test, that ends with the cluster at
// the latest. Its output goes to name.log in the cluster's folder, and Logs shows its
// end.
func (c *Cluster) Run(name string, cmd *exec.Cmd) (*Process, error) {
	p, err := c.spawner.start(c.Folder, name, cmd)
	if err != nil {
		return nil, err
	}
	// A program that replaces another of its name continues its log.
	c.started = slices.DeleteFunc(c.started, func(old *Process) bool { return old.name == name && !old.Running() })
	c.started = append(c.started, p)
	return p, nil
}

// Close ends all processes, and removes the cluster's files if their folder is
// temporary.
func (c *Cluster) Close() {
	c.stopMachine()
	for _, p := range c.processes() {
		p.Kill()
	}
	c.spawner.close()
	if c.temporary {
		_ = os.RemoveAll(c.Folder) // leftovers are in the temporary folder
	}
}

// processes returns what was started, the last first.
func (c *Cluster) processes() []*Process {
	var out []*Process
	for _, p := range slices.Backward(c.started) {
		out = append(out, p)
	}
	for _, p := range []*Process{c.kwok, c.scheduler, c.controllerManager, c.apiServer, c.etcd} {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// Logs returns the last lines of every process's log.
func (c *Cluster) Logs(lines int) string {
	var b strings.Builder
	for _, p := range c.processes() {
		fmt.Fprintf(&b, "--- %s (running: %v)\n%s\n", p.name, p.Running(), p.Tail(lines))
	}
	for _, n := range c.nodes {
		for _, name := range []string{"containerd", "kubelet"} {
			p := Process{log: filepath.Join(n.folder, name+".log")}
			fmt.Fprintf(&b, "--- %s of %s (running: %v)\n%s\n", name, n.name, n.process.Running(), p.Tail(lines))
		}
	}
	return b.String()
}

// KillAPIServer kills the API server, like a crash.
func (c *Cluster) KillAPIServer() { c.apiServer.Kill() }

// StartAPIServer starts the API server again, at the same address, and waits until it
// is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if c.apiServer.Running() {
		return fmt.Errorf("start kube-apiserver: it is running")
	}
	return c.startAPIServer(ctx)
}

// RestartAPIServer stops the API server gracefully and starts it again.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	c.apiServer.Stop(3 * time.Second)
	return c.startAPIServer(ctx)
}

// PauseAPIServer freezes the API server: connections stay open without answers, as in a
// partition. ResumeAPIServer undoes it.
func (c *Cluster) PauseAPIServer() error { return c.apiServer.Pause() }

// ResumeAPIServer undoes PauseAPIServer.
func (c *Cluster) ResumeAPIServer() error { return c.apiServer.Resume() }

// apiAddress is where the API server listens.
func (c *Cluster) apiAddress() string {
	return net.JoinHostPort(c.host, strconv.Itoa(c.ports.apiServer))
}

// Admin returns a configuration for an administrator. It has no rate limit.
func (c *Cluster) Admin() *rest.Config {
	return &rest.Config{
		Host:            "https://" + c.apiAddress(),
		BearerToken:     c.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem},
		QPS:             -1,
	}
}
