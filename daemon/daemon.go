// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon holds what "fairway up" and the Kubernetes operator share: the
// parts that decide, collect bids and run searches, and how both read their
// configuration, write their log and export the journal. It starts no job and
// links no Kubernetes: executors (local, kube/pods) import it, never the reverse.
//
// Beneath it: state keeps everything that must survive a crash, loop drives the
// policies, executor is the port for what starts jobs, bidding asks the programs
// that bid for their apps.
package daemon

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
