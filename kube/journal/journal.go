// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the journal of package daemon/state in objects of a
// Kubernetes cluster, so that an operator needs no volume and the next leader
// continues where the last one stopped.
//
// # Pages
//
// Each Append creates one page, named after the number of its first record. Names are
// unique and numbers have no gaps, so if two operators both act as leader, only one can
// write the next page. The other gets ErrFenced and never writes again. This depends on
// no clock.
//
// The journal is also the token by which anything else is fenced. Whatever an operator does
// in the cluster follows from a page that it wrote or read before, so what it sees there
// and does not know either belongs to nobody, or to an operator that leads after it and has
// written the next page. Confirm tells which: it must be asked after the operator has seen
// the thing, because pages come first.
//
// A page that is too large for one object has parts, which are written before it and
// count only once the page itself exists. A snapshot is a special page; once it exists,
// the pages before it and unreferenced parts are removed. The first page of each leader
// stays for fencedFor all the same: the one that led before it would write in its place.
package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrFenced means that another leader wrote the next page.
var ErrFenced = errors.New("another operator leads: it has written the next page of the journal")

// ErrExists is returned by Pages.Create for a name that is taken.
var ErrExists = errors.New("a page of that name already exists")

// Kinds of pages.
const (
	records  = "records"
	snapshot = "snapshot"
	part     = "part"
)

// Page is one page. See v1alpha1.JournalPage for its fields.
type Page struct {
	Name   string
	Holds  string
	First  uint64
	Count  int
	Leader string
	Parts  []string
	Data   []byte
	Made   time.Time // by the clock of the API server
}

// Pages stores pages, in practice in the API server.
type Pages interface {
	// Create makes a page durable. ErrExists means that the name is taken. After any
	// other error, it is unknown whether the page exists.
	Create(context.Context, Page) error
	// Page returns a page; ok is false if there is none of that name.
	Page(ctx context.Context, name string) (p Page, ok bool, err error)
	// List returns all pages, in no order.
	List(context.Context) ([]Page, error)
	// Delete removes a page. It is no error if the page does not exist.
	Delete(ctx context.Context, name string) error
}

// Config configures a journal.
type Config struct {
	Pages  Pages
	Leader string // unique for each time an operator leads
	// MaxBytes is the maximum size of the data in one object; 0: 512 KiB.
	MaxBytes int
	// Retry is the wait before a write with an unknown outcome is checked; 0: 100 ms.
	// It doubles up to 5 s.
	Retry time.Duration
	// Lost, if not nil, ends the attempts to write when the leadership is over.
	Lost <-chan struct{}
}

// Journal implements state.Journal.
type Journal struct {
	Config

	mu      sync.Mutex
	next    uint64 // number of the next record
	snap    []byte
	upTo    uint64
	has     bool
	hot     []hotPage // since the snapshot, in order
	fenced  bool
	compact sync.Mutex // one at a time
}

// hotPage is a page of records as it is kept, compressed.
type hotPage struct {
	first uint64
	count int
	data  []byte
}

const (
	standardBytes = 512 << 10
	firstRetry    = 100 * time.Millisecond
	longestRetry  = 5 * time.Second
)

// Open reads the existing pages. It changes nothing: the first Append decides who
// leads.
func Open(ctx context.Context, c Config) (*Journal, error) {
	if c.MaxBytes <= 0 {
		c.MaxBytes = standardBytes
	}
	if c.Retry <= 0 {
		c.Retry = firstRetry
	}
	pages, err := c.Pages.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the pages of the journal: %w", err)
	}
	j := &Journal{Config: c, next: 1}
	if err := j.load(pages); err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	return j, nil
}

func (j *Journal) load(pages []Page) error {
	byName := make(map[string]Page, len(pages))
	var snaps, recs []Page
	for _, p := range pages {
		byName[p.Name] = p
		switch p.Holds {
		case snapshot:
			snaps = append(snaps, p)
		case records:
			recs = append(recs, p)
		}
	}
	slices.SortFunc(snaps, func(a, b Page) int { return compare(b.First, a.First) })
	for _, p := range snaps {
		data, ok := whole(p, byName)
		if !ok {
			continue // an operator was stopped while it removed this page
		}
		text, err := unpack(data)
		if err != nil {
			return fmt.Errorf("page %s: %w", p.Name, err)
		}
		j.snap, j.upTo, j.has = text, p.First, true
		j.next = p.First + 1
		break
	}
	slices.SortFunc(recs, func(a, b Page) int { return compare(a.First, b.First) })
	for _, p := range recs {
		if p.First+uint64(p.Count) <= j.next {
			continue // the snapshot includes it
		}
		if p.First != j.next {
			return fmt.Errorf("records %d to %d are missing: the next page is %s", j.next, p.First-1, p.Name)
		}
		data, ok := whole(p, byName)
		if !ok {
			return fmt.Errorf("page %s: a part of it is missing", p.Name)
		}
		j.hot = append(j.hot, hotPage{p.First, p.Count, data})
		j.next = p.First + uint64(p.Count)
	}
	return nil
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// whole returns the data of a page, assembled from its parts.
func whole(p Page, byName map[string]Page) ([]byte, bool) {
	if len(p.Parts) == 0 {
		return p.Data, true
	}
	var all []byte
	for _, name := range p.Parts {
		part, ok := byName[name]
		if !ok {
			return nil, false
		}
		all = append(all, part.Data...)
	}
	return all, true
}

// Append implements state.Journal. It returns when the records are durable, or when
// they certainly never will be.
func (j *Journal) Append(ctx context.Context, payloads ...[]byte) (first uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fenced {
		return 0, ErrFenced
	}
	if len(payloads) == 0 {
		return j.next, nil
	}
	data, err := pack(payloads)
	if err != nil {
		return 0, err
	}
	page := Page{Name: recordsName(j.next), Holds: records, First: j.next, Count: len(payloads), Leader: j.Leader}
	if err := j.write(ctx, page, data); err != nil {
		// Another operator leads, or it is unknown whether the page exists. The next
		// leader finds out.
		j.fenced = true
		return 0, err
	}
	first = j.next
	j.hot = append(j.hot, hotPage{first, len(payloads), data})
	j.next += uint64(len(payloads))
	return first, nil
}

// write creates a page and, before it, its parts.
func (j *Journal) write(ctx context.Context, p Page, data []byte) error {
	if len(data) <= j.MaxBytes {
		p.Data = data
		return j.create(ctx, p)
	}
	for i := 0; len(data) > 0; i++ {
		n := min(len(data), j.MaxBytes)
		piece := Page{Name: fmt.Sprintf("%s-%s-%d", p.Name, j.Leader, i), Holds: part, Leader: j.Leader, Data: data[:n]}
		if err := j.create(ctx, piece); err != nil {
			return err
		}
		p.Parts = append(p.Parts, piece.Name)
		data = data[n:]
	}
	return j.create(ctx, p)
}

// create creates a page, and retries until it is certain whether it exists.
func (j *Journal) create(ctx context.Context, p Page) error {
	wait := j.Retry
	for {
		err := j.Pages.Create(ctx, p)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrExists) {
			there, ok, err := j.Pages.Page(ctx, p.Name)
			switch {
			case err == nil && ok && same(there, p):
				return nil // an earlier try succeeded
			case err == nil && ok && p.Holds == snapshot:
				return nil // another leader wrote the same records
			case err == nil && ok:
				return ErrFenced
			}
			// The page is gone, or cannot be read now: try again.
		}
		select {
		case <-j.Lost:
			return ErrFenced
		case <-ctx.Done():
			return fmt.Errorf("write page %s: %w", p.Name, ctx.Err())
		case <-time.After(wait):
			wait = min(2*wait, longestRetry)
		}
	}
}

// Confirm returns nil if no other leader had written a page when it was called, and ErrFenced
// if one had.
func (j *Journal) Confirm(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fenced {
		return ErrFenced
	}
	_, taken, err := j.Pages.Page(ctx, recordsName(j.next))
	if err != nil {
		return fmt.Errorf("look for a page of another leader: %w", err)
	}
	if taken {
		j.fenced = true
		return ErrFenced
	}
	return nil
}

// Fenced reports whether the journal may no longer be written.
func (j *Journal) Fenced() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fenced
}

func same(a, b Page) bool {
	return a.Leader == b.Leader && a.Holds == b.Holds && a.First == b.First && a.Count == b.Count &&
		slices.Equal(a.Parts, b.Parts) && bytes.Equal(a.Data, b.Data)
}

// Snapshot implements state.Journal.
func (j *Journal) Snapshot() (payload []byte, upTo uint64, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.snap, j.upTo, j.has
}

// ReadHot implements state.Journal.
func (j *Journal) ReadHot(from uint64, fn func(seq uint64, payload []byte) error) error {
	j.mu.Lock()
	hot := slices.Clone(j.hot)
	j.mu.Unlock()
	for _, p := range hot {
		if p.first+uint64(p.count) <= from {
			continue
		}
		payloads, err := unpackAll(p.data, p.count)
		if err != nil {
			return fmt.Errorf("page %s: %w", recordsName(p.first), err)
		}
		for i, payload := range payloads {
			if seq := p.first + uint64(i); seq >= from {
				if err := fn(seq, payload); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func recordsName(first uint64) string { return fmt.Sprintf("records-%016d", first) }
func snapshotName(upTo uint64) string { return fmt.Sprintf("snapshot-%016d", upTo) }
