// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Bidder returns the program that bids for an app.
func (c *Client) Bidder(ctx context.Context, app sched.AppID) (v api.BidderView, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "apps", string(app), "agent")}, &v)
	return v, err
}

// SetBidder lets a program bid for an app. If the change has no secret, the
// answer has the one that the daemon made, which nobody sees again.
func (c *Client) SetBidder(ctx context.Context, app sched.AppID, change api.BidderChange) (v api.BidderView, err error) {
	err = c.do(ctx, request{method: "PUT", path: path("v1", "apps", string(app), "agent"), body: change}, &v)
	return v, err
}

// RemoveBidder lets no program bid for an app any more.
func (c *Client) RemoveBidder(ctx context.Context, app sched.AppID) error {
	return c.do(ctx, request{method: "DELETE", path: path("v1", "apps", string(app), "agent")}, nil)
}
