// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/bidding"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/sched/guard"
	"github.com/fairway-gpu/fairway/server"
	"github.com/fairway-gpu/fairway/tune/runner"
)

// Scheduler makes decisions on a state store.
type Scheduler struct {
	State   *state.Store
	Guard   *guard.Guard
	Metrics *server.Metrics
	Bidders Bidders
	Pace    time.Duration // least time between two decisions
	Log     *slog.Logger
	// After are closed when the state knows what the first decision must not be made
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
		{"decide", func(ctx context.Context) error { return s.decide(ctx, exchange.Gate(s.State)) }},
		{"run searches", func(ctx context.Context) error {
			return runner.Run(ctx, runner.Config{Jobs: s.State, Ledger: s.State, Log: s.Log})
		}},
		{"sample", func(ctx context.Context) error { s.State.Sample(ctx); return nil }},
		{"look after nodes and jobs", s.tend},
	}, nil
}

func (s Scheduler) decide(ctx context.Context, b loop.Backend) error {
	for _, known := range s.After {
		select {
		case <-ctx.Done():
			return nil
		case <-known:
		}
	}
	return loop.Run(ctx, loop.Config{
		Backend: b, Policy: s.State.InForce, Guard: s.Guard, Log: s.Log, Pace: s.Pace, Paused: s.State.Paused,
		Decided: func(d loop.Decision, took time.Duration) {
			s.Metrics.ObserveDecision(took, nil)
			s.State.Decided(d, took)
		},
		Trouble: func(err error) {
			if err == nil {
				s.State.SetProblem("decide", "")
				return
			}
			s.Metrics.ObserveDecision(0, err)
			s.State.SetProblem("decide", err.Error())
		},
	})
}

// tend takes nodes back whose quarantine is over, ends jobs whose time limit is
// reached, warns of gangs that have not joined and of idle GPUs, corrects the clock of the records, and
// forecasts starts, until the context ends.
func (s Scheduler) tend(ctx context.Context) error {
	const every = 2 * time.Second
	for tick := time.Tick(every); ; {
		if err := s.State.Release(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("release nodes", "err", err)
		}
		if err := s.State.Expire(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("end overdue jobs", "err", err)
		}
		if err := s.State.CheckGangs(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("check whether gangs have joined", "err", err)
		}
		if err := s.State.CheckIdle(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("check whether GPUs are idle", "err", err)
		}
		if err := s.State.CheckClock(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("set the clock of the records back", "err", err)
		}
		s.State.Foresee()
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
		State: s.State, Deadline: c.Deadline.D(), Every: c.Every.D(), Log: s.Log, Observe: s.Metrics.ObserveBid,
		Lease: func() (time.Duration, bool) {
			inForce, spec := s.State.InForce()
			return leaseOf(inForce, spec)
		},
		Dial: func(b api.BidderAddress) (bidding.Agent, error) {
			return bidding.NewHTTPAgent(b.URL, bidding.HTTPOptions{Secret: b.Secret, Deadline: c.Deadline.D(), Hosts: hosts})
		},
	}), nil
}
