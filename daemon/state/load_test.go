// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestQueueIsShared: one user, or one tenant, cannot fill the queue for others, and
// nobody can fill it for admins.
func TestQueueIsShared(t *testing.T) {
	d := open(t, func(c *Config) { c.MaxQueue = 16 })
	fill := func(who api.Identity, most int, why string) {
		t.Helper()
		for i := range most {
			if _, err := d.Submit(t.Context(), who, []api.Submission{submission("x", 1)}); err != nil {
				t.Fatalf("job %d of %s: %v", i+1, who.User, err)
			}
		}
		_, err := d.Submit(t.Context(), who, []api.Submission{submission("x", 1)})
		wantCode(t, "one more of "+who.User, err, api.TooMany)
		if err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("one more of %s: %v; want %q", who.User, err, why)
		}
	}
	of := func(user string, tenant sched.TenantID) api.Identity {
		return api.Identity{User: user, Tenant: tenant, Role: api.User, Owner: ann.Owner}
	}
	fill(of("ann", "blue"), 4, "5 jobs that wait or run for user ann; the limit is 4")
	fill(of("bea", "blue"), 4, "5 jobs that wait or run for user bea; the limit is 4")
	fill(of("cem", "blue"), 0, "9 jobs that wait or run for tenant blue; the limit is 8")
	fill(of("ann", "red"), 4, "for user ann") // another person
	fill(of("dan", "grey"), 2, "15 jobs that wait or run for all without the role admin; the limit is 14")
	fill(admin, 2, "17 jobs that wait or run for all; the limit is 16")
	page, err := d.List(admin, api.JobFilter{User: "bea", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	d.command(page.Jobs[0].ID, api.Cancel)
	fill(of("bea", "blue"), 0, "16 jobs that wait or run for all without the role admin") // the reserve stays
	// A restart counts the same.
	after := reopen(t, d.tape.copyTape(), d.clock, func(c *Config) { c.MaxQueue = 16 })
	_, err = after.Submit(t.Context(), of("ann", "blue"), []api.Submission{submission("x", 1)})
	wantCode(t, "after a restart", err, api.TooMany)
	if got, want := after.mem.queued.all, d.mem.queued.all; got != want || want.jobs != 15 {
		t.Errorf("after a restart %+v are counted, before %+v; want 15 jobs", got, want)
	}
}

// large returns a job of so many bytes.
func large(bytes int) api.Submission {
	s := submission("x", 1)
	s.Command = []string{"sh", "-c", strings.Repeat("x", bytes)}
	return s
}

// TestQueueBytes: jobs are counted by their size too, as long as they are kept.
func TestQueueBytes(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	d := open(t, func(c *Config) { c.MaxQueueBytes, c.Keep = mib, 1000 })
	for i := range 2 {
		d.submit(ann, large(120*kib))
		if want := int64(i+1) * 120 * kib; d.mem.queued.all.bytes < want || d.mem.queued.all.bytes > want+kib {
			t.Errorf("%d bytes are counted; want %d and a little more", d.mem.queued.all.bytes, want)
		}
	}
	_, err := d.Submit(t.Context(), ann, []api.Submission{large(120 * kib)})
	wantCode(t, "a quarter", err, api.TooMany)
	if err != nil && !strings.Contains(err.Error(), "bytes of jobs that wait or run for user ann; the limit is 262144") {
		t.Errorf("too many bytes: %v", err)
	}
	d.submit(ann, submission("small", 1))
	for i := range 40 { // ended jobs do not fill the memory either
		id := d.submit(bob, large(120*kib))
		d.command(id, api.Cancel)
		if d.mem.endedBytes > mib {
			t.Fatalf("after %d jobs the ended ones have %d bytes; want at most %d", i+1, d.mem.endedBytes, mib)
		}
	}
	if got := len(d.mem.Ended); got < 5 || got > 8 {
		t.Errorf("%d ended jobs are kept; want as many as fit into 1 MiB", got)
	}
	if got := d.mem.queued.tenants[bob.Tenant]; got != (load{}) {
		t.Errorf("bob's jobs have ended, and %+v are counted", got)
	}
}

// TestFeedBytes: the records that are kept for readers are bounded by size.
func TestFeedBytes(t *testing.T) {
	var f feed
	for i := range 400 {
		r := api.Record{Seq: uint64(i + 1), Text: fmt.Sprint(i)}
		f.add([]api.Record{r}, []int{1 << 20})
	}
	if f.bytes > keepRecordBytes*5/4 || len(f.records) != f.bytes>>20 || len(f.sizes) != len(f.records) {
		t.Errorf("%d records of %d bytes are kept", len(f.records), f.bytes)
	}
	if got := f.after(399); f.oldest() != f.records[0].Seq || len(got) != 1 || got[0].Text != "399" {
		t.Errorf("after 399: %v, oldest %d; want the last record", got, f.oldest())
	}
}

// TestSearchesAreShared: one user cannot open all searches.
func TestSearchesAreShared(t *testing.T) {
	d := open(t)
	for i := range MaxSearches / 4 {
		d.mem.Searches = append(d.mem.Searches, &searchEntry{Search: api.Search{ID: sched.AppID(fmt.Sprint(i)), Tenant: ann.Tenant, User: ann.User}})
	}
	err := d.mem.roomFor(ann, "new")
	wantCode(t, "one more", err, api.TooMany)
	if err := d.mem.roomFor(bob, "new"); err != nil {
		t.Errorf("the search of another user: %v", err)
	}
}
