// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/fairway-gpu/fairway/api"
)

// gangSecret returns the secret by which the ranks of an attempt know each other.
// Whoever has it can say nothing in the name of the attempt.
func gangSecret(key []byte, id api.AttemptID) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "gang %s", id)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ReportFor takes a report of an attempt. The caller has made sure that it comes
// from there.
func (b *Store) ReportFor(ctx context.Context, id api.AttemptID, r api.AgentReport) (api.AgentAnswer, error) {
	if err := r.Validate(); err != nil {
		return api.AgentAnswer{}, err
	}
	var answer api.AgentAnswer
	err := b.commit(ctx, func(t *tx) error {
		var err error
		answer, err = t.report(id, &r)
		return err
	})
	return answer, err
}
