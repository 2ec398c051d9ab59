// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

const agentURL = "http://127.0.0.1:9000"

func withBidders(c *Config) {
	c.CheckBidder = func(url string) error {
		if url != agentURL {
			return errors.New("the daemon may not call that")
		}
		return nil
	}
}

func inApp(name string, app sched.AppID) api.Submission {
	s := submission(name, 1)
	s.App = app
	return s
}

func aBid(rho float64) *sched.Bid {
	return &sched.Bid{Rho: rho, Rows: []sched.BidRow{{Take: []sched.BidShare{{Node: 0, GPUs: 2}}, Rho: rho / 2}}}
}

func (d *desk) appBid(app sched.AppID) *sched.Bid {
	a, _ := d.Look().App(app)
	return a.Bid
}

// TestBidder: an app gets a bidder and bids, both survive a restart and a
// compaction, and both are gone when the bidder is removed.
func TestBidder(t *testing.T) {
	d := open(t, withBidders)
	ctx := t.Context()
	d.submit(ann, inApp("x", "sweep"))
	v, err := d.SetBidder(ctx, ann, "sweep", api.BidderChange{URL: agentURL})
	if err != nil || v.App != "blue/sweep" || v.URL != agentURL || len(v.Secret) < minBidderSecret {
		t.Fatalf("SetBidder: %+v, %v", v, err)
	}
	want := []api.BidderAddress{{App: "blue/sweep", URL: agentURL, Secret: v.Secret}}
	if diff := cmp.Diff(want, d.Bidders()); diff != "" {
		t.Errorf("Bidders (-want +got):\n%s", diff)
	}
	if v, err := d.Bidder(eve, "sweep"); err != nil || v.Secret != "" || v.Bid != nil {
		t.Errorf("a viewer of the tenant sees %+v, %v", v, err)
	}
	d.clock.add(time.Minute)
	if err := d.SetBid(ctx, "blue/sweep", aBid(2), ""); err != nil {
		t.Fatal(err)
	}
	if b := d.appBid("blue/sweep"); b == nil || b.Rho != 2 || !b.At.Equal(d.clock.Now()) {
		t.Errorf("bid %+v; want one of now", b)
	}
	for i, restart := range []func() *desk{
		func() *desk { return reopen(t, d.tape.copyTape(), d.clock, withBidders) },
		func() *desk {
			if err := d.Compact(ctx); err != nil {
				t.Fatal(err)
			}
			return reopen(t, d.tape.copyTape(), d.clock, withBidders)
		},
	} {
		after := restart()
		if diff := cmp.Diff(want, after.Bidders()); diff != "" {
			t.Errorf("restart %d: Bidders (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(d.appBid("blue/sweep"), after.appBid("blue/sweep")); diff != "" {
			t.Errorf("restart %d: bid (-before +after):\n%s", i, diff)
		}
	}
	for _, text := range append(d.tape.copyTape().records, d.tape.copyTape().snap) {
		if bytes.Contains(text, []byte(v.Secret)) {
			t.Error("the secret is in the journal")
		}
	}
	if err := d.RemoveBidder(ctx, ann, "sweep"); err != nil || len(d.Bidders()) != 0 || d.appBid("blue/sweep") != nil {
		t.Errorf("after RemoveBidder (%v): %v, bid %v", err, d.Bidders(), d.appBid("blue/sweep"))
	}
	wantCode(t, "a late bid", d.SetBid(ctx, "blue/sweep", aBid(2), ""), api.Conflict)
	wantCode(t, "remove twice", d.RemoveBidder(ctx, ann, "sweep"), api.Unknown)
	d.wantDurable()
}

// TestBidderRefusals: who may not, and what cannot be.
func TestBidderRefusals(t *testing.T) {
	d := open(t, withBidders)
	ctx := t.Context()
	d.submit(ann, inApp("x", "sweep"))
	set := func(who api.Identity, app sched.AppID, c api.BidderChange) error {
		_, err := d.SetBidder(ctx, who, app, c)
		return err
	}
	good := api.BidderChange{URL: agentURL, Secret: "sixteen-letters!"}
	before := d.dump()
	wantCode(t, "a viewer", set(eve, "sweep", good), api.Denied)
	wantCode(t, "another tenant", set(bob, "sweep", good), api.Unknown)
	wantCode(t, "another tenant by the full name", set(bob, "blue/sweep", good), api.Unknown)
	wantCode(t, "no such app", set(ann, "none", good), api.Unknown)
	wantCode(t, "an address that is not allowed", set(ann, "sweep", api.BidderChange{URL: "http://169.254.169.254"}), api.Invalid)
	wantCode(t, "a long address", set(ann, "sweep", api.BidderChange{URL: strings.Repeat("a", 501)}), api.Invalid)
	for _, secret := range []string{"short", "with a space in it", "with\r\nX-Header: of its own", strings.Repeat("s", 201)} {
		wantCode(t, secret, set(ann, "sweep", api.BidderChange{URL: agentURL, Secret: secret}), api.Invalid)
	}
	if diff := difference(before, d.dump()); diff != "" {
		t.Errorf("refusals changed something (-before +after):\n%s", diff)
	}
	if err := set(ann, "sweep", good); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Bidder(bob, "sweep"); api.CodeOf(err) != api.Unknown {
		t.Errorf("another tenant sees the bidder: %v", err)
	}
	wantCode(t, "a viewer removes", d.RemoveBidder(ctx, eve, "sweep"), api.Denied)
	wantCode(t, "another tenant removes", d.RemoveBidder(ctx, bob, "blue/sweep"), api.Unknown)
	nobody := open(t)
	nobody.submit(ann, inApp("x", "sweep"))
	_, err := nobody.SetBidder(ctx, ann, "sweep", good)
	wantCode(t, "a daemon that asks nobody", err, api.Unavailable)
}

// TestSetBidRefusesNonsense: a number that JSON does not have would make the
// whole journal fail.
func TestSetBidRefusesNonsense(t *testing.T) {
	d := open(t, withBidders)
	ctx := t.Context()
	d.submit(ann, inApp("x", "sweep"))
	if _, err := d.SetBidder(ctx, ann, "sweep", api.BidderChange{URL: agentURL}); err != nil {
		t.Fatal(err)
	}
	row := func(node int32, gpus int, rho float64) *sched.Bid {
		return &sched.Bid{Rho: 1, Rows: []sched.BidRow{{Take: []sched.BidShare{{Node: node, GPUs: gpus}}, Rho: rho}}}
	}
	for name, bid := range map[string]*sched.Bid{
		"NaN": {Rho: math.NaN()}, "infinite": {Rho: math.Inf(1)}, "negative": {Rho: -1}, "row NaN": row(0, 1, math.NaN()),
		"no such node": row(1, 1, 1), "node -1": row(-1, 1, 1), "no GPUs": row(0, 0, 1), "65 GPUs": row(0, 65, 1),
	} {
		wantCode(t, name, d.SetBid(ctx, "blue/sweep", bid, ""), api.Invalid)
	}
	wantCode(t, "no such app", d.SetBid(ctx, "none", aBid(1), ""), api.Unknown)
	if d.appBid("blue/sweep") != nil {
		t.Error("something was kept")
	}
	if err := d.SetBid(ctx, "blue/sweep", nil, "nothing to take back"); err != nil {
		t.Error(err)
	}
	page, _ := d.Records(admin, api.RecordFilter{Kind: "app-bid"})
	if len(page.Records) != 0 {
		t.Errorf("records %+v; want none", page.Records)
	}
}

// TestBidsAreSecret: nobody sees what others bid, and nobody the sealed secret.
func TestBidsAreSecret(t *testing.T) {
	d := open(t, withBidders)
	ctx := t.Context()
	d.submit(ann, inApp("x", "sweep"))
	if _, err := d.SetBidder(ctx, ann, "sweep", api.BidderChange{URL: agentURL}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetBid(ctx, "blue/sweep", aBid(3), ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who  api.Identity
		want int
	}{{admin, 1}, {ann, 1}, {eve, 1}, {bob, 0}} {
		for _, kind := range []string{"app-bid", "bidder-set"} {
			page, err := d.Records(c.who, api.RecordFilter{Kind: kind})
			if err != nil || len(page.Records) != c.want {
				t.Errorf("%s sees %d records of %s, %v; want %d", c.who.User, len(page.Records), kind, err, c.want)
			}
			for _, r := range page.Records {
				if r.Bidder != nil && r.Bidder.Sealed != nil {
					t.Errorf("%s sees the sealed secret", c.who.User)
				}
			}
		}
	}
	if r := d.mem.Bidders[0]; r.Sealed == nil {
		t.Error("showing a record took the secret away")
	}
	// Another key, or another address with the same secret, opens nothing.
	moved := d.mem.Bidders[0]
	moved.URL = "http://127.0.0.1:9001"
	if _, err := openSecret(d.Key, moved); err == nil {
		t.Error("the secret opens for another address")
	}
	if _, err := openSecret([]byte("another key"), d.mem.Bidders[0]); err == nil {
		t.Error("the secret opens with another key")
	}
	other := reopen(t, d.tape.copyTape(), d.clock, withBidders, func(c *Config) { c.Key = bytes.Repeat([]byte("z"), 32) })
	if got := other.Bidders(); len(got) != 1 || got[0].Problem == "" || got[0].Secret != "" {
		t.Errorf("with another key: %+v; want a problem", got)
	}
}

// TestTooManyBidders: a tenant has so many; those of apps that have ended make
// room.
func TestTooManyBidders(t *testing.T) {
	d := open(t, withBidders)
	ctx := t.Context()
	ids := make([]sched.JobID, maxTenantBidders+1)
	for i := range ids {
		app := sched.AppID(fmt.Sprint("a", i))
		ids[i] = d.submit(ann, inApp("x", app))
		_, err := d.SetBidder(ctx, ann, app, api.BidderChange{URL: agentURL})
		if i < maxTenantBidders && err != nil {
			t.Fatal(err)
		}
		if i == maxTenantBidders {
			wantCode(t, "one too many", err, api.TooMany)
		}
	}
	d.command(ids[3], api.Cancel)
	if n := len(d.Bidders()); n != maxTenantBidders-1 {
		t.Errorf("%d are asked; want those of active apps", n)
	}
	last := sched.AppID(fmt.Sprint("a", maxTenantBidders))
	if _, err := d.SetBidder(ctx, ann, last, api.BidderChange{URL: agentURL}); err != nil {
		t.Errorf("after an app has ended: %v", err)
	}
	if _, err := d.Bidder(ann, "a3"); api.CodeOf(err) != api.Unknown {
		t.Errorf("the bidder of the app that ended: %v; want it to be forgotten", err)
	}
	d.wantDurable()
}
