// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// State is what an exchange needs of the daemon's state.
type State interface {
	// Look returns the current snapshot.
	Look() *sched.Snapshot
	// Bidders returns the addresses of the bidders of active apps.
	Bidders() []api.BidderAddress
	// SetBid stores the bid of an app; nil withdraws it, for a reason.
	SetBid(ctx context.Context, app sched.AppID, bid *sched.Bid, why string) error
	// Moved returns a channel that is closed when something happens.
	Moved() <-chan struct{}
}

// Config is what an exchange needs.
type Config struct {
	State State
	// Lease returns how long the policy in force grants GPUs; ok is false if it
	// holds no auction, and then no agent is asked.
	Lease func() (lease time.Duration, ok bool)
	// Dial returns the agent at an address. Agents with a method Close are closed
	// with it.
	Dial     func(api.BidderAddress) (Agent, error)
	Deadline time.Duration // of one question; 0: DefaultDeadline
	// Every is the time after which an agent is asked again although nothing has
	// changed for it; 0: 10 s.
	Every  time.Duration
	AtOnce int // agents that are asked at the same time; 0: 64
	Log    *slog.Logger
	// Observe gets the result of each turn, "ok" or the fault; may be nil.
	Observe func(result string)
}

// When a failed agent is asked again.
const (
	firstPause = 2 * time.Second
	mostPause  = 5 * time.Minute
)

// Exchange asks agents for bids. Make one with New; it is safe for concurrent use.
type Exchange struct {
	Config
	mu    sync.Mutex // held for a round
	seats map[sched.AppID]*seat
	round uint64
}

// seat is the state of one agent.
type seat struct {
	address  api.BidderAddress
	agent    Agent
	asked    time.Time // zero: never
	offer    Offer     // the last one it was asked about
	bid      *sched.Bid
	kept     time.Time // when its bid was kept
	failures int       // in a row
	pause    time.Time // it is not asked before
}

// New makes an exchange.
func New(c Config) *Exchange {
	if c.Deadline <= 0 {
		c.Deadline = DefaultDeadline
	}
	if c.Every <= 0 {
		c.Every = 10 * time.Second
	}
	if c.AtOnce <= 0 {
		c.AtOnce = 64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(string) {}
	}
	// Round numbers also grow over restarts, as long as the clock does.
	return &Exchange{Config: c, seats: map[sched.AppID]*seat{}, round: uint64(time.Now().UnixMilli())}
}

// Refresh asks the agents for which something has changed, or that were not asked
// for a while, and stores their bids. A round takes no longer than two questions,
// however many agents there are; agents not reached by then go first the next
// time.
func (x *Exchange) Refresh(ctx context.Context) {
	bidders, lease := x.bidders()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seat(bidders)
	if len(x.seats) == 0 {
		return
	}
	m := newMarket(x.State.Look(), lease)
	turns := x.due(m, time.Now())
	if len(turns) == 0 {
		return
	}
	round, cancel := context.WithTimeout(ctx, 2*x.Deadline)
	defer cancel()
	var wg sync.WaitGroup
	places := make(chan struct{}, x.AtOnce)
	for _, t := range turns {
		select {
		case places <- struct{}{}:
		case <-round.Done():
			continue
		}
		wg.Go(func() {
			defer func() { <-places }()
			x.take(round, m, t)
		})
	}
	wg.Wait()
	for _, t := range turns {
		if !t.done {
			x.miss(ctx, t.seat)
		}
	}
}

// bidders returns the bidders and the lease of what they may win; none while the
// policy in force holds no auction.
func (x *Exchange) bidders() ([]api.BidderAddress, time.Duration) {
	all := x.State.Bidders()
	if len(all) == 0 {
		return nil, 0
	}
	lease, auction := x.Lease()
	if !auction {
		return nil, 0
	}
	return all, lease
}

// seat adds a seat for every bidder and removes the others.
func (x *Exchange) seat(bidders []api.BidderAddress) {
	still := make(map[sched.AppID]bool, len(bidders))
	for _, b := range bidders {
		still[b.App] = true
		if s := x.seats[b.App]; s == nil || s.address != b {
			if s != nil {
				s.close()
			}
			x.seats[b.App] = &seat{address: b}
		}
	}
	for id, s := range x.seats {
		if !still[id] {
			s.close()
			delete(x.seats, id)
		}
	}
}

func (s *seat) close() { closeAgent(s.agent) }

// turn is one agent's turn in a round.
type turn struct {
	*seat
	offer Offer
	done  bool // it had its turn, well or badly
}

// due returns the agents to ask, those that waited longest first.
func (x *Exchange) due(m *market, now time.Time) []*turn {
	var out []*turn
	for id, s := range x.seats {
		if now.Before(s.pause) {
			continue
		}
		o := m.offer(id)
		if !s.asked.IsZero() && now.Sub(s.asked) < x.Every && same(o, s.offer) {
			continue
		}
		x.round++
		o.Round, o.Deadline = x.round, x.Deadline.Milliseconds()
		out = append(out, &turn{seat: s, offer: o})
	}
	slices.SortFunc(out, func(a, b *turn) int {
		return cmp.Or(a.asked.Compare(b.asked), cmp.Compare(a.address.App, b.address.App))
	})
	return out
}
