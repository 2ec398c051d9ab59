// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

var _ api.Bidders = (*Store)(nil)

// Limits on bidders, because a decision may wait for their answers.
const (
	maxBidders       = 256
	maxTenantBidders = 32
	maxBidderURL     = 500
	minBidderSecret  = 16 // bytes
	maxBidderSecret  = 200
)

// Look returns a snapshot for callers that do not apply a decision.
func (b *Store) Look() *sched.Snapshot { return b.Peek() }

// Moved returns a channel that is closed when the journal has more records.
func (b *Store) Moved() <-chan struct{} {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.feed.more
}

// Bidders returns the addresses of the bidders of apps with active jobs, by app.
func (b *Store) Bidders() []api.BidderAddress {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(b.mem.Bidders) == 0 {
		return nil
	}
	s := b.mem.state.Peek()
	var out []api.BidderAddress
	for _, d := range b.mem.Bidders {
		if _, active := s.App(d.App); !active {
			continue
		}
		address := api.BidderAddress{App: d.App, URL: d.URL}
		var err error
		if address.Secret, err = openSecret(b.Key, d); err != nil {
			address.Problem = err.Error()
		}
		out = append(out, address)
	}
	slices.SortFunc(out, func(x, y api.BidderAddress) int { return cmp.Compare(x.App, y.App) })
	return out
}

// SetBid stores a bid that the caller has checked; nil withdraws the app's bid,
// for the reason given.
func (b *Store) SetBid(ctx context.Context, app sched.AppID, bid *sched.Bid, why string) error {
	return b.commit(ctx, func(t *tx) error {
		a, active := t.mem.state.Peek().App(app)
		switch {
		case !active:
			return api.Errorf(api.Unknown, "no app %q has jobs that wait or run", app)
		case bid == nil && a.Bid == nil:
			return nil
		case bid != nil && t.mem.bidder(app) < 0:
			return api.Errorf(api.Conflict, "app %q no longer has a bidder", app)
		}
		t.actor, t.decides = "bidder", true
		e := sched.Event{Kind: sched.AppBid, App: app, Text: why}
		if bid != nil {
			if err := plausible(*bid, len(t.mem.state.Cluster().Nodes)); err != nil {
				return api.Errorf(api.Invalid, "bid of app %q: %w", app, err)
			}
			c := *bid
			c.At = t.now
			e.Bid = &c
		}
		return t.event(e)
	})
}

// plausible refuses a bid that the journal cannot hold or that has no use.
func plausible(bid sched.Bid, nodes int) error {
	good := func(rho float64) bool { return rho > 0 && !math.IsInf(rho, 1) } // false if it is not a number
	if !good(bid.Rho) {
		return fmt.Errorf("rho = %g; want a positive number", bid.Rho)
	}
	for i, row := range bid.Rows {
		if !good(row.Rho) {
			return fmt.Errorf("row %d: rho = %g; want a positive number", i, row.Rho)
		}
		for _, s := range row.Take {
			if s.Node < 0 || int(s.Node) >= nodes || s.GPUs < 1 || s.GPUs > sched.MaxGPUs {
				return fmt.Errorf("row %d: takes %d GPUs of node %d; there are %d nodes", i, s.GPUs, s.Node, nodes)
			}
		}
	}
	return nil
}

// Bidder implements api.Bidders.
func (b *Store) Bidder(who api.Identity, app sched.AppID) (api.BidderView, error) {
	return durably(b, func() (api.BidderView, error) {
		i := b.mem.bidderFor(who, app)
		if i < 0 {
			return api.BidderView{}, noBidder(app)
		}
		return b.mem.viewBidder(i), nil
	})
}

func noBidder(app sched.AppID) error {
	return api.Errorf(api.Unknown, "no program bids for an app %q", app).Try("name one with `fairway app agent " + string(app) + " URL`")
}

func (m *memory) viewBidder(i int) api.BidderView {
	d := m.Bidders[i]
	v := api.BidderView{App: d.App, URL: d.URL, Since: d.Since}
	if a, active := m.state.Peek().App(d.App); active {
		v.Bid = a.Bid
	}
	return v
}

// SetBidder implements api.Bidders.
func (b *Store) SetBidder(ctx context.Context, who api.Identity, app sched.AppID, c api.BidderChange) (api.BidderView, error) {
	made := ""
	if err := b.checkBidder(who, c); err != nil {
		return api.BidderView{}, err
	}
	if c.Secret == "" {
		var random [24]byte
		if _, err := rand.Read(random[:]); err != nil {
			return api.BidderView{}, api.Errorf(api.Internal, "read random numbers: %w", err)
		}
		made = base64.RawURLEncoding.EncodeToString(random[:])
		c.Secret = made
	}
	var view api.BidderView
	err := b.commit(ctx, func(t *tx) error {
		x := t.mem.activeApp(who, app)
		if x == nil {
			return api.Errorf(api.Unknown, "no app %q has jobs that wait or run", app).Try("submit its jobs first")
		}
		d := api.Bidder{App: x.Job.App, Tenant: x.Job.Tenant, URL: c.URL, Since: t.now}
		var err error
		if d.Sealed, err = sealSecret(b.Key, d, c.Secret); err != nil {
			return api.Errorf(api.Internal, "seal the secret: %w", err)
		}
		t.actor, t.decides = who.User, true
		if err := t.roomForBidder(d); err != nil {
			return err
		}
		if err := t.dropBid(d.App, "another program bids for the app now"); err != nil {
			return err
		}
		if err := t.add(api.Record{Bidder: &d, Text: d.URL + " bids for " + string(d.App)}); err != nil {
			return err
		}
		view = t.mem.viewBidder(t.mem.bidder(d.App))
		return nil
	})
	view.Secret = made
	return view, err
}

// checkBidder refuses an invalid bidder before anything is changed.
func (b *Store) checkBidder(who api.Identity, c api.BidderChange) error {
	if err := who.Require(api.User); err != nil {
		return err
	}
	if b.CheckBidder == nil {
		return api.Errorf(api.Unavailable, "this daemon does not support bidders")
	}
	if len(c.URL) > maxBidderURL {
		return api.Errorf(api.Invalid, "has %d bytes", len(c.URL)).On("url").Try(fmt.Sprintf("use at most %d", maxBidderURL))
	}
	if err := b.CheckBidder(c.URL); err != nil {
		return api.Errorf(api.Invalid, "%w", err).On("url")
	}
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if n := len(c.Secret); n > 0 && (n < minBidderSecret || n > maxBidderSecret || strings.ContainsFunc(c.Secret, odd)) {
		return api.Errorf(api.Invalid, "has %d bytes, or characters other than printable ASCII", n).On("secret").
			Try(fmt.Sprintf("use %d to %d, or leave it out to have the daemon generate one", minBidderSecret, maxBidderSecret))
	}
	return nil
}

// roomForBidder makes room for one more bidder by dropping those of ended apps,
// the oldest first.
func (t *tx) roomForBidder(d api.Bidder) error {
	if t.mem.bidder(d.App) >= 0 {
		return nil
	}
	s := t.mem.state.Peek()
	mine, over := 0, -1
	for i, o := range t.mem.Bidders {
		if o.Tenant == d.Tenant {
			mine++
		}
		_, active := s.App(o.App)
		if !active && over < 0 && (o.Tenant == d.Tenant || len(t.mem.Bidders) >= maxBidders) {
			over = i
		}
	}
	switch {
	case mine < maxTenantBidders && len(t.mem.Bidders) < maxBidders:
		return nil
	case over < 0:
		return api.Errorf(api.TooMany, "%d programs bid already, %d of them for this tenant", len(t.mem.Bidders), mine).
			Try(fmt.Sprintf("remove some; the limits are %d and %d", maxBidders, maxTenantBidders))
	}
	gone := api.Bidder{App: t.mem.Bidders[over].App, Tenant: t.mem.Bidders[over].Tenant, Removed: true}
	return t.add(api.Record{Bidder: &gone, Text: "its app has ended"})
}

// dropBid withdraws the last bid of an app.
func (t *tx) dropBid(app sched.AppID, why string) error {
	if a, active := t.mem.state.Peek().App(app); !active || a.Bid == nil {
		return nil
	}
	return t.event(sched.Event{Kind: sched.AppBid, App: app, Text: why})
}

// RemoveBidder implements api.Bidders.
func (b *Store) RemoveBidder(ctx context.Context, who api.Identity, app sched.AppID) error {
	if err := who.Require(api.User); err != nil {
		return err
	}
	return b.commit(ctx, func(t *tx) error {
		i := t.mem.bidderFor(who, app)
		if i < 0 {
			return noBidder(app)
		}
		t.actor, t.decides = who.User, true
		gone := api.Bidder{App: t.mem.Bidders[i].App, Tenant: t.mem.Bidders[i].Tenant, Removed: true}
		if err := t.dropBid(gone.App, "no program bids for the app any more"); err != nil {
			return err
		}
		return t.add(api.Record{Bidder: &gone, Text: "no program bids for " + string(gone.App) + " any more"})
	})
}

// activeApp returns a job of an app that the identity may see, by the app's name
// within its tenant.
func (m *memory) activeApp(who api.Identity, app sched.AppID) *entry {
	for _, x := range m.inOrder() {
		if isApp(x.Job.App, who.Tenant, app) && who.Sees(x.Job.Tenant) {
			return x
		}
	}
	return nil
}

// bidderFor returns the index of the bidder of an app that the identity may see;
// -1: there is none.
func (m *memory) bidderFor(who api.Identity, app sched.AppID) int {
	return slices.IndexFunc(m.Bidders, func(d api.Bidder) bool {
		return isApp(d.App, who.Tenant, app) && who.Sees(d.Tenant)
	})
}

func (m *memory) bidder(app sched.AppID) int {
	return slices.IndexFunc(m.Bidders, func(d api.Bidder) bool { return d.App == app })
}

// setBidder applies the record of a bidder.
func (m *memory) setBidder(d api.Bidder) {
	kept := make([]api.Bidder, 0, len(m.Bidders)+1) // a copy: a snapshot may hold the old one
	for _, o := range m.Bidders {
		if o.App != d.App {
			kept = append(kept, o)
		}
	}
	if !d.Removed {
		kept = append(kept, d)
	}
	m.Bidders = kept
}

// showsBid reports whether the identity may see a record about bids. Bids of other
// tenants are hidden, above all from competing bidders. The second result is false
// if the record is about something else.
func (m *memory) showsBid(who api.Identity, r *api.Record) (may, about bool) {
	switch {
	case r.Bidder != nil:
		d := *r.Bidder
		d.Sealed = nil
		r.Bidder = &d
		return who.Sees(d.Tenant), true
	case r.Event != nil && r.Event.Kind == sched.AppBid:
		i := m.bidder(r.Event.App)
		return who.Role == api.Admin || i >= 0 && who.Sees(m.Bidders[i].Tenant), true
	}
	return false, false
}
