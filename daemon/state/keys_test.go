// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestKeyOutlivesItsJob: a job that is no longer kept does not run again.
func TestKeyOutlivesItsJob(t *testing.T) {
	few := func(c *Config) { c.Keep = 10 }
	d := open(t, few)
	s := submission("x", 1)
	s.Key = "first"
	first := d.submit(ann, s)
	d.command(first, api.Cancel)
	forgetAll := func() {
		for range 300 {
			y := submission("y", 1)
			y.Key = fmt.Sprint("y", d.mem.Count)
			d.command(d.submit(ann, y), api.Cancel)
		}
	}
	forgetAll()
	if _, err := d.Job(admin, first); err == nil {
		t.Fatal("the job is still kept: the test has lost its point")
	}
	refused := func(when string) {
		t.Helper()
		jobs, err := d.Submit(t.Context(), ann, []api.Submission{submission("z", 1), s})
		wantCode(t, when, err, api.Conflict)
		if err == nil || !strings.Contains(err.Error(), string(first)) {
			t.Errorf("%s: %v, %v; want it to name %s", when, jobs, err, first)
		}
	}
	refused("forgotten")
	if other := d.submit(bob, s); other == first {
		t.Error("the key counts for another tenant")
	}
	d = reopen(t, d.tape.copyTape(), d.clock, few)
	refused("after a restart")
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d.tape.copyTape(), d.clock, few)
	refused("from a snapshot")
	d.clock.add(keyLife - time.Hour)
	forgetAll()
	refused("almost 7 days later")
	d.clock.add(2 * time.Hour)
	forgetAll()
	if again := d.submit(ann, s); again == first {
		t.Errorf("8 days later it is still %s", again)
	}
}

func TestUsedKeysBounded(t *testing.T) {
	const most = 10_000
	u := usedKeys{most: most}
	now := time.Unix(1_800_000_000, 0)
	for i := range most + 10 {
		u.add(keyHash{byte(i), byte(i >> 8), byte(i >> 16)}, usedKey{job: "x-1", ended: now.Unix(), phase: sched.Finished}, now)
	}
	if len(u.order) != most || len(u.byHash) != most {
		t.Errorf("%d keys in order, %d by hash; want %d", len(u.order), len(u.byHash), most)
	}
	var again usedKeys
	if err := again.unpack(u.pack()); err != nil || len(again.order) != most || again.byHash[u.order[0]] != u.byHash[u.order[0]] {
		t.Errorf("unpacked %d keys, %v", len(again.order), err)
	}
}

func FuzzUsedKeys(f *testing.F) {
	var u usedKeys
	u.add(hashKey("blue", "a"), usedKey{job: "train-1", ended: 1_800_000_000, phase: sched.Failed}, time.Unix(1_800_000_000, 0))
	f.Add(u.pack())
	f.Add(u.pack()[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		var u usedKeys
		_ = u.unpack(b) // must not panic
	})
}
