// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/sched"
)

// Agent is the node's side. All fields are required but Log.
type Agent struct {
	Dir  string // of its files, which the processes outlive only with the machine: on a tmpfs of the host
	Host suspend.Host
	// Target returns the processes of an order's pods; its file is set by the agent.
	Target func(Order) (suspend.Target, error)
	Exists func(uid string) bool // whether a pod is still there
	// Sync asks the hub.
	Sync func(context.Context, Report) (Orders, error)
	Log  *slog.Logger

	mu     sync.Mutex
	gangs  map[api.AttemptID]*gang
	cancel context.CancelFunc // ends the waiting for orders
	work   sync.WaitGroup
}

// gang is an agent's view of an order.
type gang struct {
	order Order
	busy  bool
	done  State
}

// ending is what a target's file ends with.
const ending = ".json"

// retryPause is how long an agent waits after the hub did not answer.
const retryPause = 2 * time.Second

// Run follows orders until the context ends. What is suspended then stays so.
func (a *Agent) Run(ctx context.Context) error {
	if a.Log == nil {
		a.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return fmt.Errorf("make the agent's folder: %w", err)
	}
	a.gangs = map[api.AttemptID]*gang{}
	defer a.work.Wait()
	report := Report{}
	if err := a.Host.Able(); err != nil {
		report.Cannot = err.Error()
		a.Log.Warn("pods cannot be suspended on this node", "why", err)
	}
	for ctx.Err() == nil {
		report.States, report.Begun = a.states(), a.begun()
		waiting, cancel := context.WithTimeout(ctx, 3*hold)
		a.mu.Lock()
		a.cancel = cancel
		a.mu.Unlock()
		orders, err := a.Sync(waiting, report)
		woken := waiting.Err() != nil
		cancel()
		switch {
		case err == nil:
			report.Seen = orders.Version
			a.follow(orders.Orders)
		case !woken:
			a.Log.Warn("no orders", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(retryPause):
			}
		}
	}
	return nil
}

// states returns how far the orders are.
func (a *Agent) states() (out []State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.gangs {
		if g.done.Turn != 0 {
			out = append(out, g.done)
		}
	}
	return out
}

// begun returns the first pods of the gangs that have a file. The files of pods that are
// gone are removed.
func (a *Agent) begun() (out []string) {
	files, _ := filepath.Glob(filepath.Join(a.Dir, "*"+ending))
	for _, f := range files {
		if uid := strings.TrimSuffix(filepath.Base(f), ending); a.Exists(uid) {
			out = append(out, uid)
		} else {
			os.Remove(f)
		}
	}
	return out
}

// follow takes the present orders.
func (a *Agent) follow(list []Order) {
	a.mu.Lock()
	defer a.mu.Unlock()
	named := map[api.AttemptID]bool{}
	for i, o := range list {
		if err := o.Validate(); err != nil || i >= maxOrders {
			a.Log.Error("order refused", "job", o.Job, "attempt", o.Number, "err", err)
			continue
		}
		named[o.AttemptID] = true
		g := a.gangs[o.AttemptID]
		if g == nil {
			g = &gang{}
			a.gangs[o.AttemptID] = g
		}
		g.order = o
		a.start(g)
	}
	for id, g := range a.gangs {
		if !named[id] && !g.busy {
			delete(a.gangs, id)
		}
	}
}

// start works on an order, if it is not done and nobody does. The caller holds the lock.
func (a *Agent) start(g *gang) {
	if g.busy || g.done.Turn == g.order.Turn && (g.done.Told || !g.order.Told) {
		return
	}
	g.busy = true
	o := g.order
	a.work.Go(func() {
		s := a.carryOut(o)
		s.AttemptID, s.Turn = o.AttemptID, o.Turn
		if s.Failed != "" {
			a.Log.Error("order failed", "job", o.Job, "attempt", o.Number, "want", o.Want, "why", s.Failed)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		g.busy, g.done = false, s
		a.start(g) // it may have changed meanwhile
		if a.cancel != nil {
			a.cancel()
		}
	})
}

func (a *Agent) file(o Order) string { return filepath.Join(a.Dir, o.Pods[0]+ending) }

// carryOut makes the pods of an order what they should be.
func (a *Agent) carryOut(o Order) State {
	t, err := a.Target(o)
	t.File = a.file(o)
	if err != nil {
		is := Running
		if suspend.Begun(t) {
			is = Suspended
		}
		return State{Is: is, Failed: err.Error()}
	}
	switch o.Want {
	case Stopping:
		if err := suspend.Thaw(t); suspend.Begun(t) && err != nil {
			return State{Is: Suspended, Failed: err.Error()}
		}
		return State{Is: Stopping}
	case Running:
		began := time.Now()
		if err := a.Host.PutBack(t); err != nil {
			return State{Is: Suspended, Failed: err.Error()}
		}
		return State{Is: Running, Back: sched.Duration(time.Since(began))}
	}
	done, err := a.Host.TakeOff(t)
	if err != nil {
		s := State{Is: Running, Failed: err.Error(), Short: errors.Is(err, suspend.ErrShort)}
		if back := a.Host.PutBack(t); back != nil {
			s.Is, s.Failed = Suspended, s.Failed+"; and it could not be undone: "+back.Error()
		}
		return s
	}
	if o.Told && !done.Told {
		done.Told = suspend.Told(t) == nil
	}
	return State{Is: Suspended, Memory: done.Memory, Out: sched.Duration(done.Out), Told: done.Told}
}
