// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"

	"github.com/fairway-gpu/fairway/live"
)

// ReportFor takes a report of an attempt. The caller has made sure that it comes
// from there.
func (b *Book) ReportFor(ctx context.Context, id live.AttemptID, r live.AgentReport) (live.AgentAnswer, error) {
	if err := r.Validate(); err != nil {
		return live.AgentAnswer{}, err
	}
	var answer live.AgentAnswer
	err := b.commit(ctx, func(t *tx) error {
		var err error
		answer, err = t.report(id, &r)
		return err
	})
	return answer, err
}
