// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fairway-gpu/fairway/kube/informer"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/sched"
)

// Watcher follows the nodes and pods of a cluster and updates the state.
type Watcher struct {
	Config
	dirty chan struct{} // of one: something has changed
	told  chan struct{} // closed: the state knows the nodes

	mu    sync.Mutex
	nodes map[string]*facts
	used  map[string]*demand // by node: what others use
	pods  map[types.UID]place
	shown map[string]*shown // by node
}

// place is what a pod that is not Fairway's uses of a node.
type place struct {
	node string
	demand
}

// New returns a watcher; Run starts it.
func New(c Config) *Watcher {
	return &Watcher{
		Config: c.withDefaults(), dirty: make(chan struct{}, 1), told: make(chan struct{}),
		nodes: map[string]*facts{}, used: map[string]*demand{}, pods: map[types.UID]place{}, shown: map[string]*shown{},
	}
}

// Told is closed when the state has the current nodes. Until then it has those of an
// earlier leader.
func (w *Watcher) Told() <-chan struct{} { return w.told }

// Run updates the state's nodes until the context ends. The caller must start the
// cache. Nothing is reported before the cache has all nodes and pods, because a missing
// node would count as gone.
func (w *Watcher) Run(ctx context.Context) error {
	undo, err := w.follow(ctx)
	if err != nil {
		return err
	}
	defer undo()
	w.Constraints.AwaitFilled(ctx)
	first := sync.OnceFunc(func() { close(w.told) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Constraints.Changed(): // a job waits for it
		case <-w.dirty:
			select { // collect further changes
			case <-ctx.Done():
				return nil
			case <-time.After(w.Debounce):
			}
			select {
			case <-w.dirty:
			default:
			}
		case <-timer.C:
		}
		wait := w.Resync
		nodes, again, version := w.list()
		if !again.IsZero() {
			wait = min(wait, max(time.Millisecond, again.Sub(w.Now())))
		}
		if err := w.State.SetNodes(ctx, nodes); err != nil && ctx.Err() == nil {
			w.Log.Error("update nodes", "err", err)
			wait = min(wait, time.Second)
		} else {
			w.Constraints.Confirm(version)
			first()
		}
		timer.Reset(wait)
	}
}

// follow subscribes to every change in the cache, and returns when all existing
// objects were seen. undo ends it.
func (w *Watcher) follow(ctx context.Context) (undo func(), err error) {
	type registered struct {
		informer interface {
			RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error
		}
		handle toolscache.ResourceEventHandlerRegistration
	}
	var all []registered
	undo = func() {
		for _, r := range all {
			_ = r.informer.RemoveEventHandler(r.handle) // an error means that the informer has stopped
		}
	}
	nodes, err := w.Cache.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	h, err := nodes.AddEventHandler(informer.On(w.setNode, w.dropNode))
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	all = append(all, registered{nodes, h})
	pods, err := w.Cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		undo()
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	g, err := pods.AddEventHandler(informer.On(w.setPod, w.dropPod))
	if err != nil {
		undo()
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	all = append(all, registered{pods, g})
	if !toolscache.WaitForCacheSync(ctx.Done(), h.HasSynced, g.HasSynced) {
		undo()
		return nil, fmt.Errorf("watch nodes and pods: %w", ctx.Err())
	}
	return undo, nil
}

func (w *Watcher) setNode(n *corev1.Node) {
	f, ok := w.factsOf(n)
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.nodes[n.Name]
	switch {
	case !ok && old == nil:
		return
	case !ok:
		delete(w.nodes, n.Name)
	default:
		if old != nil && old.equal(&f) {
			return // a heartbeat
		}
		if f.closed != "" && (old == nil || old.closed != f.closed) {
			w.Log.Warn("node takes no new jobs", "node", n.Name, "why", f.closed)
		}
		w.nodes[n.Name] = &f
	}
	w.poke()
}

func (w *Watcher) dropNode(n *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes[n.Name] != nil {
		delete(w.nodes, n.Name)
		delete(w.shown, n.Name)
		w.poke()
	}
}

func (f *facts) equal(g *facts) bool {
	a, b := f.node, g.node
	return a.Name == b.Name && a.GPUs == b.GPUs && a.Type == b.Type && a.GPUMemory == b.GPUMemory && a.Rack == b.Rack && slices.Equal(a.Domains, b.Domains) && a.State == b.State &&
		a.Seats == b.Seats && f.closed == g.closed && f.still == g.still && f.resource == g.resource && f.replicas == g.replicas && f.sick == g.sick && f.cpu == g.cpu && f.memory == g.memory &&
		f.unready.Equal(g.unready) && maps.Equal(f.labels, g.labels) && maps.EqualFunc(f.devices, g.devices, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }) && slices.EqualFunc(f.taints, g.taints, sameTaint)
}

// sameTaint reports whether two taints keep the same pods off, whenever they were
// added.
func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

func (w *Watcher) setPod(p *corev1.Pod) {
	if p.Spec.NodeName == "" || request.Ended(p) || w.OwnsPod(p) {
		w.dropPod(p)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := place{p.Spec.NodeName, demandOf(p, w.Resources)}
	if old, known := w.pods[p.UID]; known {
		if old.node == at.node && old.cpu == at.cpu && old.memory == at.memory && maps.Equal(old.gpus, at.gpus) {
			return
		}
		w.count(old, -1)
	}
	w.pods[p.UID] = at
	w.count(at, 1)
}

func (w *Watcher) dropPod(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, known := w.pods[p.UID]; known {
		delete(w.pods, p.UID)
		w.count(at, -1)
	}
}

// count adds what a pod uses to the sum of its node, or subtracts it.
func (w *Watcher) count(at place, sign int64) {
	sum := w.used[at.node]
	if sum == nil {
		sum = &demand{gpus: map[corev1.ResourceName]int64{}}
		w.used[at.node] = sum
	}
	sum.cpu += sign * at.cpu
	sum.memory += sign * at.memory
	for name, n := range at.gpus {
		if sum.gpus[name] += sign * n; sum.gpus[name] == 0 {
			delete(sum.gpus, name)
		}
	}
	if sum.cpu == 0 && sum.memory == 0 && len(sum.gpus) == 0 {
		delete(w.used, at.node)
	}
	if w.nodes[at.node] != nil {
		w.poke()
	}
}

// noSuspend returns why pods of a node cannot be suspended; empty: they can.
func (w *Watcher) noSuspend(name string, f *facts) string {
	if w.Able == nil {
		return "it is turned off"
	}
	if ok, why := w.Able(name); !ok {
		return why
	}
	return f.still
}

// NoSuspend returns why pods of a node cannot be suspended; empty: they can.
func (w *Watcher) NoSuspend(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.nodes[name]
	if f == nil {
		return "it is not part of the cluster"
	}
	return w.noSuspend(name, f)
}

// Recheck looks at all nodes again soon.
func (w *Watcher) Recheck() { w.poke() }

func (w *Watcher) poke() {
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

// list returns the current nodes by name, when they change by themselves, and the
// version of the constraints they are labelled with.
func (w *Watcher) list() (out []sched.Node, again time.Time, version uint64) {
	all, version := w.Constraints.List()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Now()
	out = make([]sched.Node, 0, len(w.nodes))
	for name, f := range w.nodes {
		var others demand
		if sum := w.used[name]; sum != nil {
			others = *sum
		}
		f.setLabels(w.Constraints.Rules, all, version)
		if w.shown[name] == nil {
			w.shown[name] = &shown{}
		}
		others, settles := w.shown[name].settle(now, others, f, w.Settle)
		n, at := f.with(others, now, w.Grace)
		n.Suspend = w.noSuspend(name, f) == ""
		for _, at := range []time.Time{at, settles} {
			if !at.IsZero() && (again.IsZero() || at.Before(again)) {
				again = at
			}
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b sched.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out, again, version
}
