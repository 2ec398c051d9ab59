// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/kube/journal"
)

// server is an API server whose responses may get lost.
type server struct {
	pages map[string]journal.Page
	now   time.Time
	// lose says what happens to the next write: 0 it works, 1 the request is lost,
	// 2 it works and the answer is lost.
	lose func() int
}

func newServer() *server {
	return &server{pages: map[string]journal.Page{}, lose: func() int { return 0 }}
}

var errLost = errors.New("connection reset")

func (s *server) Create(_ context.Context, p journal.Page) error {
	fate := s.lose()
	if fate == 1 {
		return errLost
	}
	if _, taken := s.pages[p.Name]; taken {
		return journal.ErrExists
	}
	p.Data, p.Made = bytes.Clone(p.Data), s.now
	s.pages[p.Name] = p
	if fate == 2 {
		return errLost
	}
	return nil
}

func (s *server) Page(_ context.Context, name string) (journal.Page, bool, error) {
	p, ok := s.pages[name]
	return p, ok, nil
}

func (s *server) List(context.Context) ([]journal.Page, error) {
	var out []journal.Page
	for _, p := range s.pages {
		out = append(out, p)
	}
	return out, nil
}

func (s *server) Delete(_ context.Context, name string) error {
	delete(s.pages, name)
	return nil
}

func open(t interface{ Fatal(...any) }, s *server, leader string) *journal.Journal {
	j, err := journal.Open(context.Background(), journal.Config{Pages: s, Leader: leader, MaxBytes: 64, Retry: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// read returns everything in the journal. A snapshot is the text of the records that it
// replaces.
func read(t interface{ Fatal(...any) }, j *journal.Journal) []string {
	var out []string
	snap, upTo, ok := j.Snapshot()
	if ok {
		for _, line := range bytes.Split(snap, []byte("\n")) {
			out = append(out, string(line))
		}
	}
	want := upTo + 1
	err := j.ReadHot(upTo+1, func(seq uint64, payload []byte) error {
		if seq != want {
			return fmt.Errorf("record %d follows %d", seq, want-1)
		}
		want++
		out = append(out, string(payload))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRandom: whatever is lost, crashes or is compacted, the next leader reads every
// acknowledged record once, in order.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newServer()
		s.lose = func() int {
			return rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "fate")
		}
		var want []string
		j := open(t, s, "leader-0")
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"append", "append", "append", "compact", "crash"}).Draw(t, "step") {
			case "append":
				var payloads [][]byte
				for k := range rapid.IntRange(1, 4).Draw(t, "records") {
					text := fmt.Sprintf("record %d.%d %s", i, k, rapid.StringMatching(`[a-z]{0,200}`).Draw(t, "text"))
					payloads = append(payloads, []byte(text))
					want = append(want, text)
				}
				first, err := j.Append(context.Background(), payloads...)
				if err != nil || int(first) != len(want)-len(payloads)+1 {
					t.Fatalf("Append = %d, %v; want %d", first, err, len(want)-len(payloads)+1)
				}
			case "compact":
				if len(want) == 0 {
					continue
				}
				var text []byte
				for k, w := range want {
					if k > 0 {
						text = append(text, '\n')
					}
					text = append(text, w...)
				}
				if err := j.Compact(text, uint64(len(want))); err != nil {
					t.Fatal(err)
				}
			case "crash":
				j = open(t, s, fmt.Sprint("leader-", i+1))
			}
			if got := read(t, j); !slices.Equal(got, want) {
				t.Fatalf("read %q\nwant %q", got, want)
			}
		}
		if got := read(t, open(t, s, "last")); !slices.Equal(got, want) {
			t.Fatalf("the next leader reads %q\nwant %q", got, want)
		}
	})
}

// TestFence: if two operators believe they lead, only one can write.
func TestFence(t *testing.T) {
	s := newServer()
	old := open(t, s, "old")
	if _, err := old.Append(context.Background(), []byte("a")); err != nil {
		t.Fatal(err)
	}
	young := open(t, s, "young")
	if _, err := young.Append(context.Background(), []byte("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Append(context.Background(), []byte("c")); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the old leader writes: %v", err)
	}
	if err := old.Compact([]byte("x"), 1); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the old leader compacts: %v", err)
	}
	if got, want := read(t, open(t, s, "next")), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("read %q; want %q", got, want)
	}
}

// TestConfirm: a leader that has not written for a while learns that another leads, even if that
// one has replaced its pages by a snapshot.
func TestConfirm(t *testing.T) {
	ctx := context.Background()
	add := func(j *journal.Journal) {
		t.Helper()
		if _, err := j.Append(ctx, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, compacts := range []bool{false, true} {
		s := newServer()
		old := open(t, s, "old")
		add(old)
		young := open(t, s, "young")
		if err := old.Confirm(ctx); err != nil {
			t.Fatalf("before another writes: %v", err)
		}
		add(young)
		add(young)
		if compacts {
			if err := young.Compact([]byte("x\nx\nx"), 3); err != nil {
				t.Fatal(err)
			}
		}
		if err := old.Confirm(ctx); !errors.Is(err, journal.ErrFenced) {
			t.Errorf("another leads, compacts %v: the old leader confirms: %v", compacts, err)
		}
		if _, err := old.Append(ctx, []byte("y")); !errors.Is(err, journal.ErrFenced) {
			t.Errorf("another leads, compacts %v: the old leader writes: %v", compacts, err)
		}
		if err := young.Confirm(ctx); err != nil {
			t.Errorf("the young leader does not confirm: %v", err)
		}
	}
}

// TestFencesAge: the first pages of leaders are removed in the end.
func TestFencesAge(t *testing.T) {
	ctx := context.Background()
	s := newServer()
	for i := range 3 {
		s.now = s.now.Add(40 * time.Minute)
		j := open(t, s, fmt.Sprint("leader-", i))
		for range 2 {
			if _, err := j.Append(ctx, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if i == 2 {
			if err := j.Compact([]byte("x\nx\nx\nx\nx\nx"), 6); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := slices.Sorted(maps.Keys(s.pages))
	want := []string{"records-0000000000000003", "records-0000000000000005", "snapshot-0000000000000006"}
	if !slices.Equal(got, want) {
		t.Errorf("pages are left: %q; want %q", got, want)
	}
}

// TestLost: a leader that can no longer reach the server gives up for good, because its
// last page may or may not exist.
func TestLost(t *testing.T) {
	s := newServer()
	s.lose = func() int { return 2 }
	lost := make(chan struct{})
	close(lost)
	j, err := journal.Open(context.Background(), journal.Config{Pages: s, Leader: "a", Lost: lost, Retry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(context.Background(), []byte("a")); !errors.Is(err, journal.ErrFenced) || !j.Fenced() {
		t.Errorf("Append after the leadership was lost: %v, fenced %v", err, j.Fenced())
	}
}

// TestGap: a deleted page is an error.
func TestGap(t *testing.T) {
	s := newServer()
	j := open(t, s, "a")
	for range 3 {
		if _, err := j.Append(context.Background(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	delete(s.pages, "records-0000000000000002")
	_, err := journal.Open(context.Background(), journal.Config{Pages: s, Leader: "b"})
	if want := "read the journal: records 2 to 2 are missing: the next page is records-0000000000000003"; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

// FuzzOpen: corrupt pages give an error, never a panic.
func FuzzOpen(f *testing.F) {
	f.Add("records", int64(1), 1, []byte("x"))
	f.Add("snapshot", int64(0), 0, []byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, holds string, first int64, count int, data []byte) {
		s := newServer()
		s.pages["p"] = journal.Page{Name: "p", Holds: holds, First: uint64(first), Count: count, Data: data}
		j, err := journal.Open(context.Background(), journal.Config{Pages: s, Leader: "a"})
		if err != nil {
			return
		}
		_ = j.ReadHot(1, func(uint64, []byte) error { return nil })
	})
}
