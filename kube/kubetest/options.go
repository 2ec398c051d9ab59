// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// Options says what runs beside etcd and the API server.
type Options struct {
	// ControllerManager runs kube-controller-manager: garbage collection,
	// namespaces, service accounts, Jobs, and taints on failed nodes.
	ControllerManager bool
	// Scheduler runs kube-scheduler, for pods that name no other scheduler.
	Scheduler bool
	// KWOK runs simulated nodes. Nodes implies it.
	KWOK bool
	// Nodes are created at the start.
	Nodes []NodeSpec
	// NodeLease is the duration of a simulated node's lease; default 40s, at least 1s.
	// It is renewed about four times as often.
	NodeLease time.Duration
	// NodeGrace is how long a node may be silent before the controller manager marks it
	// unknown; default 50s, as in Kubernetes.
	NodeGrace time.Duration
	// APIServerFlags are added to the API server's command line.
	APIServerFlags []string

	// RealNodes is how many nodes run real containers, 0 to 8: see StartReal.
	RealNodes int
}

// startWithin bounds the start of a cluster, even on a machine under load.
const startWithin = 5 * time.Minute

func (o Options) complete() (Options, error) {
	o.KWOK = o.KWOK || len(o.Nodes) > 0
	if o.NodeLease == 0 {
		o.NodeLease = 40 * time.Second
	}
	if o.NodeGrace == 0 {
		o.NodeGrace = 50 * time.Second
	}
	if o.NodeLease < time.Second {
		return o, fmt.Errorf("option NodeLease %v: want at least 1s", o.NodeLease)
	}
	if o.NodeGrace < time.Second {
		return o, fmt.Errorf("option NodeGrace %v: want at least 1s", o.NodeGrace)
	}
	if o.RealNodes < 0 || o.RealNodes > maxReal {
		return o, fmt.Errorf("option RealNodes %d: want 0 to %d", o.RealNodes, maxReal)
	}
	if o.RealNodes > 0 {
		if err := canRunReal(); err != nil {
			return o, err
		}
	}
	return o, nil
}

// programs returns the programs that these options need.
func (o Options) programs() []string {
	out := []string{"etcd", "kube-apiserver"}
	if o.ControllerManager {
		out = append(out, "kube-controller-manager")
	}
	if o.Scheduler {
		out = append(out, "kube-scheduler")
	}
	if o.KWOK {
		out = append(out, "kwok")
	}
	if o.RealNodes > 0 {
		out = append(out, "kubelet", "pod", "node/bin/containerd", "node/bin/ctr", "node/bin/runc", "node/cni/bridge")
	}
	return out
}

// Start runs a cluster for one test and stops it at the test's end. If the programs are
// not built, it skips the test, or fails it with FAIRWAY_E2E=1.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	begin := time.Now()
	c, err := Open(context.Background(), "", o)
	giveUp(t, err)
	t.Logf("the cluster was up after %v", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(15))
		}
		c.Close()
	})
	return c
}

// giveUp ends a test whose cluster could not be started.
func giveUp(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrAbsent) && (os.Getenv(envMust) != "1" || errors.Is(err, errNoNodePrograms)):
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// Shared is one cluster for all tests of a package. It starts when a test first
// asks for it and stops when the tests are over:
//
//	var shared = kubetest.Shared{Options: kubetest.Options{...}}
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
//
//	func TestThis(t *testing.T) { c := shared.Cluster(t); ... }
//
// Tests that share a cluster run in namespaces of their own (see
// Cluster.Namespace).
type Shared struct {
	Options Options

	once    sync.Once
	cluster *Cluster
	err     error
}

// Main runs the tests and returns their exit status.
func (s *Shared) Main(m *testing.M) int {
	status := m.Run()
	if s.cluster != nil {
		if status != 0 {
			fmt.Fprintln(os.Stderr, s.cluster.Logs(5))
		}
		s.cluster.Close()
	}
	return status
}

// Cluster returns the package's cluster, or skips or fails the test as Start
// does.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	s.once.Do(func() {
		begin := time.Now()
		if s.cluster, s.err = Open(context.Background(), "", s.Options); s.err == nil {
			t.Logf("the cluster was up after %v", time.Since(begin).Round(time.Millisecond))
		}
	})
	giveUp(t, s.err)
	return s.cluster
}

// flags is a list of command-line flags.
type flags []string

// add returns the flags with further ones appended.
func (f flags) add(more ...string) flags { return slices.Concat(f, more) }
