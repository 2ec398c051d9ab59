// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pods_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor/executortest"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/daemon/suspend/suspendtest"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/nodeagent"
	"github.com/fairway-gpu/fairway/kube/nodes"
	"github.com/fairway-gpu/fairway/kube/pods"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
	"github.com/fairway-gpu/fairway/sched"
)

// suspendingWorld is a cluster whose only node has an agent. Pods of simulated nodes have
// no processes, so the agent has a real one for each; the driver is pretended.
type suspendingWorld struct {
	*world
	driver *suspendtest.Driver
	server *httptest.Server

	mu      sync.Mutex
	procs   map[string]*exec.Cmd // by UID of the pod
	refuses map[string]bool      // by UID
}

// newSuspendingWorld has a node of four GPUs with three replicas of each.
func newSuspendingWorld(t *testing.T) *suspendingWorld {
	t.Helper()
	w := &suspendingWorld{driver: suspendtest.New(), procs: map[string]*exec.Cmd{}, refuses: map[string]bool{}}
	w.driver.Any, w.driver.Fails = true, w.fails
	var hub struct {
		sync.Mutex
		http.Handler
	}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		hub.Lock()
		h := hub.Handler
		hub.Unlock()
		if h == nil {
			http.Error(rw, "no operator", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(rw, r)
	}))
	node := fmt.Sprintf("w%d-0", worlds.Load()+1) // of the world that is about to be made
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	operator := nodeagent.Client{URL: w.server.URL, TokenFile: token, HTTP: w.server.Client()}
	agent := &nodeagent.Agent{
		Dir: filepath.Join(t.TempDir(), "agent"), Host: suspend.Host{Open: w.driver.Open, Uses: func(int) bool { return true }},
		Target: w.target, Exists: w.exists, Sync: operator.Sync,
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		w.server.CloseClientConnections()
		w.server.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.procs {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	spec := kubetest.NodeSpec{Count: 1, GPUs: 12, Labels: map[string]string{
		"nvidia.com/gpu.replicas": "3", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing",
	}}
	w.world = newWorldWith(t, spec, func(c *pods.Config) {
		c.Hands = &nodeagent.Hub{}
		c.Suspends = func(n *corev1.Node) bool { return nodes.NoSuspend(n, true) == "" }
	}, func(h *nodeagent.Hub) {
		w.server.CloseClientConnections() // as they are when an operator ends
		hub.Lock()
		defer hub.Unlock()
		hub.Handler = nodeagent.Handler(h, func(_ context.Context, token string) (string, error) {
			if token != "secret" {
				return "", api.Errorf(api.Denied, "not an agent")
			}
			return node, nil
		})
	})
	return w
}

// target returns the process of each pod.
func (w *suspendingWorld) target(o nodeagent.Order) (suspend.Target, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*exec.Cmd
	for _, uid := range o.Pods {
		if w.procs[uid] == nil {
			c := exec.Command("sleep", "3600")
			if err := c.Start(); err != nil {
				return suspend.Target{}, err
			}
			w.procs[uid] = c
		}
		all = append(all, w.procs[uid])
	}
	return suspend.Target{Processes: func() ([]proc.Process, error) {
		var out []proc.Process
		for _, c := range all {
			if p, err := proc.Read(c.Process.Pid); err == nil {
				out = append(out, p)
			}
		}
		if len(out) == 0 {
			return nil, errors.New("no processes")
		}
		return out, nil
	}}, nil
}

func (w *suspendingWorld) exists(uid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.procs[uid] != nil
}

func (w *suspendingWorld) fails(verb string, pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, c := range w.procs {
		if c.Process.Pid == pid {
			return verb == "checkpoint" && w.refuses[uid]
		}
	}
	return false
}

// off reports whether the process of a pod is off its GPUs, and frozen.
func (w *suspendingWorld) off(p *corev1.Pod) (off, frozen bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.procs[string(p.UID)]
	if c == nil {
		return false, false
	}
	is, err := proc.Read(c.Process.Pid)
	return w.driver.States()[c.Process.Pid] == suspend.Away, err == nil && is.State == 'T'
}

// Running asks the API server where it seems that two jobs use a GPU: processes change at
// once, and the watch learns a moment later that a pod has ended.
func (w *suspendingWorld) Running() map[sched.JobID][]executortest.GPU {
	out := w.onGPUs()
	users := map[executortest.GPU]int{}
	for _, gpus := range out {
		for _, g := range gpus {
			if users[g]++; users[g] > 1 {
				w.dropEnded(out)
				return out
			}
		}
	}
	return out
}

// dropEnded drops the jobs of which no pod runs.
func (w *suspendingWorld) dropEnded(jobs map[sched.JobID][]executortest.GPU) {
	var list corev1.PodList
	if err := w.client.List(context.Background(), &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Error(err)
		return
	}
	run := map[sched.JobID]bool{}
	for i := range list.Items {
		if p := &list.Items[i]; !kubetest.Ended(p) {
			run[sched.JobID(p.Labels[v1alpha1.LabelID])] = true
		}
	}
	maps.DeleteFunc(jobs, func(id sched.JobID, _ []executortest.GPU) bool { return !run[id] })
}

// onGPUs returns the jobs that are not off their GPUs, as far as the watch knows.
func (w *suspendingWorld) onGPUs() map[sched.JobID][]executortest.GPU {
	out := w.world.Running()
	for id := range out {
		for _, p := range w.of(id) {
			if off, _ := w.off(p); off {
				delete(out, id)
			}
		}
	}
	return out
}

func (w *suspendingWorld) Frozen() map[sched.JobID]bool {
	out := map[sched.JobID]bool{}
	for id := range w.world.Running() {
		for _, p := range w.of(id) {
			off, frozen := w.off(p)
			out[id] = off && frozen
		}
	}
	return out
}

func (w *suspendingWorld) Refuse(_ *testing.T, id sched.JobID, refuses bool) {
	for _, p := range w.of(id) {
		w.mu.Lock()
		w.refuses[string(p.UID)] = refuses
		w.mu.Unlock()
	}
}

// TestSuspension: the executor and the agent of a node keep the rules of suspension, on a
// real API server and with real processes.
func TestSuspension(t *testing.T) {
	pace := executortest.Pace{Patience: patience, Calm: 400 * time.Millisecond, Linger: 300 * time.Millisecond}
	executortest.RunSuspension(t, pace, func(t *testing.T) executortest.Suspender { return newSuspendingWorld(t) })
}

// TestSuspendedGang: the pods of a gang are suspended as one, request one replica of each
// GPU, and a pod that a probe would kill is not suspended.
func TestSuspendedGang(t *testing.T) {
	w := newSuspendingWorld(t)
	gang := w.submitPlain(sched.Spec{GPUs: 2}, nil)
	w.decide()
	all := w.running([]sched.JobID{gang}, 2)
	for _, p := range all {
		if devices(p) != 1 {
			t.Errorf("pod %s asks for %d devices; want one replica", p.Name, devices(p))
		}
	}
	if _, err := w.now().Command(t.Context(), admin, gang, api.Pause); err != nil {
		t.Fatal(err)
	}
	w.wait("it is suspended", func() bool { return w.job(gang).State == api.Paused && w.Frozen()[gang] })
	for _, p := range all {
		if off, frozen := w.off(p); !off || !frozen {
			t.Errorf("pod %s: off its GPUs %v, frozen %v; want both", p.Name, off, frozen)
		}
	}
	probed := w.submitPlain(sched.Spec{GPUs: 1}, map[string]string{probe: "yes"})
	w.decide()
	w.running([]sched.JobID{probed}, 1)
	if _, err := w.now().Command(t.Context(), admin, probed, api.Pause); err != nil {
		t.Fatal(err)
	}
	w.wait("it is refused", func() bool {
		j := w.job(probed)
		return j.State == api.Running && j.Status.Suspension != nil && strings.Contains(j.Status.Suspension.Failed, "liveness probe")
	})
	if v := w.of(probed); len(v) != 1 || v[0].Labels[v1alpha1.LabelAttempt] != "1" {
		t.Errorf("pods %v; want the first attempt", w.text())
	}
}
