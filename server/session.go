// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

const (
	sessionKeySize = 32
	sessionLife    = 12 * time.Hour
	codeLife       = 10 * time.Minute
	cookieName     = "fairway_token"
	maxCodes       = 1000
	maxCookie      = 4096
)

// session is what the dashboard's cookie holds, sealed. A session that began
// with a token asks again with every request whether the token is still good.
type session struct {
	ID      string       `json:"id"`
	Secret  string       `json:"secret,omitempty"`
	Who     api.Identity `json:"who"`
	Owner   api.Owner    `json:"owner"` // an Identity keeps it out of its JSON
	Expires time.Time    `json:"expires"`
}

// sessions seals and opens cookies. There is no list of sessions to fill up;
// only those that were ended early are remembered, until they would have ended.
type sessions struct {
	seal cipher.AEAD
	now  func() time.Time

	mu    sync.Mutex
	ended map[string]time.Time // by id, when it would have ended
}

func newSessions(key []byte, now func() time.Time) (*sessions, error) {
	if len(key) != sessionKeySize {
		return nil, fmt.Errorf("session key has %d bytes; want %d", len(key), sessionKeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use session key: %w", err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("use session key: %w", err)
	}
	return &sessions{seal: seal, now: now, ended: map[string]time.Time{}}, nil
}

// begin returns the cookie of a new session.
func (s *sessions) begin(who api.Identity, secret string) (string, error) {
	plain, err := json.Marshal(session{
		ID: rand.Text(), Secret: secret, Who: who, Owner: who.Owner, Expires: s.now().Add(sessionLife),
	})
	if err != nil {
		return "", fmt.Errorf("begin session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.seal.Seal(nil, nil, plain, []byte(cookieName))), nil
}

// open returns the session of a cookie, if it is one of ours and goes on.
func (s *sessions) open(cookie string) (session, bool) {
	if len(cookie) > maxCookie {
		return session{}, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return session{}, false
	}
	plain, err := s.seal.Open(nil, nil, sealed, []byte(cookieName))
	if err != nil {
		return session{}, false
	}
	var v session
	if err := json.Unmarshal(plain, &v); err != nil || !s.now().Before(v.Expires) {
		return session{}, false
	}
	v.Who.Owner = v.Owner
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ended := s.ended[v.ID]
	return v, !ended
}

// end makes a session invalid before its time.
func (s *sessions) end(v session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, at := range s.ended {
		if !now.Before(at) {
			delete(s.ended, id)
		}
	}
	s.ended[v.ID] = v.Expires
}

// codes are one-time logins that have been handed out.
type codes struct {
	now func() time.Time

	mu   sync.Mutex
	open map[string]loginCode
}

type loginCode struct {
	session session
	expires time.Time
}

func (c *codes) issue(v session) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for code, v := range c.open {
		if len(c.open) >= maxCodes || !now.Before(v.expires) {
			delete(c.open, code)
		}
	}
	code := rand.Text()
	c.open[code] = loginCode{session: v, expires: now.Add(codeLife)}
	return code
}

// use returns the session that a code begins and makes the code worthless.
func (c *codes) use(code string) (session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.open[code]
	delete(c.open, code)
	return v.session, ok && c.now().Before(v.expires)
}
