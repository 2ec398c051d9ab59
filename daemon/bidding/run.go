// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/sched"
)

// Gate returns the backend with the exchange in front: a snapshot then holds the
// bids on what is for sale at that moment.
func (x *Exchange) Gate(b loop.Backend) loop.Backend { return gate{b, x} }

type gate struct {
	loop.Backend
	exchange *Exchange
}

// Snapshot implements loop.Backend.
func (g gate) Snapshot(ctx context.Context) (*sched.Snapshot, error) {
	g.exchange.Refresh(ctx)
	return g.Backend.Snapshot(ctx)
}

// Run keeps bids fresh while nothing happens, and sends agents what they won,
// until the context ends. While no app has an agent it only waits.
func (x *Exchange) Run(ctx context.Context) error {
	told := map[sched.AppID]*telling{}
	defer x.leave()
	// A busy journal must not make this busy.
	const pace = 500 * time.Millisecond
	for {
		moved := x.State.Moved()
		x.Refresh(ctx)
		x.tell(ctx, told)
		var tick <-chan time.Time
		if len(x.State.Bidders()) > 0 {
			tick = time.After(x.Every)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-tick:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pace):
		}
	}
}

// leave closes all connections.
func (x *Exchange) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seat(nil)
}

// telling is what an agent was last told about its app's GPUs.
type telling struct {
	address api.BidderAddress
	agent   Agent
	grants  []JobGrant
	tries   int       // of the news that it has not taken yet
	next    time.Time // earliest time to send it again
}

// maxTries is how often the same message is sent to an agent.
const maxTries = 3

// tell sends every agent what its app holds, if that has changed. It uses separate
// connections, so that it and a round never wait for each other.
func (x *Exchange) tell(ctx context.Context, told map[sched.AppID]*telling) {
	bidders, lease := x.bidders()
	still := map[sched.AppID]bool{}
	for _, b := range bidders {
		still[b.App] = true
		if t := told[b.App]; b.Problem == "" && (t == nil || t.address != b) {
			if t != nil {
				closeAgent(t.agent)
			}
			told[b.App] = &telling{address: b}
		}
	}
	for id, t := range told {
		if !still[id] {
			closeAgent(t.agent)
			delete(told, id)
		}
	}
	if len(told) == 0 {
		return
	}
	m := newMarket(x.State.Look(), lease)
	var wg sync.WaitGroup
	places := make(chan struct{}, x.AtOnce)
	for id, t := range told {
		grants := m.grants(id)
		if reflect.DeepEqual(grants, t.grants) && t.tries == 0 || len(grants) == 0 && t.grants == nil || time.Now().Before(t.next) {
			continue
		}
		if !reflect.DeepEqual(grants, t.grants) {
			t.grants, t.tries = grants, maxTries
		}
		win := Win{Round: uint64(m.s.Now.UnixMilli()), Now: m.s.Now, App: id, Jobs: grants, Lease: lease.Seconds()}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			x.tellOne(ctx, t, win)
		})
	}
	wg.Wait()
}

func (x *Exchange) tellOne(ctx context.Context, t *telling, win Win) {
	ctx, cancel := context.WithTimeout(ctx, x.Deadline)
	defer cancel()
	var err error
	if t.agent == nil {
		t.agent, err = x.Dial(t.address)
	}
	if err == nil {
		err = t.agent.Win(ctx, win)
	}
	if err == nil {
		t.tries, t.next = 0, time.Time{}
		return
	}
	t.tries--
	t.next = time.Now().Add(firstPause)
	x.Log.Info("tell agent what it won", "app", t.address.App, "err", err, "tries left", t.tries)
}

func closeAgent(a Agent) {
	if c, ok := a.(interface{ Close() }); ok {
		c.Close()
	}
}
