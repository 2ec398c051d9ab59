// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/google/go-cmp/cmp"
)

func (f *fake) Bidder(who api.Identity, app sched.AppID) (api.BidderView, error) {
	return filled[api.BidderView](), f.saw("Bidder", who, app)
}

func (f *fake) SetBidder(_ context.Context, who api.Identity, app sched.AppID, c api.BidderChange) (api.BidderView, error) {
	return filled[api.BidderView](), f.saw("SetBidder", who, app, c)
}

func (f *fake) RemoveBidder(_ context.Context, who api.Identity, app sched.AppID) error {
	return f.saw("RemoveBidder", who, app)
}

// TestBidders: the client's words arrive at the service.
func TestBidders(t *testing.T) {
	f := newFake()
	r := start(t, config(f))
	c, err := client.New(client.Options{Address: r.plain, Token: strings.TrimPrefix(asAdmin, "Bearer ")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := filled[api.BidderView]()
	change := api.BidderChange{URL: "http://127.0.0.1:9000", Secret: "sixteen letters!"}
	got, err := c.SetBidder(t.Context(), "sweep", change)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("SetBidder: %v %s", err, diff)
	}
	if s := f.last(); s.method != "SetBidder" || !cmp.Equal(s.args, []any{sched.AppID("sweep"), change}) {
		t.Errorf("the service saw %+v", s)
	}
	got, err = c.Bidder(t.Context(), "sweep")
	if diff := cmp.Diff(want, got); err != nil || diff != "" || f.last().method != "Bidder" {
		t.Errorf("Bidder: %v %s", err, diff)
	}
	if err := c.RemoveBidder(t.Context(), "sweep"); err != nil || f.last().method != "RemoveBidder" {
		t.Errorf("RemoveBidder: %v", err)
	}
}

func TestNoBidders(t *testing.T) {
	cfg := config(newFake())
	cfg.Bidders = nil
	r := start(t, cfg)
	a := ask(t, "GET", r.plain+"/v1/apps/x/agent", "", "Authorization", asAdmin)
	if e := a.refused(); a.status != 503 || e.Code != api.Unavailable {
		t.Errorf("%d %+v; want 503", a.status, e)
	}
}
