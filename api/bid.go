// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Bidder is a program outside the daemon that bids for GPUs in the name of an
// app; see package bidding.
type Bidder struct {
	App    sched.AppID    `json:"app"`
	Tenant sched.TenantID `json:"tenant,omitempty"`
	URL    string         `json:"url,omitempty"`
	Since  time.Time      `json:"since,omitzero"`
	// Sealed is the secret by which it knows the daemon. Only the daemon can open
	// it, and the API never shows it.
	Sealed  []byte `json:"sealed,omitempty"`
	Removed bool   `json:"removed,omitempty"` // it no longer bids
}

// BidderChange is a request to let a program bid for an app.
type BidderChange struct {
	URL string `json:"url"` // the daemon asks at URL/v1/rho, /v1/bid and /v1/win
	// Secret is what the daemon shows to the program, so that it knows who asks;
	// empty: the daemon makes one and answers it.
	Secret string `json:"secret,omitempty"`
}

// BidderView is the program that bids for an app, as its tenant sees it.
type BidderView struct {
	App   sched.AppID `json:"app"`
	URL   string      `json:"url"`
	Since time.Time   `json:"since"`
	// Secret is answered once, if the daemon made it.
	Secret string `json:"secret,omitempty"`
	// Bid is its last good bid; none: it was silent, slow or wrong, or was not
	// asked yet.
	Bid *sched.Bid `json:"bid,omitempty"`
}

// BidderAddress is all one needs to ask a bidder. It holds a secret: it is never
// part of an answer.
type BidderAddress struct {
	App    sched.AppID
	URL    string
	Secret string
	// Problem says why it cannot be asked; empty: it can.
	Problem string
}

// Bidders is the service of programs that bid for apps.
type Bidders interface {
	Bidder(who Identity, app sched.AppID) (BidderView, error)
	SetBidder(ctx context.Context, who Identity, app sched.AppID, c BidderChange) (BidderView, error)
	RemoveBidder(ctx context.Context, who Identity, app sched.AppID) error
}
