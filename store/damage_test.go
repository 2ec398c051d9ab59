// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// damage changes the hot file of a closed journal.
func damage(t testing.TB, dir string, change func([]byte) []byte) []byte {
	t.Helper()
	path := filepath.Join(dir, hotName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = change(b)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// small makes a journal of n records and returns its hot file.
func small(t testing.TB, n uint64) []byte {
	t.Helper()
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, n)
	closeStore(t, s)
	b, err := os.ReadFile(filepath.Join(dir, hotName))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// framesOf returns the frames of the first n records of a sound file.
func framesOf(t testing.TB, sound []byte, n uint64) [][]byte {
	t.Helper()
	frames, err := scan(bytes.NewReader(sound), int64(len(sound)))
	if err != nil {
		t.Fatal(err)
	}
	whole := make([][]byte, n)
	for _, f := range frames {
		if f.kind == kindRecord {
			whole[f.seq-1] = sound[f.at : f.at+f.size]
		}
	}
	return whole
}

// intact returns how many of the frames, from the first on, a raw file holds, in
// the simplest way there is.
func intact(frames [][]byte, raw []byte) uint64 {
	for i, f := range frames {
		if !bytes.Contains(raw, f) {
			return uint64(i)
		}
	}
	return uint64(len(frames))
}

// memoryDir is a folder in memory where there is one: tests that open hundreds of
// journals need no real syncs.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fairway-store-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// reopened opens a raw file as a journal and checks that it holds the first
// records, at least `least` of them, that damage is reported and the file kept,
// and that it can be used.
func reopened(t *testing.T, raw []byte, least, most uint64) Recovery {
	t.Helper()
	dir := memoryDir(t)
	if err := os.WriteFile(filepath.Join(dir, hotName), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s, recovery, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	last := s.Last()
	if last < least || last > most || recovery.Records != last {
		t.Fatalf("%d records (recovery %+v); want %d to %d", last, recovery, least, most)
	}
	wantRecords(t, s, 1, last)
	if recovery.Reason == "" && last < most {
		t.Fatalf("%d of %d records and no word of it", last, most)
	}
	if recovery.Reason != "" {
		if kept, err := os.ReadFile(recovery.SavedTo); err != nil || !bytes.Equal(kept, raw) {
			t.Fatalf("the damaged file was not kept as %q: %v", recovery.SavedTo, err)
		}
	}
	appendTo(t, s, last+2)
	wantRecords(t, s, 1, last+2)
	closeStore(t, s)
	return recovery
}

// stride makes a test that would take long in full look at every nth place only.
func stride(t *testing.T, n int) int {
	if testing.Short() {
		return 8 * n
	}
	return n
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	const n = 12
	sound := small(t, n)
	frames := framesOf(t, sound, n)
	for size := 0; size < len(sound); size += stride(t, 512) {
		raw := sound[:size]
		recovery := reopened(t, raw, intact(frames, raw), n)
		if recovery.Reason == "" && !bytes.Equal(bytes.TrimRight(raw, "\x00"), bytes.TrimRight(sound, "\x00")) {
			t.Fatalf("truncated to %d bytes: nothing reported", size)
		}
	}
}

func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	const n = 12
	sound := small(t, n)
	frames := framesOf(t, sound, n)
	random := rand.New(rand.NewPCG(3, 4))
	for i := 0; i < 150; i += stride(t, 1) {
		raw := bytes.Clone(sound)
		for range 1 + random.IntN(4) {
			raw[random.IntN(len(raw))] ^= byte(1 + random.IntN(255))
		}
		reopened(t, raw, intact(frames, raw), n)
	}
}

// TestZeroedPages: what a disk gives back for sectors it lost.
func TestZeroedPages(t *testing.T) {
	const n = 12
	sound := small(t, n)
	frames := framesOf(t, sound, n)
	for at := 0; at+4096 <= len(sound); at += stride(t, 4096) {
		raw := bytes.Clone(sound)
		clear(raw[at : at+4096])
		reopened(t, raw, intact(frames, raw), n)
	}
}

// TestCopiedAtAnyTime: the file as another program finds it while the journal
// writes: between two writes it is always a journal of what was acknowledged.
func TestCopiedAtAnyTime(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	for n := uint64(1); n <= 30; n++ {
		appendTo(t, s, n)
		raw, err := os.ReadFile(s.hotPath())
		if err != nil {
			t.Fatal(err)
		}
		if recovery := reopened(t, raw, n, n); recovery.Reason != "" {
			t.Fatalf("copy after %d records: %+v", n, recovery)
		}
	}
}

// TestHole: records behind a gap are not replayed, but kept for people.
func TestHole(t *testing.T) {
	sound := small(t, 12)
	frames, err := scan(bytes.NewReader(sound), int64(len(sound)))
	if err != nil {
		t.Fatal(err)
	}
	raw := bytes.Clone(sound)
	for _, f := range frames {
		if f.kind == kindRecord && f.seq == 5 {
			raw[f.at+headerSize] ^= 1 // in every copy of record 5
		}
	}
	recovery := reopened(t, raw, 4, 4)
	if recovery.From != 5 || recovery.Dropped != 7 {
		t.Errorf("recovery %+v; want 7 records dropped from 5 on", recovery)
	}
	unused, err := ReadUnused(recovery.Unused)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(6); seq <= 12; seq++ {
		if i := int(seq - 6); i >= len(unused) || string(unused[i]) != payloadOf(seq) {
			t.Errorf("record %d is not in its place in %s", seq, recovery.Unused)
		}
	}
	dir := filepath.Dir(recovery.Unused)
	if got := Unused(dir); len(got) != 1 || MarkUsed(got[0]) != nil || len(Unused(dir)) != 0 {
		t.Errorf("unused: %v; want the file until it is used", got)
	}
}

// TestHalfAppend: an Append of which a part is lost is lost as a whole.
func TestHalfAppend(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 4)
	if _, err := s.Append(context.Background(), []byte("of three"), []byte("of three"), []byte("the last")); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	damage(t, dir, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("the last"), []byte("THE last")) })
	s, recovery := open(t, Config{Dir: dir})
	wantRecords(t, s, 1, 4)
	if recovery.From != 5 || recovery.Dropped != 2 {
		t.Errorf("recovery %+v; want 2 records dropped from 5 on", recovery)
	}
}

// TestStaleFrames: what a failed transaction leaves in free pages never takes
// the place of what was committed, nor does half of an Append count.
func TestStaleFrames(t *testing.T) {
	rec := func(seq, term uint64, left uint32) found {
		return found{frame: frame{kind: kindRecord, seq: seq, term: term, left: left}}
	}
	none := func(uint64) uint64 { return 0 }
	for _, c := range []struct {
		name   string
		frames []found
		want   []uint64 // terms of the run from 1 on
	}{
		{"later term wins", []found{rec(1, 1, 0), rec(2, 3, 0), rec(2, 2, 0), rec(3, 4, 0)}, []uint64{1, 3, 4}},
		{"older term after newer", []found{rec(1, 1, 0), rec(2, 2, 0), rec(3, 2, 0), rec(2, 3, 0)}, []uint64{1, 3}},
		{"half an append", []found{rec(1, 1, 0), rec(2, 2, 2), rec(3, 2, 1)}, []uint64{1}},
		{"whole append", []found{rec(3, 2, 0), rec(1, 1, 0), rec(2, 2, 1)}, []uint64{1, 2, 2}},
		{"gap", []found{rec(1, 1, 0), rec(3, 1, 0)}, []uint64{1}},
		{"nothing to begin with", []found{rec(2, 1, 0)}, nil},
	} {
		h := pick(c.frames, none)
		var got []uint64
		for _, f := range h.records {
			got = append(got, f.term)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: terms %v; want %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: terms %v; want %v", c.name, got, c.want)
			}
		}
	}
}

// TestCutShortPage: a page that claims fewer elements than it has hides the last
// records without a gap. That is noticed, and they come back.
func TestCutShortPage(t *testing.T) {
	const n = 8
	sound := small(t, n)
	hidden := 0
	for page := 0; page < len(sound); page += os.Getpagesize() {
		header := sound[page : page+pageHeader]
		flags, count := native.Uint16(header[8:]), native.Uint16(header[10:])
		for fewer := uint16(1); fewer < count && (flags == flagLeaf || flags == flagBranch); fewer++ {
			raw := bytes.Clone(sound)
			native.PutUint16(raw[page+10:], fewer)
			if reopened(t, raw, n, n).Reason != "" {
				hidden++
			}
		}
	}
	if hidden == 0 {
		t.Error("no page hid a record")
	}
}
