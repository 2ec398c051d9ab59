// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

var _ api.Feed = (*Store)(nil)

// How many records, and bytes of them, stay in memory for readers; the whole journal
// is on disk.
const (
	keepRecords     = 20_000
	keepRecordBytes = 64 << 20
)

// feed holds the latest records and wakes watchers.
type feed struct {
	records []api.Record // without gaps
	sizes   []int        // of records, in the journal
	bytes   int          // all of sizes
	last    uint64
	more    chan struct{} // closed when there is more
}

func (f *feed) restart(records []api.Record, sizes []int, last uint64) {
	f.records, f.sizes, f.bytes, f.last = nil, nil, 0, last
	f.add(records, sizes)
	f.last = last
	if f.more != nil {
		close(f.more)
	}
	f.more = make(chan struct{})
}

func (f *feed) add(records []api.Record, sizes []int) {
	if len(records) == 0 {
		return
	}
	f.records, f.sizes = append(f.records, records...), append(f.sizes, sizes...)
	for _, n := range sizes {
		f.bytes += n
	}
	if len(f.records) > keepRecords*5/4 || f.bytes > keepRecordBytes*5/4 {
		f.drop()
	}
	f.last = records[len(records)-1].Seq
	if f.more != nil {
		close(f.more)
		f.more = make(chan struct{})
	}
}

// drop forgets the oldest records beyond the limits.
func (f *feed) drop() {
	over := 0
	for over < len(f.records)-keepRecords || f.bytes > keepRecordBytes && over < len(f.records) {
		f.bytes -= f.sizes[over]
		over++
	}
	f.records, f.sizes = slices.Clone(f.records[over:]), slices.Clone(f.sizes[over:])
}

func (f *feed) oldest() uint64 {
	if len(f.records) == 0 {
		return f.last + 1
	}
	return f.records[0].Seq
}

// after returns the kept records after a sequence number.
func (f *feed) after(seq uint64) []api.Record {
	if seq >= f.last || len(f.records) == 0 {
		return nil
	}
	first := f.records[0].Seq
	if seq < first {
		return f.records
	}
	return f.records[seq-first+1:]
}

// Records implements api.Feed.
func (b *Store) Records(who api.Identity, f api.RecordFilter) (api.RecordPage, error) {
	limit, err := api.PageSize(f.Limit)
	if err != nil {
		return api.RecordPage{}, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	page := api.RecordPage{Records: []api.Record{}, Next: f.After, Oldest: b.feed.oldest()}
	for _, r := range b.feed.after(f.After) {
		if len(page.Records) == limit {
			break
		}
		page.Next = r.Seq
		if shown, ok := b.shows(who, f, r); ok {
			page.Records = append(page.Records, shown)
		}
	}
	return page, nil
}

// shows returns a record as the identity may see it; ok is false if it may not, or
// if the filter excludes it.
func (b *Store) shows(who api.Identity, f api.RecordFilter, r api.Record) (api.Record, bool) {
	id := r.Job()
	if !b.mem.isOf(&r, f.Job, f.App) || (f.Kind != "" && f.Kind != r.Kind()) {
		return r, false
	}
	if r.Token != nil {
		if who.Role < api.Admin {
			return r, false
		}
		t := *r.Token
		t.Hash = nil
		r.Token = &t
	}
	if r.Search != nil {
		return r, who.Sees(r.Search.Tenant)
	}
	if may, about := b.mem.showsBid(who, &r); about {
		return r, may
	}
	if id == "" {
		if r.Event != nil && r.Event.Kind == sched.TenantSet {
			return r, who.Sees(r.Event.Tenant.ID)
		}
		return r, true
	}
	if r.Event != nil && r.Event.Spec != nil {
		return r, who.Sees(r.Event.Spec.Tenant)
	}
	x := b.mem.jobs[id]
	return r, who.Role == api.Admin || (x != nil && who.Sees(x.Job.Tenant))
}

// isOf reports whether a record is about a job or an array, and about an app; empty:
// about any.
func (m *memory) isOf(r *api.Record, job sched.JobID, app sched.AppID) bool {
	x := m.jobs[r.Job()]
	if job != "" && r.Job() != job && (x == nil || x.Task.Member == nil || x.Task.Member.Array != string(job)) {
		return false
	}
	switch {
	case app == "":
		return true
	case x != nil:
		return isApp(x.Job.App, x.Job.Tenant, app)
	case r.Search != nil:
		return isApp(r.Search.ID, r.Search.Tenant, app)
	case r.Bidder != nil:
		return isApp(r.Bidder.App, r.Bidder.Tenant, app)
	}
	return r.Event != nil && r.Event.App == app
}

// Watch implements api.Feed. A watcher that falls behind the kept records misses
// some, and sees that from the sequence numbers.
func (b *Store) Watch(ctx context.Context, who api.Identity, f api.RecordFilter, send func(api.Record) error) error {
	const most = 256 // at a time, so that the lock is never held for long
	for {
		b.mu.RLock()
		more := b.feed.more
		var batch []api.Record
		behind := false
		for _, r := range b.feed.after(f.After) {
			if len(batch) == most {
				behind = true
				break
			}
			f.After = r.Seq
			if shown, ok := b.shows(who, f, r); ok {
				batch = append(batch, shown)
			}
		}
		b.mu.RUnlock()
		for _, r := range batch {
			if err := send(r); err != nil {
				return err
			}
		}
		if behind {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.closed:
			return api.Errorf(api.Unavailable, "the daemon is stopping")
		case <-more:
		}
	}
}

// longestRead is how long a reader waits for the journal to have what it has read.
const longestRead = 10 * time.Second

// durably reads the state, and returns when the journal has all that was read. If the
// journal refuses a change that was read, it reads again.
func durably[T any](b *Store, read func() (T, error)) (T, error) {
	timeout := time.After(longestRead)
	for {
		b.mu.RLock()
		v, err := read()
		mem := b.mem
		seq := mem.Seq
		for b.mem == mem && b.feed.last < seq {
			more := b.feed.more
			b.mu.RUnlock()
			select {
			case <-more:
			case <-timeout:
				var none T
				return none, api.Errorf(api.Unavailable, "the journal has not answered for %s", longestRead).Try("look at the disk of the data folder")
			}
			b.mu.RLock()
		}
		refused := b.mem != mem
		b.mu.RUnlock()
		if !refused {
			return v, err
		}
	}
}
