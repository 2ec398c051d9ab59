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

const (
	// idleFor is how long the GPUs of a job must do nothing before its owner is told,
	// and idleUtil the use below which they do nothing.
	idleFor  = 30 * time.Minute
	idleUtil = 0.005
)

// CheckIdle tells the owners of jobs whose GPUs have done nothing for long: the job
// may hang. Of a job without an agent nobody knows how long a step may take, so nothing
// is stopped. It is called periodically.
func (b *Store) CheckIdle(ctx context.Context) error {
	for _, id := range b.idle() {
		text := fmt.Sprintf("its GPUs have done nothing for %s; if it hangs, `py-spy dump --pid PID` shows where its processes are (fairway nodes lists them)", sched.Brief(idleFor))
		if err := b.warn(ctx, id, text); err != nil {
			return err
		}
	}
	return nil
}

// idle returns the attempts whose GPUs have done nothing for long, each once.
func (b *Store) idle() (out []api.AttemptID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for x := range b.mem.queue() {
		g := &x.gauge
		if x.Job.Phase == sched.Running && g.attempt == x.Job.Starts && !g.told && !g.idle.IsZero() && now.Sub(g.idle) >= idleFor {
			g.told = true
			out = append(out, api.AttemptID{Job: x.Job.ID, Number: x.Job.Starts})
		}
	}
	return out
}

// warn tells the owner of a running attempt something, unless there is a warning
// already.
func (b *Store) warn(ctx context.Context, id api.AttemptID, text string) error {
	return b.commit(ctx, func(t *tx) error {
		x := t.mem.jobs[id.Job]
		if x == nil || x.Job.Phase != sched.Running || x.Job.Starts != id.Number || x.Warning != "" {
			return nil
		}
		t.actor = "machine"
		return t.add(warning(x, text))
	})
}

// warning is the record of a warning about a job. The note stays as it is: the event
// carries the warning.
func warning(x *entry, text string) api.Record {
	return api.Record{Event: &sched.Event{Kind: sched.JobNoted, Job: x.Job.ID, Note: x.Job.Note}, Warning: text, Text: text}
}
