// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// Hub is the operator's side: it keeps what the agents should do, and what they told.
type Hub struct {
	// Changed is called when the agent of a node came, went or changed its mind about what
	// it can; may be nil.
	Changed func()
	Now     func() time.Time // default time.Now

	mu    sync.Mutex
	nodes map[string]*desk
}

// desk is the hub's view of one node.
type desk struct {
	cannot string
	seen   time.Time // when the agent reported last
	begun  map[string]bool
	states map[api.AttemptID]State

	version uint64
	orders  map[api.AttemptID]Order
	news    chan struct{} // closed: version has changed
}

func (h *Hub) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

// desk returns that of a node. The caller holds the lock.
func (h *Hub) desk(node string) *desk {
	if h.nodes == nil {
		h.nodes = map[string]*desk{}
	}
	d := h.nodes[node]
	if d == nil {
		// Versions of an earlier operator are less: an agent must not take an order of
		// this one for one that it has.
		d = &desk{version: uint64(h.now().UnixNano()), orders: map[api.AttemptID]Order{}, news: make(chan struct{})}
		h.nodes[node] = d
	}
	return d
}

// Able reports whether the agent of a node can suspend pods; if not, why.
func (h *Hub) Able(node string) (ok bool, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.nodes[node]
	switch {
	case d == nil || d.seen.IsZero():
		return false, "no agent runs there"
	case h.now().Sub(d.seen) > silence:
		return false, "its agent is silent"
	}
	return d.cannot == "", d.cannot
}

// Begun reports whether a gang is suspended, or was being, as far as the agent knows that
// has its first pod.
func (h *Hub) Begun(node, pod string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.nodes[node]
	return d != nil && d.begun[pod]
}

// Set gives an order, if it is another than before, and returns how far it is; false: the
// agent has not told yet.
func (h *Hub) Set(node string, o Order) (State, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.desk(node)
	old, known := d.orders[o.AttemptID]
	if o.Turn = old.Turn; !known || old.Want != o.Want {
		o.Turn = max(old.Turn+1, h.now().UnixNano())
	}
	if !known || old.Turn != o.Turn || old.Told != o.Told {
		d.orders[o.AttemptID] = o
		d.bump()
	}
	s, ok := d.states[o.AttemptID]
	return s, ok && s.Turn == o.Turn
}

// Again repeats an order that has failed.
func (h *Hub) Again(node string, id api.AttemptID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.desk(node)
	if o, ok := d.orders[id]; ok {
		o.Turn = max(o.Turn+1, h.now().UnixNano())
		d.orders[id] = o
		d.bump()
	}
}

// Drop takes an order back: the agent leaves the gang as it is.
func (h *Hub) Drop(node string, id api.AttemptID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.nodes[node]; d != nil {
		if _, ok := d.orders[id]; ok {
			delete(d.orders, id)
			d.bump()
		}
	}
}

func (d *desk) bump() {
	d.version++
	close(d.news)
	d.news = make(chan struct{})
}

// Sync takes the report of a node's agent, and returns its orders when there are others
// than it has, or after a while.
func (h *Hub) Sync(ctx context.Context, node string, r Report) Orders {
	h.mu.Lock()
	d := h.desk(node)
	now := h.now()
	changed := d.cannot != r.Cannot || now.Sub(d.seen) > silence
	d.cannot, d.seen, d.begun, d.states = r.Cannot, now, map[string]bool{}, map[api.AttemptID]State{}
	for _, pod := range r.Begun {
		d.begun[pod] = true
	}
	for _, s := range r.States {
		d.states[s.AttemptID] = s
	}
	news, version := d.news, d.version
	h.mu.Unlock()
	if changed && h.Changed != nil {
		h.Changed()
	}
	if r.Seen == version {
		timer := time.NewTimer(hold)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-news:
		case <-timer.C:
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	orders := slices.SortedFunc(maps.Values(d.orders), func(a, b Order) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), a.Number-b.Number)
	})
	return Orders{Version: d.version, Orders: orders}
}
