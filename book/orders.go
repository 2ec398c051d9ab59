// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package book

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/live"
	"github.com/fairway-gpu/fairway/sched"
)

var _ live.Orders = (*Book)(nil)

// Attempts implements live.Orders.
func (b *Book) Attempts() []live.Attempt {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Clone(b.orders)
}

// Leaving returns the attempts that should no longer run and of which no end is
// known. One that was taken back before an executor saw it is among them: an
// executor that has never heard of it says so with Exited, or its job would
// count as stopping for ever.
func (b *Book) Leaving() []live.AttemptID {
	b.mu.RLock()
	defer b.mu.RUnlock()
	ordered := make(map[live.AttemptID]bool, len(b.orders))
	for _, a := range b.orders {
		ordered[a.AttemptID] = true
	}
	var out []live.AttemptID
	for id, x := range b.mem.jobs {
		for _, n := range x.Open {
			a := live.AttemptID{Job: id, Number: n}
			// A start that is not durable yet is not ordered, but will be.
			if current := x.Job.Phase == sched.Running && n == x.Job.Starts; !current && !ordered[a] {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, func(a, c live.AttemptID) int {
		return cmp.Or(cmp.Compare(a.Job, c.Job), cmp.Compare(a.Number, c.Number))
	})
	return out
}

// Ordered implements live.Orders.
func (b *Book) Ordered() <-chan struct{} { return b.ordered }

// Started implements live.Orders.
func (b *Book) Started(id live.AttemptID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.up[id] = true
}

// attempts returns the attempts that should run now. One whose end is known but
// whose job still holds GPUs is not among them.
func (m *memory) attempts(key []byte) []live.Attempt {
	var out []live.Attempt
	for _, x := range m.inOrder() {
		if x.Job.Phase != sched.Running || !slices.Contains(x.Open, x.Job.Starts) {
			continue
		}
		id := live.AttemptID{Job: x.Job.ID, Number: x.Job.Starts}
		out = append(out, live.Attempt{
			AttemptID: id, Spec: x.Job.Spec, Task: x.Task, Owner: x.Owner, Placement: x.Job.Placement,
			GPUType: sched.GPUType(m.gpuType(x.Job.Placement)), Token: secretOf(key, id),
			Screening: x.Job.Screening, BatchScale: x.BatchScale,
		})
	}
	return out
}

const secretPrefix = "fwa_"

// secretOf returns the secret of an attempt. It is worked out, not kept, so it
// survives a restart of the daemon and cannot be read from the journal.
func secretOf(key []byte, id live.AttemptID) string {
	name := fmt.Sprintf("%s.%d", id.Job, id.Number)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(name))
	return secretPrefix + name + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// attemptOf returns the attempt whose secret it is.
func attemptOf(key []byte, secret string) (live.AttemptID, bool) {
	const longest = 400
	rest, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok || len(secret) > longest {
		return live.AttemptID{}, false
	}
	parts := strings.Split(rest, ".")
	if len(parts) != 3 {
		return live.AttemptID{}, false
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return live.AttemptID{}, false
	}
	id := live.AttemptID{Job: sched.JobID(parts[0]), Number: n}
	return id, hmac.Equal([]byte(secretOf(key, id)), []byte(secret))
}
