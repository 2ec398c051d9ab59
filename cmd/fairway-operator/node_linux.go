// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"

	"github.com/fairway-gpu/fairway/kube/nodeagent"
)

func runNode(ctx context.Context, o nodeOptions, log *slog.Logger) error {
	a := nodeagent.Agent{
		Dir: o.dir, Target: nodeagent.Pods(o.cgroups), Exists: nodeagent.Exists(o.cgroups), Sync: o.client.Sync, Log: log,
	}
	return a.Run(ctx)
}
