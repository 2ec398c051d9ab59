// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

func wantSnapshot(t *testing.T, s *Store, want string, wantUpTo uint64) {
	t.Helper()
	payload, upTo, ok := s.Snapshot()
	if string(payload) != want || upTo != wantUpTo || ok != (want != "") {
		t.Errorf("Snapshot = %.20q, %d, %v; want %q, %d", payload, upTo, ok, want, wantUpTo)
	}
}

func compact(t *testing.T, s *Store, snapshot string, upTo uint64) {
	t.Helper()
	if err := s.Compact([]byte(snapshot), upTo); err != nil {
		t.Fatal(err)
	}
}

func TestCompact(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	wantSnapshot(t, s, "", 0)
	appendTo(t, s, 10)
	compact(t, s, "state 6", 6)
	appendTo(t, s, 20)
	compact(t, s, "state 15", 15)
	check := func() {
		t.Helper()
		wantSnapshot(t, s, "state 15", 15)
		wantRecords(t, s, 1, 20)
		wantRecords(t, s, 8, 20)
		wantRecords(t, s, 16, 20)
		var hot []uint64
		if err := s.ReadHot(0, func(seq uint64, _ []byte) error { hot = append(hot, seq); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(hot) != 5 || hot[0] != 16 {
			t.Errorf("ReadHot: %v; want 16 to 20", hot)
		}
		if st := s.Stats(); st.Records != 5 || st.Segments != 2 || st.Oldest != 1 || st.Last != 20 || st.ArchiveBytes == 0 {
			t.Errorf("Stats = %+v; want 5 records, 2 segments, 1 to 20", st)
		}
	}
	check()
	live := s.Stats().LiveBytes
	closeStore(t, s)
	s, _ = open(t, Config{Dir: dir})
	check()
	if got := s.Stats().LiveBytes; got != live {
		t.Errorf("live bytes: %d after reopening, %d before", got, live)
	}
	for _, upTo := range []uint64{0, 14, 21} {
		if err := s.Compact([]byte("x"), upTo); err == nil {
			t.Errorf("Compact up to %d of 15 to 20 succeeded", upTo)
		}
	}
	compact(t, s, "state 20", 20)
	compact(t, s, "state 20, again", 20)
	closeStore(t, s)
	s, recovery := open(t, Config{Dir: dir})
	wantSnapshot(t, s, "state 20, again", 20)
	if recovery != (Recovery{}) || s.Last() != 20 {
		t.Errorf("journal with an empty hot file: %+v, last %d; want 20", recovery, s.Last())
	}
	appendTo(t, s, 22)
	wantRecords(t, s, 1, 22)
}

func TestRetention(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir, ArchiveBytes: 1})
	for n := uint64(10); n <= 50; n += 10 {
		appendTo(t, s, n)
		compact(t, s, "state", n)
	}
	// The segment that leads from the snapshot before to the last one stays.
	if s.Oldest() != 41 {
		t.Errorf("Oldest = %d; want 41", s.Oldest())
	}
	err := s.Read(1, func(uint64, []byte) error { return nil })
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "41") {
		t.Errorf("Read(1): %v; want ErrGone that names 41", err)
	}
	wantRecords(t, s, 41, 50)
	closeStore(t, s)
	s, recovery := open(t, Config{Dir: dir})
	if recovery.Reason != "" || s.Oldest() != 41 || s.Last() != 50 {
		t.Errorf("reopened: %+v with %d to %d; want 41 to 50", recovery, s.Oldest(), s.Last())
	}
}

// TestSnapshotFallsBack: a damaged snapshot gives way to the one before, and the
// archive leads on from it.
func TestSnapshotFallsBack(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 10)
	compact(t, s, "the first state", 10)
	appendTo(t, s, 20)
	compact(t, s, "the second state", 20)
	appendTo(t, s, 25)
	closeStore(t, s)
	damage(t, dir, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("the second"), []byte("THE second")) })
	s, recovery := open(t, Config{Dir: dir})
	if recovery.Reason == "" || recovery.MissingFrom != 0 {
		t.Errorf("recovery %+v; want a reason and nothing missing", recovery)
	}
	wantSnapshot(t, s, "the first state", 10)
	wantRecords(t, s, 11, 25)
	wantRecords(t, s, 1, 25)
	appendTo(t, s, 30)
	compact(t, s, "the third state", 28)
	wantRecords(t, s, 1, 30)
}

// TestArchiveMissing: Open says so if the state cannot be rebuilt.
func TestArchiveMissing(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 10)
	compact(t, s, "the only state", 10)
	appendTo(t, s, 15)
	closeStore(t, s)
	if err := os.RemoveAll(filepath.Join(dir, archiveName)); err != nil {
		t.Fatal(err)
	}
	s, recovery := open(t, Config{Dir: dir})
	if recovery.Reason != "" {
		t.Errorf("with a snapshot: %+v; want nothing to report", recovery)
	}
	if err := s.update(func(tx *bbolt.Tx, _ uint64) error { return tx.Bucket(bucketSnapshots).Delete(key(10)) }); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s, recovery = open(t, Config{Dir: dir})
	if recovery.MissingFrom != 1 || recovery.MissingTo != 10 || recovery.Reason == "" {
		t.Errorf("without a snapshot: %+v; want 1 to 10 missing", recovery)
	}
	wantRecords(t, s, 11, 15)
}

// TestHotMissing: the archive is not forgotten when the hot file is gone.
func TestHotMissing(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 10)
	compact(t, s, "state", 8)
	closeStore(t, s)
	if err := os.Remove(filepath.Join(dir, hotName)); err != nil {
		t.Fatal(err)
	}
	s, recovery := open(t, Config{Dir: dir})
	if recovery.Reason == "" || recovery.From != 9 {
		t.Errorf("recovery %+v; want a reason, from 9 on", recovery)
	}
	wantRecords(t, s, 1, 8)
	appendTo(t, s, 9)
	wantRecords(t, s, 1, 9)
}

// TestUnfinishedCompact: a crash, or a full disk, after the segment got its name
// and before the records went.
func TestUnfinishedCompact(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 10)
	s.fault = func() error { return full() }
	if err := s.Compact([]byte("state"), 7); !errors.Is(err, ErrFull) {
		t.Fatalf("Compact on a full disk: %v; want ErrFull", err)
	}
	s.fault = nil
	wantSnapshot(t, s, "", 0)
	wantRecords(t, s, 1, 10)
	closeStore(t, s)
	s, recovery := open(t, Config{Dir: dir})
	if recovery != (Recovery{Records: 10}) || s.Stats().Segments != 0 {
		t.Errorf("recovery %+v with %d segments; want 10 records and none", recovery, s.Stats().Segments)
	}
	s.fault = func() error { return full() }
	_ = s.Compact([]byte("state"), 7)
	s.fault = nil
	compact(t, s, "state", 9) // the longer segment replaces the one left over
	if got := s.Stats().Segments; got != 1 {
		t.Errorf("%d segments; want 1", got)
	}
	wantRecords(t, s, 1, 10)
}

func TestCorruptSegment(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 10)
	compact(t, s, "state", 10)
	seg := s.segments[0].path
	whole, err := os.ReadFile(seg)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		b := bytes.Clone(whole)
		b[10+random.IntN(len(b)-18)] ^= byte(1 << random.IntN(8))
		if err := os.WriteFile(seg, b, 0o600); err != nil {
			t.Fatal(err)
		}
		next := uint64(1)
		err := s.Read(1, func(seq uint64, p []byte) error {
			if seq != next || string(p) != payloadOf(seq) {
				t.Errorf("record %d is wrong", seq)
			}
			next++
			return nil
		})
		if err == nil && next == 11 {
			continue // a bit that changes nothing
		}
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), seg) {
			t.Fatalf("Read: %v; want ErrCorrupt that names %s", err, seg)
		}
	}
}

func TestShrink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	for range 5 {
		if _, err := s.Append(context.Background(), make([]byte, 4<<20)); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(t, s, 6)
	before := s.Stats().FileBytes
	if err := s.Compact([]byte("state"), 5); err != nil {
		t.Fatal(err)
	}
	after := s.Stats().FileBytes
	if before < 20<<20 || after > 1<<20 {
		t.Errorf("file has %d bytes before and %d after; want more than 20 MiB and less than 1 MiB", before, after)
	}
	if _, _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("Open after the file was replaced: %v; want ErrLocked", err)
	}
	if first, err := s.Append(context.Background(), []byte("more")); err != nil || first != 7 {
		t.Fatalf("Append = %d, %v; want 7", first, err)
	}
	closeStore(t, s)
	s, recovery := open(t, Config{Dir: dir})
	wantSnapshot(t, s, "state", 5)
	if recovery != (Recovery{Records: 2}) || len(contentsOf(t, s, 1)) != 7 {
		t.Errorf("reopened: %+v; want 2 records, and 7 with the archive", recovery)
	}
}
