// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/sha256"
	"errors"

	"github.com/fairway-gpu/fairway/api"
)

func listTokens(c *call) (any, error) {
	tokens, err := c.Access.Tokens(c.who)
	shown := make([]api.Token, 0, len(tokens))
	for _, t := range tokens {
		t.Hash = nil
		shown = append(shown, t)
	}
	return api.TokenList{Tokens: shown}, err
}

func createToken(c *call) (any, error) {
	t := *c.body.(*api.Token)
	for _, f := range []struct {
		name string
		set  bool
	}{{"id", t.ID != ""}, {"created", !t.Created.IsZero()}, {"revoked", t.Revoked}, {"hash", len(t.Hash) > 0}} {
		if f.set {
			return nil, api.Errorf(api.Invalid, "is filled in by the daemon").On(f.name).Try("leave it out")
		}
	}
	t, secret, err := c.Access.CreateToken(c.r.Context(), c.who, t)
	t.Hash = nil
	return api.NewToken{Token: t, Secret: secret}, err
}

func revokeToken(c *call) (any, error) {
	return nil, c.Access.RevokeToken(c.r.Context(), c.who, c.r.PathValue("id"))
}

// admitAgent looks at the secret of an agent before anything of its report is
// read: an agent that lost its mind must not keep the daemon from its work.
func (c *call) admitAgent() error {
	secret, err := bearer(c.r)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(secret))
	if !c.reports.take(string(sum[:])) {
		c.Metrics.reports.WithLabelValues("too-many").Inc()
		return api.Errorf(api.TooMany, "too many reports of one attempt").Try("report every few seconds")
	}
	c.secret = secret
	return nil
}

func agentReport(c *call) (any, error) {
	r := *c.body.(*api.AgentReport)
	answer, err := api.AgentAnswer{}, r.Validate()
	if err == nil {
		answer, err = c.Agents.Report(c.r.Context(), c.secret, r)
	}
	if err != nil {
		c.Metrics.reports.WithLabelValues(string(api.CodeOf(err))).Inc()
		var refused *api.Error
		if errors.As(err, &refused) && refused.Code == api.Denied {
			return nil, unauthenticated{refused}
		}
		return nil, err
	}
	c.Metrics.reports.WithLabelValues("ok").Inc()
	return answer, nil
}
