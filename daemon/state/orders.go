// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor"
	"github.com/fairway-gpu/fairway/sched"
)

var _ executor.Port = (*Store)(nil)

// ordered is an attempt that should run, as of the last durable record.
type ordered struct {
	api.Attempt
	seq int64 // of the job: attempts are in order of submission
}

// Attempts implements executor.Port.
func (b *Store) Attempts() []api.Attempt {
	b.mu.RLock()
	list := make([]*ordered, 0, len(b.orders))
	for _, o := range b.orders {
		list = append(list, o)
	}
	b.mu.RUnlock() // what is ordered is replaced, never changed
	slices.SortFunc(list, func(a, c *ordered) int { return cmp.Compare(a.seq, c.seq) })
	out := make([]api.Attempt, len(list))
	for i, o := range list {
		out[i] = o.Attempt
	}
	return out
}

// Withdrawn returns attempts that should no longer run and are not known to have
// ended. It includes attempts withdrawn before an executor saw them: the executor
// must report Exited for those too, or the job would count as stopping for ever.
func (b *Store) Withdrawn() []api.AttemptID {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []api.AttemptID
	for id, x := range b.mem.jobs {
		for _, n := range x.Open {
			// A start that is not durable yet will be ordered soon.
			if o := b.orders[id]; !x.current(n) && (o == nil || o.Number != n) {
				out = append(out, api.AttemptID{Job: id, Number: n})
			}
		}
	}
	slices.SortFunc(out, func(a, c api.AttemptID) int {
		return cmp.Or(cmp.Compare(a.Job, c.Job), cmp.Compare(a.Number, c.Number))
	})
	return out
}

// Ordered implements executor.Port.
func (b *Store) Ordered() <-chan struct{} { return b.ordered }

// Started implements executor.Port.
func (b *Store) Started(id api.AttemptID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.up[id] = true
}

// pinned reports whether the job would lose work if somebody else stopped it where it is.
func (x *entry) pinned() bool { return x.Job.Pinned() || x.Job.Tied() }

// attempt returns the attempt of a job that should run or be suspended now; nil: none, or it has
// ended though the job still holds GPUs.
func (m *memory) attempt(key []byte, x *entry) *ordered {
	if x == nil || !slices.Contains(x.Open, x.Job.Starts) || !x.current(x.Job.Starts) {
		return nil
	}
	on := x.Job.Placement
	if x.suspended() {
		on = x.Job.Suspended
	}
	id := api.AttemptID{Job: x.Job.ID, Number: x.Job.Starts}
	return &ordered{seq: x.Job.Seq, Attempt: api.Attempt{
		AttemptID: id, Epoch: x.StartEpoch, Spec: x.Job.Spec, Task: x.Task, Owner: x.Owner, Placement: on, Suspended: x.suspended(),
		GPUType: sched.GPUType(m.gpuType(on)), Token: secretOf(key, id, x.StartEpoch),
		Screening: x.Job.Screening, BatchScale: x.BatchScale, Plan: x.Plan, Pinned: x.pinned(),
	}}
}

// attempts returns all attempts that should run now.
func (m *memory) attempts(key []byte) map[sched.JobID]*ordered {
	out := map[sched.JobID]*ordered{}
	for x := range m.queue() {
		if o := m.attempt(key, x); o != nil {
			out[x.Job.ID] = o
		}
	}
	return out
}

// reorder updates the ordered attempts for a durable record, and reports whether
// they may have changed. Its cost depends on the change, not on what runs.
func (b *Store) reorder(r *api.Record) bool {
	id := r.Job()
	if o, x := b.orders[id], b.mem.jobs[id]; !changesOrders(r) && (o == nil || x == nil || o.Pinned == x.pinned()) {
		return false
	}
	if o := b.mem.attempt(b.Key, b.mem.jobs[id]); o != nil {
		b.orders[id] = o
	} else {
		delete(b.orders, id)
	}
	return true
}

const secretPrefix = "fwa_"

// secretOf returns the secret of an attempt. It is derived, not stored, so it
// survives a restart of the daemon and cannot be read from the journal. It holds the
// epoch: after a loss of records another job may have the same name.
func secretOf(key []byte, id api.AttemptID, epoch string) string {
	name := fmt.Sprintf("%s.%d", id.Job, id.Number)
	if epoch != "" {
		name += "." + epoch
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(name))
	return secretPrefix + name + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// attemptOf returns the attempt that a secret belongs to, and its epoch.
func attemptOf(key []byte, secret string) (id api.AttemptID, epoch string, ok bool) {
	const longest = 400
	rest, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok || len(secret) > longest {
		return id, "", false
	}
	parts := strings.Split(rest, ".")
	if len(parts) == 4 {
		epoch = parts[2]
	} else if len(parts) != 3 {
		return id, "", false
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return id, "", false
	}
	id = api.AttemptID{Job: sched.JobID(parts[0]), Number: n}
	return id, epoch, hmac.Equal([]byte(secretOf(key, id, epoch)), []byte(secret))
}
