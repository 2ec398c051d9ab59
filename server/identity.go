// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// peerKey is the key of a connection's peer in its context.
type peerKey struct{}

type peer struct {
	who api.Identity
	err error // why it has no rights by itself
}

// process is the other end of a Unix socket, as the operating system knows it.
type process struct{ pid, uid, gid int }

// withPeer notes who is at the other end of a Unix socket.
func (s *Server) withPeer(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	at, err := peerOf(conn)
	if err != nil {
		return context.WithValue(ctx, peerKey{}, peer{err: err})
	}
	return context.WithValue(ctx, peerKey{}, peer{who: s.local(at.uid, at.gid), err: s.ofJob(at)})
}

// ofJob refuses the processes of jobs: a job may run anybody's code, and its user may
// be an admin. Jobs run as the daemon's own user unless the daemon is root, and only of
// its own processes may another daemon look at the environment.
func (s *Server) ofJob(at process) error {
	if s.JobOf == nil || s.uid != 0 && s.uid != at.uid {
		return nil
	}
	job, err := s.JobOf(at.pid)
	if err == nil && job != "" {
		err = fmt.Errorf("the request comes from a process of job %s, which does not have its user's rights and needs a token of its own (fairway --token-file)", job)
	}
	return err
}

// local is the identity of a user of this machine: root and the daemon's own
// user may do everything.
func (s *Server) local(uid, gid int) api.Identity {
	name := fmt.Sprintf("uid-%d", uid)
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		name = u.Username
	}
	role := api.User
	if uid == 0 || uid == s.uid {
		role = api.Admin
	}
	return api.Identity{User: name, Tenant: s.SocketTenant, Role: role, Owner: api.Owner{Name: name, UID: uid, GID: gid}}
}

// identify returns who asks. A token that was sent counts more than what is
// known otherwise; verify says whose it is.
func (s *Server) identify(d Endpoint, r *http.Request, verify func(secret string) (api.Identity, error)) (api.Identity, error) {
	if r.Header.Get("Authorization") != "" {
		secret, err := bearer(r)
		if err != nil {
			return api.Identity{}, err
		}
		return verify(secret)
	}
	if d.Kind == Socket {
		p, ok := r.Context().Value(peerKey{}).(peer)
		switch {
		case !ok:
			return api.Identity{}, needsToken("the peer of this connection cannot be identified")
		case p.err != nil:
			return api.Identity{}, needsToken(p.err.Error())
		}
		return p.who, nil
	}
	c, err := r.Cookie(cookieName)
	if err != nil {
		return api.Identity{}, needsToken("authentication required")
	}
	v, ok := s.sessions.open(c.Value)
	if !ok {
		return api.Identity{}, needsToken("the session has expired")
	}
	if err := sameSite(r); err != nil {
		return api.Identity{}, err
	}
	if v.Secret != "" {
		return s.verify(v.Secret) // nobody guesses these: a wrong one was revoked
	}
	return v.Who, nil
}

// The longest secrets: of a request, and of a session, whose cookie has to hold it.
// The tokens of a cluster's accounts have one to two thousand bytes.
const (
	maxSecret        = 8 << 10
	maxSessionSecret = 2500
)

// bearer returns the secret that a request carries.
func bearer(r *http.Request) (string, error) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	if !ok || !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > maxSecret {
		return "", needsToken("the Authorization header has no bearer token")
	}
	return secret, nil
}

// authenticate asks whose secret it is. One that was wrong too often is not looked at
// for a while; others from the same address are, so that a right one always passes.
func (s *Server) authenticate(r *http.Request, secret string) (api.Identity, error) {
	sum := sha256.Sum256([]byte(secret))
	if !s.refused.open(string(sum[:])) {
		return api.Identity{}, api.Errorf(api.TooMany, "this token was refused too often").Try("check the token, then wait a few seconds")
	}
	who, err := s.verify(secret)
	if errors.As(err, &unauthenticated{}) {
		s.refused.take(string(sum[:]))
		if slowed := s.slow(r); slowed != nil {
			return api.Identity{}, slowed
		}
	}
	return who, err
}

// slow counts a wrong secret against the address it came from, and holds up the answer
// to an address that was wrong too often.
func (s *Server) slow(r *http.Request) error {
	if s.failures.take(origin(r)) {
		return nil
	}
	select {
	case s.held <- struct{}{}:
	default:
		return api.Errorf(api.TooMany, "too many invalid tokens from your address").Try("check the token, then wait a minute")
	}
	defer func() { <-s.held }()
	select {
	case <-time.After(s.penalty):
	case <-r.Context().Done():
	case <-s.drain.Done():
	}
	return nil
}

// verify asks whose secret it is.
func (s *Server) verify(secret string) (api.Identity, error) {
	who, err := s.Access.Authenticate(secret)
	var refused *api.Error
	if errors.As(err, &refused) && slices.Contains([]api.Code{api.Denied, api.Unknown, api.Invalid}, refused.Code) {
		return api.Identity{}, needsToken(refused.Message)
	}
	return who, err
}

// origin names where a request comes from, for limits. A site of IPv6 counts as
// one address, or it would have as many tries as it likes.
func origin(r *http.Request) string {
	if p, ok := r.Context().Value(peerKey{}).(peer); ok {
		return "user " + strconv.Itoa(p.who.Owner.UID)
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "socket"
	}
	a := at.Addr().Unmap()
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// sameSite refuses a change that a page of another site asks for with the
// cookie of the dashboard.
func sameSite(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if r.Header.Get("X-Fairway") != "1" {
		return api.Errorf(api.Denied, "a change with a session needs the header X-Fairway").Try("send \"X-Fairway: 1\"")
	}
	if !sameOrigin(r) {
		return api.Errorf(api.Denied, "the request comes from another site: origin %.100q", r.Header.Get("Origin"))
	}
	return nil
}

// sameOrigin reports whether the request comes from a page of ours.
func sameOrigin(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
