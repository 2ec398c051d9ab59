// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func bidderRoutes() []*route {
	const path = "/v1/apps/{id}/agent"
	return []*route{
		{method: "GET", path: path, role: api.Viewer, summary: "Show the program that bids for an app, and its last bid", out: api.BidderView{}, handle: showBidder},
		{method: "PUT", path: path, role: api.User, summary: "Let a program bid for an app; a secret that the daemon makes is shown once",
			in: api.BidderChange{}, required: []string{"url"}, limit: maxSmall, out: api.BidderView{}, handle: setBidder},
		{method: "DELETE", path: path, role: api.User, summary: "Let no program bid for an app any more", handle: removeBidder},
	}
}

// bidders returns the service, which a daemon need not have.
func (c *call) bidders() (api.Bidders, sched.AppID, error) {
	if c.Bidders == nil {
		return nil, "", api.Errorf(api.Unavailable, "this daemon does not support bidders")
	}
	return c.Bidders, sched.AppID(c.r.PathValue("id")), nil
}

func showBidder(c *call) (any, error) {
	service, app, err := c.bidders()
	if err != nil {
		return nil, err
	}
	return service.Bidder(c.who, app)
}

func setBidder(c *call) (any, error) {
	service, app, err := c.bidders()
	if err != nil {
		return nil, err
	}
	return service.SetBidder(c.r.Context(), c.who, app, *c.body.(*api.BidderChange))
}

func removeBidder(c *call) (any, error) {
	service, app, err := c.bidders()
	if err != nil {
		return nil, err
	}
	return nil, service.RemoveBidder(c.r.Context(), c.who, app)
}

// ObserveBid counts a turn of a program that bids, by how it ended.
func (m *Metrics) ObserveBid(result string) { m.bids.WithLabelValues(result).Inc() }
