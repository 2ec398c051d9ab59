// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/kube/mirror"
)

// orders is the state as the executor sees it. That the pods of a job are up leaves no
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
