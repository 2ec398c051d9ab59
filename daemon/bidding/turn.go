// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"context"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// take is one agent's turn: it is asked, and its bid is stored or withdrawn.
func (x *Exchange) take(ctx context.Context, m *market, t *turn) {
	now := time.Now()
	bid, err := x.ask(ctx, m, t)
	if err != nil && cutShort(ctx, time.Since(now), x.Deadline) {
		return // not the agent's fault
	}
	t.done, t.seat.asked, t.seat.offer = true, now, t.offer
	if err != nil {
		x.fail(ctx, t.seat, err)
		return
	}
	t.failures = 0
	x.Observe("ok")
	if t.bid != nil && alike(t.bid, bid) && now.Sub(t.kept) < 3*x.Every {
		return
	}
	if err := x.State.SetBid(context.WithoutCancel(ctx), t.address.App, bid, ""); err != nil {
		if api.CodeOf(err) != api.Unknown { // its last job may have ended in the meantime
			x.Log.Warn("store bid", "app", t.address.App, "err", err)
		}
		t.bid = nil
		return
	}
	t.bid, t.kept = bid, now
}

// cutShort reports whether an agent had less time than its deadline: the daemon
// stops, or others used up the round.
func cutShort(ctx context.Context, had, deadline time.Duration) bool {
	switch ctx.Err() {
	case nil:
		return false
	case context.DeadlineExceeded:
		return had < 2*deadline*9/10
	}
	return true
}

// miss withdraws the bid of an agent that was not asked in time, because it is
// about another offer. The agent goes first the next time.
func (x *Exchange) miss(ctx context.Context, s *seat) {
	s.asked = time.Time{}
	x.Observe("missed")
	if s.bid == nil || ctx.Err() != nil {
		return
	}
	s.bid = nil
	if err := x.State.SetBid(ctx, s.address.App, nil, "there was no time to ask the agent"); err != nil && api.CodeOf(err) != api.Unknown {
		x.Log.Warn("withdraw bid", "app", s.address.App, "err", err)
	}
}

// ask sends both questions to an agent, or only the first if nothing is for sale.
func (x *Exchange) ask(ctx context.Context, m *market, t *turn) (*sched.Bid, error) {
	if t.address.Problem != "" {
		return nil, fault(Silent, "%s", t.address.Problem)
	}
	if t.agent == nil {
		agent, err := x.Dial(t.address)
		if err != nil {
			return nil, err
		}
		t.agent = agent
	}
	reply, err := t.agent.Rho(ctx, RhoQuery{Round: t.offer.Round, Now: t.offer.Now, App: t.offer.App, Lease: t.offer.Lease})
	if err != nil {
		return nil, err
	}
	if err := checkRho(reply.Rho); err != nil {
		return nil, fault(Nonsense, "%w", err)
	}
	if len(t.offer.Free) == 0 {
		return &sched.Bid{At: m.s.Now, Rho: reply.Rho}, nil
	}
	table, err := t.agent.Bid(ctx, t.offer)
	if err != nil {
		return nil, err
	}
	if err := t.offer.Check(table); err != nil {
		return nil, fault(Nonsense, "%w", err)
	}
	return m.bid(table), nil
}

// fail withdraws an agent's bid and makes it wait.
func (x *Exchange) fail(ctx context.Context, s *seat, err error) {
	s.failures++
	pause := min(mostPause, firstPause<<min(s.failures-1, 10))
	s.pause = time.Now().Add(pause)
	s.bid = nil
	x.Observe(string(faultOf(err)))
	x.Log.Warn("the bidder failed", "app", s.address.App, "reason", faultOf(err), "err", err, "failures", s.failures, "pause", pause)
	err = x.State.SetBid(context.WithoutCancel(ctx), s.address.App, nil, "its agent was "+word(faultOf(err)))
	if err != nil && api.CodeOf(err) != api.Unknown {
		x.Log.Warn("withdraw bid", "app", s.address.App, "err", err)
	}
}

// word returns the adjective for a fault.
func word(f Fault) string {
	switch f {
	case Refused:
		return "unwilling"
	case TooLarge:
		return "too talkative"
	case Nonsense:
		return "wrong"
	}
	return string(f)
}

// alike reports whether two bids are the same within a small tolerance.
func alike(a, b *sched.Bid) bool {
	const trifle = 0.01
	close := func(x, y float64) bool { return math.Abs(x-y) <= trifle*max(x, y) }
	return close(a.Rho, b.Rho) && slices.EqualFunc(a.Rows, b.Rows, func(r, s sched.BidRow) bool {
		return close(r.Rho, s.Rho) && reflect.DeepEqual(r.Take, s.Take)
	})
}
