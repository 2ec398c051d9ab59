// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// How long the key of a job is remembered after the job has ended and was
// forgotten, and how many such keys are remembered: docs/api.md promises both.
const (
	keyLife  = 7 * 24 * time.Hour
	mostKeys = 1_000_000
)

// keyHash stands for the tenant and the key of a submission.
type keyHash [16]byte

func hashKey(t sched.TenantID, key string) (h keyHash) {
	sum := sha256.Sum256([]byte(keyOf(t, key)))
	copy(h[:], sum[:])
	return h
}

// usedKey is what is left of a forgotten job that was submitted with a key.
type usedKey struct {
	job   sched.JobID
	ended int64 // Unix time
	phase sched.Phase
}

// usedKeys are the keys of forgotten jobs. They are apart from the jobs because they
// are remembered longer, and small because they are many.
type usedKeys struct {
	byHash map[keyHash]usedKey
	order  []keyHash // oldest first
	most   int       // 0: mostKeys
}

// add remembers the key of a job, and forgets keys that are too old or too many.
func (u *usedKeys) add(h keyHash, k usedKey, now time.Time) {
	if u.byHash == nil {
		u.byHash = map[keyHash]usedKey{}
	}
	u.byHash[h] = k
	u.order = append(u.order, h)
	drop := 0
	for ; drop < len(u.order); drop++ {
		if len(u.order)-drop <= orDefault(u.most, mostKeys) && now.Unix()-u.byHash[u.order[drop]].ended < int64(keyLife/time.Second) {
			break
		}
		delete(u.byHash, u.order[drop])
	}
	u.order = u.order[drop:]
}

// check refuses a key of a job that has been forgotten: it must not run again.
func (u *usedKeys) check(t sched.TenantID, key string) error {
	k, used := u.byHash[hashKey(t, key)]
	if key == "" || !used {
		return nil
	}
	how := k.phase.String()
	if k.phase == sched.Cancelled {
		how = api.Cancelled
	}
	return api.Errorf(api.Conflict, "%.60q was used for job %s, which ended (%s) at %s and is no longer kept",
		key, k.job, how, time.Unix(k.ended, 0).UTC().Format(time.RFC3339)).On("key").Try("use another key to run it again")
}

// pack returns the keys as bytes: hash, time, phase and name of each, oldest first.
func (u *usedKeys) pack() []byte {
	var b []byte
	for _, h := range u.order {
		k := u.byHash[h]
		b = append(b, h[:]...)
		b = binary.AppendVarint(b, k.ended)
		b = append(b, byte(k.phase))
		b = binary.AppendUvarint(b, uint64(len(k.job)))
		b = append(b, k.job...)
	}
	return b
}

// unpack is the inverse of pack.
func (u *usedKeys) unpack(b []byte) error {
	short := errors.New("the used keys are cut off")
	for len(b) > 0 {
		var h keyHash
		if copy(h[:], b) < len(h) {
			return short
		}
		b = b[len(h):]
		ended, n := binary.Varint(b)
		if n <= 0 || len(b) <= n {
			return short
		}
		phase := sched.Phase(b[n])
		b = b[n+1:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return short
		}
		u.add(h, usedKey{job: sched.JobID(b[n : n+int(size)]), ended: ended, phase: phase}, time.Unix(ended, 0))
		b = b[n+int(size):]
	}
	return nil
}
