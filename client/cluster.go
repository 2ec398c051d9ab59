// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Overview returns the state of the cluster.
func (c *Client) Overview(ctx context.Context) (o api.Overview, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "overview")}, &o)
	return o, err
}

// Whoami returns the identity that the daemon sees for the client.
func (c *Client) Whoami(ctx context.Context) (who api.Identity, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "whoami")}, &who)
	return who, err
}

// LoginLink returns a link that logs a browser in as the client, once.
func (c *Client) LoginLink(ctx context.Context) (l api.LoginLink, err error) {
	err = c.do(ctx, request{method: "POST", path: path("v1", "login")}, &l)
	return l, err
}

// Nodes returns all nodes.
func (c *Client) Nodes(ctx context.Context) ([]api.Node, error) {
	var out api.NodeList
	err := c.do(ctx, request{method: "GET", path: path("v1", "nodes")}, &out)
	return out.Nodes, err
}

// SetNode cordons a node (sched.Cordoned) or uncordons it (sched.Ready).
func (c *Client) SetNode(ctx context.Context, name string, state sched.NodeState) (n api.Node, err error) {
	words := map[sched.NodeState]string{sched.Ready: "ready", sched.Cordoned: "cordoned"}
	err = c.do(ctx, request{method: "PUT", path: path("v1", "nodes", name), body: api.NodeChange{State: words[state]}}, &n)
	return n, err
}

// AcknowledgeDamage ends the warning that the journal has lost records, and returns
// what was lost.
func (c *Client) AcknowledgeDamage(ctx context.Context) ([]api.Damage, error) {
	var out api.DamageList
	err := c.do(ctx, request{method: "POST", path: path("v1", "journal", "acknowledge")}, &out)
	return out.Damages, err
}

// Tenants returns all tenants.
func (c *Client) Tenants(ctx context.Context) ([]api.TenantView, error) {
	var out api.TenantList
	err := c.do(ctx, request{method: "GET", path: path("v1", "tenants")}, &out)
	return out.Tenants, err
}

// SetTenant declares or changes a tenant.
func (c *Client) SetTenant(ctx context.Context, t sched.Tenant) (v api.TenantView, err error) {
	err = c.do(ctx, request{method: "PUT", path: path("v1", "tenants", string(t.ID)), body: t}, &v)
	return v, err
}

// Policy returns the spec of the current policy.
func (c *Client) Policy(ctx context.Context) (string, error) {
	var out api.PolicySpec
	err := c.do(ctx, request{method: "GET", path: path("v1", "policy")}, &out)
	return out.Policy, err
}

// SetPolicy switches the policy, or with dryRun returns what that would do.
func (c *Client) SetPolicy(ctx context.Context, spec string, dryRun bool) (change api.PolicyChange, err error) {
	err = c.do(ctx, request{method: "PUT", path: path("v1", "policy"), body: api.PolicySwitch{Policy: spec, DryRun: dryRun}}, &change)
	return change, err
}

// Policies returns the available policies.
func (c *Client) Policies(ctx context.Context) ([]api.PolicyEntry, error) {
	var out api.PolicyList
	err := c.do(ctx, request{method: "GET", path: path("v1", "policies")}, &out)
	return out.Policies, err
}

// Tokens returns all tokens.
func (c *Client) Tokens(ctx context.Context) ([]api.Token, error) {
	var out api.TokenList
	err := c.do(ctx, request{method: "GET", path: path("v1", "tokens")}, &out)
	return out.Tokens, err
}

// CreateToken makes a token and returns its secret, which is not shown again.
func (c *Client) CreateToken(ctx context.Context, t api.Token) (api.Token, string, error) {
	var out api.NewToken
	err := c.do(ctx, request{method: "POST", path: path("v1", "tokens"), body: t}, &out)
	return out.Token, out.Secret, err
}

// RevokeToken makes a token invalid.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.do(ctx, request{method: "DELETE", path: path("v1", "tokens", id)}, nil)
}

// Report sends a report for the attempt that the secret belongs to.
func (c *Client) Report(ctx context.Context, secret string, r api.AgentReport) (a api.AgentAnswer, err error) {
	err = c.do(ctx, request{method: "POST", path: path("v1", "agent", "report"), token: secret, body: r}, &a)
	return a, err
}

// Health returns nil if the daemon is alive.
func (c *Client) Health(ctx context.Context) error { return c.text(ctx, "healthz", io.Discard) }

// Ready returns nil if the daemon is ready to work.
func (c *Client) Ready(ctx context.Context) error { return c.text(ctx, "readyz", io.Discard) }

// Metrics copies the metrics, in Prometheus format.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error { return c.text(ctx, "metrics", w) }

// OpenAPI copies the description of the API.
func (c *Client) OpenAPI(ctx context.Context, w io.Writer) error {
	return c.text(ctx, "openapi.json", w)
}

func (c *Client) text(ctx context.Context, name string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.send(ctx, request{method: "GET", path: path(name)})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, io.LimitReader(resp.Body, maxAnswer))
	return err
}

// Bidder returns the program that bids for an app.
func (c *Client) Bidder(ctx context.Context, app sched.AppID) (v api.BidderView, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "apps", string(app), "agent")}, &v)
	return v, err
}

// SetBidder registers a program that bids for an app. If the change has no secret,
// the answer holds the one that the daemon made; it is not shown again.
func (c *Client) SetBidder(ctx context.Context, app sched.AppID, change api.BidderChange) (v api.BidderView, err error) {
	err = c.do(ctx, request{method: "PUT", path: path("v1", "apps", string(app), "agent"), body: change}, &v)
	return v, err
}

// RemoveBidder removes the program that bids for an app.
func (c *Client) RemoveBidder(ctx context.Context, app sched.AppID) error {
	return c.do(ctx, request{method: "DELETE", path: path("v1", "apps", string(app), "agent")}, nil)
}
