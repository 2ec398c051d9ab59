// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Role says what someone may do.
type Role uint8

// The roles; each may do what those before it may.
const (
	NoRole Role = iota
	Viewer      // sees the jobs of its tenant
	User        // submits and controls jobs of its tenant
	Admin       // everything, of all tenants
)

var roleNames = [...]string{"none", "viewer", "user", "admin"}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Role) UnmarshalText(b []byte) error {
	i := slices.Index(roleNames[:], string(b))
	if i < 1 {
		return fmt.Errorf("role %.20q: want viewer, user or admin", b)
	}
	*r = Role(i)
	return nil
}

// Identity is who asks.
type Identity struct {
	User   string         `json:"user"`
	Tenant sched.TenantID `json:"tenant,omitempty"`
	Role   Role           `json:"role"`
	Owner  Owner          `json:"-"` // the operating-system user its jobs run as
}

// Sees reports whether the identity may see things of a tenant.
func (i Identity) Sees(t sched.TenantID) bool {
	return i.Role == Admin || (i.Role >= Viewer && i.Tenant == t)
}

// Require returns an error unless the identity has at least a role.
func (i Identity) Require(r Role) error {
	switch {
	case i.Role >= r:
		return nil
	case r == Admin:
		return Errorf(Denied, "%s has the role %s", i.User, i.Role).Try("ask an administrator")
	}
	return Errorf(Denied, "%s has the role %s", i.User, i.Role).Try(fmt.Sprintf("ask for a token with the role %s", r))
}

// Token is a credential for the network. Only a hash of its secret is kept.
type Token struct {
	ID      string         `json:"id"`
	Name    string         `json:"name,omitempty"` // for people
	User    string         `json:"user"`
	Tenant  sched.TenantID `json:"tenant,omitempty"`
	Role    Role           `json:"role"`
	RunAs   string         `json:"run_as,omitempty"` // operating-system user its jobs run as; empty: the daemon's
	Created time.Time      `json:"created"`
	Expires time.Time      `json:"expires,omitzero"` // zero: never
	Revoked bool           `json:"revoked,omitempty"`
	Hash    []byte         `json:"hash,omitempty"` // SHA-256 of the secret; never shown by the API
}

// Valid reports whether the token is good at a time.
func (t Token) Valid(now time.Time) bool {
	return !t.Revoked && (t.Expires.IsZero() || now.Before(t.Expires))
}
