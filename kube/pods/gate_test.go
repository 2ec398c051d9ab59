// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// queue returns how many callers wait at a gate.
func (g *gate) queue() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, list := range g.waiting {
		n += len(list)
	}
	return n
}

// TestGate: requests that complete something go before those that begin something, each
// kind in order, and a caller that gives up blocks nobody.
func TestGate(t *testing.T) {
	g := newGate(1)
	ctx := t.Context()
	if err := g.enter(ctx, later); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	wait := func(ctx context.Context, name string, when turn) {
		before := g.queue()
		all.Go(func() {
			err := g.enter(ctx, when)
			mu.Lock()
			if err != nil {
				name += " gave up"
			}
			order = append(order, name)
			mu.Unlock()
			if err == nil {
				g.leave()
			}
		})
		for g.queue() == before {
			runtime.Gosched() // until it waits
		}
	}
	short, cancel := context.WithCancel(ctx)
	wait(ctx, "create a", later)
	wait(ctx, "create b", later)
	wait(short, "bind c", first)
	wait(ctx, "bind d", first)
	wait(ctx, "bind e", first)
	cancel()
	for g.queue() == 5 {
		runtime.Gosched() // until c has given up
	}
	g.leave()
	all.Wait()
	if diff := cmp.Diff([]string{"bind c gave up", "bind d", "bind e", "create a", "create b"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if g.free != 1 {
		t.Errorf("%d places are free in the end; want 1", g.free)
	}
	done, stop := context.WithCancel(ctx)
	stop()
	if err := g.enter(done, later); err != nil {
		t.Errorf("a free place: %v", err)
	}
	if err := g.enter(done, later); !errors.Is(err, context.Canceled) {
		t.Errorf("no place is free and the context is over: %v; want that", err)
	}
}
