// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

var _ api.Access = (*Store)(nil)

const (
	tokenPrefix = "fw_"
	maxTokens   = 10_000
)

// Tokens implements api.Access.
func (b *Store) Tokens(who api.Identity) ([]api.Token, error) {
	if err := who.Require(api.Admin); err != nil {
		return nil, err
	}
	return durably(b, func() ([]api.Token, error) {
		out := slices.Clone(b.mem.Tokens)
		for i := range out {
			out[i].Hash = nil
		}
		return out, nil
	})
}

// CreateToken implements api.Access.
func (b *Store) CreateToken(ctx context.Context, who api.Identity, t api.Token) (api.Token, string, error) {
	if err := who.Require(api.Admin); err != nil {
		return api.Token{}, "", err
	}
	switch {
	case t.Role == api.NoRole:
		return api.Token{}, "", api.Errorf(api.Invalid, "is missing").On("role").Try("use viewer, user or admin")
	case t.User == "" || len(t.User) > 100 || strings.ContainsAny(t.User, "\n\x00"):
		return api.Token{}, "", api.Errorf(api.Invalid, "%.40q is empty, too long or contains control characters", t.User).On("user").Try("name who will use the token")
	case len(t.Name) > 200 || len(t.Tenant) > 100 || strings.ContainsAny(string(t.Tenant), "/\n\x00"):
		return api.Token{}, "", api.Errorf(api.Invalid, "name or tenant is too long, or the tenant contains a slash").On("tenant")
	case !t.Expires.IsZero() && !t.Expires.After(b.Now()):
		return api.Token{}, "", api.Errorf(api.Invalid, "%s is in the past", t.Expires).On("expires").Try("give a time in the future, or none")
	}
	if t.Tenant == "" {
		t.Tenant = DefaultTenant
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return api.Token{}, "", api.Errorf(api.Internal, "read random numbers: %w", err)
	}
	text := tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	hash := sha256.Sum256([]byte(text))
	t.ID, t.Hash, t.Revoked = hex.EncodeToString(hash[:4]), hash[:], false
	err := b.commit(ctx, func(x *tx) error {
		if len(x.mem.Tokens) >= maxTokens {
			return api.Errorf(api.TooMany, "there are %d tokens", len(x.mem.Tokens))
		}
		t.Created, x.actor = x.now, who.User
		return x.add(api.Record{Token: &t, Text: "token for " + t.User})
	})
	if err != nil {
		return api.Token{}, "", err
	}
	shown := t
	shown.Hash = nil
	return shown, text, nil
}

// RevokeToken implements api.Access.
func (b *Store) RevokeToken(ctx context.Context, who api.Identity, id string) error {
	if err := who.Require(api.Admin); err != nil {
		return err
	}
	return b.commit(ctx, func(x *tx) error {
		i := slices.IndexFunc(x.mem.Tokens, func(t api.Token) bool { return t.ID == id })
		if i < 0 {
			return api.Errorf(api.Unknown, "no token %q", id)
		}
		t := x.mem.Tokens[i]
		if t.Revoked {
			return nil
		}
		t.Revoked, x.actor = true, who.User
		return x.add(api.Record{Token: &t, Text: "token of " + t.User + " revoked"})
	})
}

// Authenticate implements api.Access. It finds the token by the hash of its long
// random secret, and compares hashes in constant time.
func (b *Store) Authenticate(secret string) (api.Identity, error) {
	refused := api.Errorf(api.Denied, "the token is not valid").Try("ask an administrator for a new one: `fairway token create`")
	if !strings.HasPrefix(secret, tokenPrefix) || len(secret) > 200 {
		return api.Identity{}, refused
	}
	hash := sha256.Sum256([]byte(secret))
	b.mu.RLock()
	defer b.mu.RUnlock()
	now := b.Now()
	for _, t := range b.mem.Tokens {
		if subtle.ConstantTimeCompare(t.Hash, hash[:]) == 1 {
			if !t.Valid(now) {
				return api.Identity{}, refused
			}
			return api.Identity{User: t.User, Tenant: t.Tenant, Role: t.Role, Owner: api.Owner{Name: t.RunAs, UID: -1, GID: -1}}, nil
		}
	}
	return api.Identity{}, refused
}
