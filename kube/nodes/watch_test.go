// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/nodes"
	"github.com/fairway-gpu/fairway/sched"
)

var shared = kubetest.Shared{Options: kubetest.Options{Nodes: []kubetest.NodeSpec{
	{Count: 2, GPUs: 4, Type: "NVIDIA-A100-SXM4-80GB", PerRack: 1}, {Prefix: "plain", Count: 1},
}}}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // without a logger, clients print a warning
	os.Exit(shared.Main(m))
}

// notes is a state that records what it is told.
type notes struct {
	mu   sync.Mutex
	all  []string // without repetitions
	seen int      // up to where the test has waited for them
	told int
	news chan struct{}
}

func (n *notes) SetNodes(_ context.Context, list []sched.Node) error {
	var out []string
	for _, x := range list {
		state := [...]string{"ready", "cordoned", "down"}[x.State]
		out = append(out, fmt.Sprintf("%s %dx%s %s others %d", x.Name, x.GPUs, x.Type, state, x.Others.Len()))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if text := strings.Join(out, ", "); len(n.all) == 0 || n.all[len(n.all)-1] != text {
		n.all = append(n.all, text)
	}
	n.told++
	select {
	case n.news <- struct{}{}:
	default:
	}
	return nil
}

func (n *notes) times() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told
}

// wait waits until the state is told something, after the last thing that was waited
// for. Other reports may come in between.
func (n *notes) wait(t *testing.T, want string) {
	t.Helper()
	for late := time.After(2 * time.Minute); ; {
		n.mu.Lock()
		later := n.all[n.seen:]
		if i := slices.Index(later, want); i >= 0 {
			n.seen += i + 1
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		select {
		case <-n.news:
		case <-late:
			t.Fatalf("the state was told %q; want %q", later, want)
		}
	}
}

func TestWatch(t *testing.T) {
	c := shared.Cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	informers, err := cache.New(c.Admin(), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = informers.Start(ctx) }()
	state := &notes{news: make(chan struct{}, 1)}
	done := make(chan error, 1)
	w := nodes.New(nodes.Config{Cache: informers, State: state, Grace: 10 * time.Second})
	go func() { done <- w.Run(ctx) }()
	if <-w.Told(); state.times() == 0 {
		t.Error("the watcher says that the state knows the nodes, and told it nothing")
	}
	state.wait(t, "node-0 4xa100 ready others 0, node-1 4xa100 ready others 0")

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{kubetest.GPU: resource.MustParse("3")},
		}}}},
	}
	if err := c.Client.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	state.wait(t, "node-0 4xa100 ready others 0, node-1 4xa100 ready others 3")
	if err := c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	edit := func(name string, change func(*corev1.Node)) {
		t.Helper()
		n := &corev1.Node{}
		if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			t.Fatal(err)
		}
		before := n.DeepCopy()
		change(n)
		if err := c.Client.Patch(ctx, n, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	edit("node-0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	state.wait(t, "node-0 4xa100 cordoned others 0, node-1 4xa100 ready others 0")
	edit("node-0", func(n *corev1.Node) { n.Spec.Unschedulable = false; n.Labels[nodes.LabelIgnore] = "true" })
	state.wait(t, "node-1 4xa100 ready others 0")
	edit("node-0", func(n *corev1.Node) { delete(n.Labels, nodes.LabelIgnore) })
	state.wait(t, "node-0 4xa100 ready others 0, node-1 4xa100 ready others 0")
	if err := c.FailNode(ctx, "node-1"); err != nil {
		t.Fatal(err)
	}
	state.wait(t, "node-0 4xa100 ready others 0, node-1 4xa100 cordoned others 0")
	state.wait(t, "node-0 4xa100 ready others 0, node-1 4xa100 down others 0")
	if err := c.RecoverNode(ctx, "node-1"); err != nil {
		t.Fatal(err)
	}
	state.wait(t, "node-0 4xa100 ready others 0, node-1 4xa100 ready others 0")
	if err := c.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}); err != nil {
		t.Fatal(err)
	}
	state.wait(t, "node-1 4xa100 ready others 0")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
