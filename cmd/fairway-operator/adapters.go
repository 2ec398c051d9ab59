// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/mirror"
	"github.com/fairway-gpu/fairway/kube/pods"
)

// The mirror and the executor do not know each other: what passes between them is
// turned from the types of one into those of the other here.

// orders is the book as the executor sees it. That the pods of a job are up leaves no
// record: the mirror is told.
type orders struct {
	*state.Store
	mirror *mirror.Mirror
}

// Started implements executor.Port.
func (o orders) Started(id api.AttemptID) {
	o.Store.Started(id)
	o.mirror.Started(id.Job)
}

// templates is where the executor finds what pods are made from.
type templates struct{ mirror *mirror.Mirror }

// Template implements pods.Templates.
func (t templates) Template(ctx context.Context, a api.Attempt) (pods.Pod, error) {
	p, err := t.mirror.Template(ctx, a)
	return pods.Pod(p), err
}

// foreign runs batch Jobs for the executor.
type foreign struct{ jobs mirror.Foreign }

// Start implements pods.Foreign.
func (f foreign) Start(ctx context.Context, a api.Attempt, n pods.Nodes) error {
	return f.jobs.Start(ctx, a, n)
}

// Stop implements pods.Foreign.
func (f foreign) Stop(ctx context.Context, id api.AttemptID) error { return f.jobs.Stop(ctx, id) }

// State implements pods.Foreign.
func (f foreign) State(id api.AttemptID) pods.ForeignState {
	return pods.ForeignState(f.jobs.State(id))
}
