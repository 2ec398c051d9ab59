// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairway-gpu/fairway/api"
)

// How long an answer of the API server is cached, how many are cached, and how long a
// request may take.
const (
	keepGood   = time.Minute
	keepBad    = 5 * time.Second
	maxAnswers = 4096
	reviewTime = 10 * time.Second
	maxToken   = 8 << 10
)

// reviewer asks the API server for the owner of a token.
type reviewer struct {
	client   client.Client
	audience string
}

// review returns the owner of a token. An invalid token is refused with Denied; an
// API server that does not answer is Unavailable.
func (r reviewer) review(ctx context.Context, secret string) (authenticationv1.UserInfo, error) {
	if secret == "" || len(secret) > maxToken {
		return authenticationv1.UserInfo{}, api.Errorf(api.Denied, "the token has %d bytes; want 1 to %d", len(secret), maxToken)
	}
	q := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: secret, Audiences: []string{r.audience}}}
	if err := r.client.Create(ctx, q); err != nil {
		return authenticationv1.UserInfo{}, api.Errorf(api.Unavailable, "review the token: %w", err)
	}
	s := q.Status
	// An authenticator that does not support audiences returns none: the token is then
	// meant for the API server, not for Fairway.
	if !s.Authenticated || !slices.Contains(s.Audiences, r.audience) {
		return authenticationv1.UserInfo{}, api.Errorf(api.Denied, "the token is not valid for Fairway").
			Try(fmt.Sprintf("ask for one with the audience %s: kubectl create token NAME --audience %s", r.audience, r.audience))
	}
	return s.User, nil
}

// answers caches answers about tokens, by their hash.
type answers[T any] struct {
	now func() time.Time

	mu   sync.Mutex
	kept map[[sha256.Size]byte]answer[T]
}

type answer[T any] struct {
	value T
	err   error
	until time.Time
}

func newAnswers[T any](now func() time.Time) *answers[T] {
	return &answers[T]{now: now, kept: map[[sha256.Size]byte]answer[T]{}}
}

// find returns the cached answer for a token, or asks.
func (a *answers[T]) find(secret string, ask func() (T, error)) (T, error) {
	key := sha256.Sum256([]byte(secret))
	a.mu.Lock()
	known, ok := a.kept[key]
	a.mu.Unlock()
	if ok && a.now().Before(known.until) {
		return known.value, known.err
	}
	value, err := ask()
	now := a.now()
	until := now.Add(keepGood)
	switch {
	case err != nil && api.CodeOf(err) != api.Denied:
		return value, err // a temporary error is not cached
	case err != nil:
		until = now.Add(keepBad)
	default:
		if end, ok := expiry(secret); ok && end.Before(until) {
			until = end
		}
	}
	a.keep(key, answer[T]{value, err, until})
	return value, err
}

// keep makes room by dropping expired answers, then those that expire soonest. Refusals
// expire first, so invalid tokens cannot displace valid ones.
func (a *answers[T]) keep(key [sha256.Size]byte, x answer[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) >= maxAnswers {
		type entry struct {
			key   [sha256.Size]byte
			until time.Time
		}
		all := make([]entry, 0, len(a.kept))
		for k, v := range a.kept {
			all = append(all, entry{k, v.until})
		}
		slices.SortFunc(all, func(x, y entry) int { return cmp.Compare(x.until.UnixNano(), y.until.UnixNano()) })
		for _, e := range all[:maxAnswers/4] {
			delete(a.kept, e.key)
		}
	}
	a.kept[key] = x
}

// expiry reads when a JSON web token expires. The API server has checked the token
// already; this only prevents the use of an answer after that time.
func expiry(secret string) (time.Time, bool) {
	parts := strings.Split(secret, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Exp int64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Exp <= 0 {
		return time.Time{}, false
	}
	return time.Unix(claims.Exp, 0), true
}
