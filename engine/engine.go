// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine is what the daemon of one machine and the operator of a cluster
// have in common beside the book: the parts that decide, ask bidders and run
// searches, how they are run together, and how both read a configuration, write a
// log and export a journal.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Part is something that works until its context ends or it cannot go on.
type Part struct {
	Name string
	Run  func(context.Context) error
}

// Run runs all parts until the context ends or one of them cannot go on, and returns
// when all have ended: with the error of the first that could not go on.
func Run(ctx context.Context, parts ...Part) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, p := range parts {
		group.Go(func() {
			if err := p.Run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", p.Name, err))
			}
		})
	}
	<-ctx.Done()
	group.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
