// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"slices"
	"sync"
)

// turn is the priority of a request.
type turn int

const (
	first turn = iota // requests that complete something: binding, deleting
	later             // requests that begin something
	turns
)

// gate limits concurrent requests. Gangs that have begun go first: if a thousand gangs
// start at once, they become complete one after the other instead of all at the end.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting [turns][]chan struct{}
}

func newGate(n int) *gate { return &gate{free: n} }

// enter waits for the caller's turn. The caller must call leave afterwards.
func (g *gate) enter(ctx context.Context, when turn) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	in := make(chan struct{})
	g.waiting[when] = append(g.waiting[when], in)
	g.mu.Unlock()
	select {
	case <-in:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(g.waiting[when], in)
	if i >= 0 {
		g.waiting[when] = slices.Delete(g.waiting[when], i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // its turn came at the same moment
		g.leave()
	}
	return ctx.Err()
}

// leave makes room for the next.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for when := range g.waiting {
		if list := g.waiting[when]; len(list) > 0 {
			close(list[0])
			list[0] = nil
			g.waiting[when] = list[1:]
			return
		}
	}
	g.free++
}
