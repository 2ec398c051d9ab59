// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// joinWithin is how long the processes of a gang have to find each other.
const joinWithin = time.Minute

// CheckGangs warns the owners of gangs without an agent whose processes have not
// joined: each of them may train the whole model. It is called periodically.
func (b *Store) CheckGangs(ctx context.Context) error {
	if b.Joined == nil {
		return nil
	}
	for id, gpus := range b.unchecked() {
		joined, ok := b.Joined(id)
		if !ok || joined {
			continue
		}
		err := b.warn(ctx, id, fmt.Sprintf("%d processes run the same script and have not joined: nothing listens on MASTER_PORT after a minute. "+
			"If each trains the whole model, join them (the Fairway agent, torch.distributed), or submit with --single if the script starts its own workers", gpus))
		if err != nil {
			return err
		}
	}
	return nil
}

// unchecked returns the gangs whose processes should have joined by now, each once,
// with their GPUs.
func (b *Store) unchecked() map[api.AttemptID]int {
	out := map[api.AttemptID]int{}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for x := range b.mem.queue() {
		j, id := x.Job, api.AttemptID{Job: x.Job.ID, Number: x.Job.Starts}
		silent := x.Shown == sched.Unproven && x.Training == nil && len(x.Points) == 0
		if j.Phase == sched.Running && j.Placement.GPUs() > 1 && !x.Task.Single && silent && x.checked != j.Starts && b.up[id] && now.Sub(j.Since) >= joinWithin {
			x.checked = j.Starts
			out[id] = j.Placement.GPUs()
		}
	}
	return out
}
