// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor"
	"github.com/fairway-gpu/fairway/kube/informer"
	"github.com/fairway-gpu/fairway/kube/request"
	"github.com/fairway-gpu/fairway/sched"
)

// Orders tells the executor what should run. Placements name nodes by number.
type Orders interface {
	executor.Port
	// NodeName returns the name of a node by its number; empty: there is none.
	NodeName(number int32) string
}

// Executor makes the pods of a cluster follow the orders.
type Executor struct {
	Config
	gate *gate         // for requests to the API server
	wake chan struct{} // of one: something has changed
	work sync.WaitGroup

	mu sync.Mutex
	store
	runs      map[api.AttemptID]*run
	externals map[api.AttemptID]*run // the runs of external workloads
	dirty     map[api.AttemptID]bool // to be stepped
	busy      map[api.AttemptID]bool // to be stepped periodically
	ended     map[sched.JobID]bool   // whose attempt ended, as was reported after the orders were read
	freed     bool                   // a GPU became free
	began     time.Time              // when it first read the orders
	reporting bool                   // ends are reported in this step, together: they share a page of the journal
}

// New returns an executor; Run starts it.
func New(c Config) *Executor {
	c = c.withDefaults()
	return &Executor{
		Config: c, gate: newGate(c.Parallel), wake: make(chan struct{}, 1),
		store: newStore(), runs: map[api.AttemptID]*run{}, externals: map[api.AttemptID]*run{}, dirty: map[api.AttemptID]bool{}, busy: map[api.AttemptID]bool{},
		ended: map[sched.JobID]bool{},
	}
}

const (
	progressEvery  = 250 * time.Millisecond // between steps of attempts in progress
	withdrawnEvery = time.Second            // between steps of withdrawn attempts
	orderEvery     = 50 * time.Millisecond  // between two readings of all orders, at least
	stepEvery      = 5 * time.Millisecond   // between two reactions to changes, at least
	reportAgain    = 10 * time.Second       // before an acknowledged exit is reported again
)

// Run follows orders until the context ends. The caller starts the cache. The executor
// does nothing before the cache has seen all pods and nodes.
func (e *Executor) Run(ctx context.Context, orders Orders) error {
	undo, err := e.follow(ctx)
	if err != nil {
		return err
	}
	defer undo()
	defer e.work.Wait()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	soon := time.NewTimer(0)
	defer soon.Stop()
	var asked, full time.Time
	ordered, ticked := true, true
	for {
		now := time.Now()
		ordered = ordered || e.outdated()
		if since := now.Sub(asked); ordered && since >= orderEvery || since >= withdrawnEvery {
			asked, ordered = now, false
			e.reorder(orders)
		} else if ordered {
			soon.Reset(orderEvery - since)
		}
		look := changedOnly
		if now.Sub(full) >= e.Resync {
			look, full = everything, now
		} else if ticked {
			look = underWay
		}
		e.step(ctx, orders, look)
		ticked = false
		if wait := stepEvery - time.Since(now); wait > 0 {
			time.Sleep(wait) // changes of pods come in bursts
		}
		select {
		case <-ctx.Done():
			return nil
		case <-orders.Ordered():
			ordered = true
		case <-e.wake:
		case <-soon.C:
		case <-tick.C:
			ticked = true
		}
	}
}

// outdated reports whether an end was reported that the orders may not know.
func (e *Executor) outdated() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.ended) > 0
}

// follow subscribes to every change in the cache, and returns when all existing
// objects were seen.
func (e *Executor) follow(ctx context.Context) (undo func(), err error) {
	var undos []func()
	undo = func() {
		for _, u := range undos {
			u()
		}
	}
	var synced []toolscache.InformerSynced
	nodes, err := e.Cache.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	pods, err := e.Cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	h, err := nodes.AddEventHandler(informer.On(e.setNode, e.dropNode))
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	undos = append(undos, func() { _ = nodes.RemoveEventHandler(h) })
	g, err := pods.AddEventHandler(informer.On(e.setPod, e.dropPod))
	if err != nil {
		undo()
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	undos = append(undos, func() { _ = pods.RemoveEventHandler(g) })
	synced = append(synced, h.HasSynced, g.HasSynced)
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		undo()
		return nil, fmt.Errorf("watch pods and nodes: %w", ctx.Err())
	}
	if e.Volumes != nil {
		select {
		case <-e.Volumes.Synced():
		case <-ctx.Done():
			undo()
			return nil, fmt.Errorf("watch volumes: %w", ctx.Err())
		}
	}
	return undo, nil
}

// known removes Fairway's labels from a pod that Fairway did not create: such a pod
// counts only by its requests.
func (e *Executor) known(p *corev1.Pod) *corev1.Pod {
	if _, _, ours := attemptOf(p); !ours || e.OwnsPod == nil || e.OwnsPod(p) {
		return p
	}
	other := *p
	other.Spec.SchedulerName = ""
	return &other
}

func (e *Executor) setPod(p *corev1.Pod) {
	p = e.known(p)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set(p)
	e.freed = e.freed || request.Ended(p)
	e.touch(p)
}

func (e *Executor) dropPod(p *corev1.Pod) {
	p = e.known(p)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(p)
	e.freed = true
	e.touch(p)
}

// touch marks every attempt that a changed pod affects.
func (e *Executor) touch(p *corev1.Pod) {
	if id, _, ours := attemptOf(p); ours {
		e.dirty[id] = true
	} else if p.Spec.NodeName == "" || len(devicesOf(&p.Spec)) == 0 {
		return
	} else {
		e.touchNode(p.Spec.NodeName)
	}
	e.poke()
}

func (e *Executor) touchNode(name string) {
	for _, u := range e.uses[name] {
		if u.id.Job != "" {
			e.dirty[u.id] = true
		}
	}
}

func (e *Executor) setNode(n *corev1.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.nodes[n.Name]
	e.nodes[n.Name] = n
	if old == nil || ready(old) != ready(n) {
		e.touchNode(n.Name)
		e.poke()
	}
}

func (e *Executor) dropNode(n *corev1.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.nodes, n.Name)
	e.touchNode(n.Name)
	e.poke()
}

func (e *Executor) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// background runs do for an attempt without the executor's lock, one at a time per
// attempt. The caller holds the lock, and so does the function that do returns.
func (e *Executor) background(r *run, do func() (after func())) {
	r.busy = true
	e.work.Go(func() {
		after := do()
		e.mu.Lock()
		defer e.mu.Unlock()
		r.busy = false
		if after != nil {
			after()
		}
		e.dirty[r.id] = true
		e.poke()
	})
}

// request makes a request to the API server when its turn comes.
func (e *Executor) request(ctx context.Context, do func(context.Context) error) error {
	return e.through(ctx, later, do)
}

func (e *Executor) through(ctx context.Context, when turn, do func(context.Context) error) error {
	if err := e.gate.enter(ctx, when); err != nil {
		return err
	}
	defer e.gate.leave()
	ctx, cancel := context.WithTimeout(ctx, RequestWithin)
	defer cancel()
	return do(ctx)
}

// RequestWithin bounds a request, so that an API server that hangs cannot block all
// slots forever. Config.Client should ask the API server to keep to it as well.
const RequestWithin = 20 * time.Second

// parallel makes requests concurrently and returns the error with the lowest index.
func (e *Executor) parallel(ctx context.Context, when turn, n int, do func(ctx context.Context, i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			errs[i] = e.through(ctx, when, func(ctx context.Context) error { return do(ctx, i) })
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
