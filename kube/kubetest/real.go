// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodImage is an image that every real node has. Its entry point is the program of
// tools/controlplane/pod, which by default waits until it is stopped.
const PodImage = "docker.io/local/pod:1"

// machine is the network namespace in which all real nodes of a cluster and their pods
// run. The kernel removes it with the process that holds it.
type machine struct {
	holder   *Process
	subnet   int              // of 10.213.subnet.0/24 for nodes and 10.214.subnet.0/24 for pods
	services map[string]*Link // routed services, by address and port
}

// realNode is containerd and a kubelet, in their own mount and PID namespaces.
type realNode struct {
	name    string
	folder  string
	address string
	cgroup  string // name of its control group, at the root of each hierarchy
	process *Process
}

func (n *realNode) socket() string { return filepath.Join(n.folder, "containerd.sock") }

// StartReal runs a cluster with real nodes, named real-0, real-1 and so on, beside
// those of the options. Their kubelets start containers with containerd, on one
// network: pods of all nodes, and the test, reach each other by address. There is no
// cluster DNS, and no Service routes but that of the API server and those of
// RouteService. GPUs are simulated: see SetGPUs.
//
// It needs root on Linux, and skips the test otherwise.
func StartReal(t testing.TB, nodes int, o Options) *Cluster {
	t.Helper()
	if err := canRunReal(); err != nil {
		t.Skip(err)
	}
	o.RealNodes = nodes
	return Start(t, o)
}

// maxReal is the maximum number of real nodes of a cluster, which the addresses of
// their pods allow.
const maxReal = 8

func canRunReal() error {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return fmt.Errorf("real nodes need root on Linux; this is user %d on %s", os.Getuid(), runtime.GOOS)
	}
	// Root in a container may lack the permissions that nodes need.
	const tries = "mount -n -t tmpfs none /proc; ip link add probe type bridge; ip link add one type veth peer name two"
	probe := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-ec", tries)
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Errorf("real nodes need namespaces, mounts and network devices of their own: %w: %s", err, out)
	}
	group := fmt.Sprintf("%s%d-probe", ownPrefix, os.Getpid())
	defer removeCgroup(group)
	return makeCgroup(group)
}

// HostAddress returns the address of the test's machine as real pods see it.
func (c *Cluster) HostAddress() string { return c.host }

// startMachine creates the network of the real nodes: a pair of linked devices, one
// here and one inside.
func (c *Cluster) startMachine(ctx context.Context) error {
	subnet, err := chooseSubnet()
	if err != nil {
		return err
	}
	holder, err := c.spawner.start(c.Folder, "network", exec.Command("unshare", "--net", "--", "sleep", "infinity"))
	if err != nil {
		return err
	}
	c.machine = &machine{holder: holder, subnet: subnet, services: map[string]*Link{}}
	// Wait for the new network namespace: until then the holder is in ours.
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("make network of nodes: %w", err)
	}
	pid := holder.PID()
	if err := holder.until(ctx, func(context.Context) error {
		if theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil || theirs == ours {
			return errors.New("no network of its own yet")
		}
		return nil
	}); err != nil {
		return err
	}
	var inside strings.Builder
	fmt.Fprintf(&inside, "ip link set lo up; ip link set eth0 up; echo 1 > /proc/sys/net/ipv4/ip_forward\n")
	for i := range c.options.RealNodes {
		fmt.Fprintf(&inside, "ip addr add %s/24 dev eth0\n", c.machine.nodeAddress(i))
	}
	fmt.Fprintf(&inside, "ip route add default via %s\n", c.machine.hostAddress())
	script := fmt.Sprintf(`set -e
ip link add %[1]s type veth peer name eth0 netns %[2]d
ip addr add %[3]s/24 dev %[1]s
ip link set %[1]s up
nsenter --target %[2]d --net -- sh -ec %[4]q
ip route add 10.214.%[5]d.0/24 via %[6]s
`, c.machine.device(), pid, c.machine.hostAddress(), "$INSIDE", c.machine.subnet, c.machine.nodeAddress(0))
	setup := exec.CommandContext(ctx, "sh", "-c", script)
	setup.Env = append(os.Environ(), "INSIDE="+inside.String())
	if out, err := setup.CombinedOutput(); err != nil {
		return fmt.Errorf("make network of nodes: %w: %s", err, out)
	}
	return nil
}

// chooseSubnet returns a subnet that no other cluster of this machine uses.
func chooseSubnet() (int, error) {
	for _, subnet := range mathrand.Perm(256) {
		name := fmt.Sprintf("kubetest%d", subnet)
		if _, err := os.Stat("/sys/class/net/" + name); errors.Is(err, fs.ErrNotExist) && claim(name) {
			return subnet, nil
		}
	}
	return 0, errors.New("choose network of nodes: all 256 are in use")
}

// device is the end of the nodes' network that is on the test's side.
func (m *machine) device() string      { return fmt.Sprintf("kubetest%d", m.subnet) }
func (m *machine) hostAddress() string { return fmt.Sprintf("10.213.%d.1", m.subnet) }
func (m *machine) nodeAddress(i int) string {
	return net.IPv4(10, 213, byte(m.subnet), byte(2+i)).String()
}

// startRealNodes starts the nodes and waits until they are ready and have the
// images.
func (c *Cluster) startRealNodes(ctx context.Context) error {
	if c.options.RealNodes == 0 {
		return nil
	}
	if err := c.route(serviceAddress, 443, c.toAPIServer); err != nil {
		return err
	}
	names := map[string]bool{}
	for i := range c.options.RealNodes {
		n := &realNode{
			name:    fmt.Sprintf("real-%d", i),
			folder:  c.file(fmt.Sprintf("real-%d", i)),
			address: c.machine.nodeAddress(i),
			cgroup:  fmt.Sprintf("%s%d-%d-%d", ownPrefix, os.Getpid(), c.machine.subnet, i),
		}
		if err := c.startRealNode(n, i); err != nil {
			return fmt.Errorf("start node %s: %w", n.name, err)
		}
		names[n.name] = true
	}
	for _, n := range c.nodes {
		if err := n.process.until(ctx, func(context.Context) error {
			conn, err := net.Dial("unix", n.socket())
			if err != nil {
				return err
			}
			return conn.Close()
		}); err != nil {
			return err
		}
	}
	pod := map[string]string{"/pod": filepath.Join(c.programs, "pod")}
	for _, image := range []Image{
		{Name: sandboxImage, Files: pod, Entrypoint: []string{"/pod", "pause"}},
		{Name: PodImage, Files: pod, Entrypoint: []string{"/pod"}, Cmd: []string{"pause"}},
	} {
		if err := c.LoadImage(ctx, image); err != nil {
			return err
		}
	}
	return c.waitNodes(ctx, names)
}

func (c *Cluster) startRealNode(n *realNode, i int) error {
	if err := c.writeNodeFiles(n, i); err != nil {
		return err
	}
	if err := makeCgroup(n.cgroup); err != nil {
		return err
	}
	command := exec.Command("nsenter", fmt.Sprintf("--target=%d", c.machine.holder.PID()), "--net", "--",
		"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", filepath.Join(n.folder, "node.sh"))
	command.Env = append(os.Environ(),
		"NODE="+n.name, "FOLDER="+n.folder, "ADDRESS="+n.address, "KUBELET="+filepath.Join(c.programs, "kubelet"),
		"PATH="+filepath.Join(c.programs, "node/bin")+":"+os.Getenv("PATH"))
	var err error
	if n.process, err = c.spawner.start(n.folder, "node", command); err != nil {
		return err
	}
	c.nodes = append(c.nodes, n)
	return nil
}

// KillNode kills a real node, its kubelet and all its containers, as in a power cut.
func (c *Cluster) KillNode(name string) error {
	for _, n := range c.nodes {
		if n.name == name {
			n.process.Kill()
			return nil
		}
	}
	return fmt.Errorf("kill node %s: there is no real node of this name", name)
}

// SetGPUs makes a node offer simulated GPUs.
func (c *Cluster) SetGPUs(ctx context.Context, node string, gpus int) error {
	n := &corev1.Node{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return fmt.Errorf("set GPUs of node %s: %w", node, err)
	}
	before := n.DeepCopy()
	count := *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	n.Status.Capacity[GPU], n.Status.Allocatable[GPU] = count, count
	if err := c.Client.Status().Patch(ctx, n, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("set GPUs of node %s: %w", node, err)
	}
	return nil
}

// stopMachine stops the real nodes. Their mounts, devices and processes end with their
// namespaces; control groups are not part of a namespace and are removed here.
func (c *Cluster) stopMachine() {
	for _, n := range c.nodes {
		n.process.Kill()
		removeCgroup(n.cgroup)
	}
	if c.machine == nil {
		return
	}
	for _, l := range c.machine.services {
		l.close()
	}
	// The kernel would remove the device with the holder's network, but later. It may
	// be gone, or not exist yet.
	_ = exec.Command("ip", "link", "delete", c.machine.device()).Run()
	c.machine.holder.Kill()
}

// sorted yields a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
