// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/fairway-gpu/fairway/bidding"
	"github.com/fairway-gpu/fairway/book"
	"github.com/fairway-gpu/fairway/guard"
	"github.com/fairway-gpu/fairway/hunt"
	"github.com/fairway-gpu/fairway/live"
	"github.com/fairway-gpu/fairway/server"
)

// Scheduler is what makes a book decide.
type Scheduler struct {
	Book    *book.Book
	Guard   *guard.Guard
	Metrics *server.Metrics
	Bidders Bidders
	Pace    time.Duration // least time between two decisions
	Log     *slog.Logger
	// After are closed when the book knows what the first decision must not be made
	// without.
	After []<-chan struct{}
}

// Parts returns what has to run for jobs to be decided about.
func (s Scheduler) Parts() ([]Part, error) {
	exchange, err := s.exchange()
	if err != nil {
		return nil, err
	}
	return []Part{
		{"ask bidders", exchange.Run},
		{"decide", func(ctx context.Context) error { return s.decide(ctx, exchange.Gate(s.Book)) }},
		{"run searches", func(ctx context.Context) error {
			return hunt.Run(ctx, hunt.Config{Jobs: s.Book, Ledger: s.Book, Log: s.Log})
		}},
		{"sample", func(ctx context.Context) error { s.Book.Sample(ctx); return nil }},
		{"release nodes", s.release},
	}, nil
}

func (s Scheduler) decide(ctx context.Context, b live.Backend) error {
	for _, known := range s.After {
		select {
		case <-ctx.Done():
			return nil
		case <-known:
		}
	}
	return live.Run(ctx, live.Config{
		Backend: b, Policy: s.Book.InForce, Guard: s.Guard, Log: s.Log, Pace: s.Pace,
		Decided: func(d live.Decision, took time.Duration) {
			s.Metrics.ObserveDecision(took, nil)
			s.Book.Decided(d, took)
		},
		Trouble: func(err error) {
			if err == nil {
				s.Book.SetProblem("decide", "")
				return
			}
			s.Metrics.ObserveDecision(0, err)
			s.Book.SetProblem("decide", err.Error())
		},
	})
}

// release takes nodes back whose quarantine is over, until the context ends.
func (s Scheduler) release(ctx context.Context) error {
	const every = 2 * time.Second
	for tick := time.Tick(every); ; {
		if err := s.Book.Release(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("release nodes", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// exchange makes the exchange with programs that bid for apps.
func (s Scheduler) exchange() (*bidding.Exchange, error) {
	c := s.Bidders
	hosts, err := bidding.NewHosts(c.Hosts)
	if err != nil {
		return nil, err
	}
	return bidding.New(bidding.Config{
		Book: s.Book, Deadline: c.Deadline.D(), Every: c.Every.D(), Log: s.Log, Observe: s.Metrics.ObserveBid,
		Lease: func() (time.Duration, bool) {
			inForce, spec := s.Book.InForce()
			return leaseOf(inForce, spec)
		},
		Dial: func(b live.BidderAddress) (bidding.Agent, error) {
			return bidding.NewHTTPAgent(b.URL, bidding.HTTPOptions{Secret: b.Secret, Deadline: c.Deadline.D(), Hosts: hosts})
		},
	}), nil
}
