// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// open opens a journal that is closed when the test ends.
func open(t testing.TB, c Config) (*Store, Recovery) {
	t.Helper()
	s, recovery, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s, recovery
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// payloadOf is what record n holds in most tests; sizes vary from a few bytes to
// more than a page.
func payloadOf(n uint64) string {
	return fmt.Sprintf(`{"record":%d,"text":%q}`, n, strings.Repeat("x", int(n*n*37%6000)))
}

// appendTo appends records until the journal has n.
func appendTo(t testing.TB, s *Store, n uint64) {
	t.Helper()
	for seq := s.Last() + 1; seq <= n; seq++ {
		got, err := s.Append(context.Background(), []byte(payloadOf(seq)))
		if err != nil || got != seq {
			t.Fatalf("Append = %d, %v; want %d", got, err, seq)
		}
	}
}

// contentsOf reads a journal; sequence numbers without a gap are checked.
func contentsOf(t testing.TB, s *Store, from uint64) []string {
	t.Helper()
	var out []string
	err := s.Read(from, func(seq uint64, p []byte) error {
		if seq != from {
			return fmt.Errorf("record %d; want %d", seq, from)
		}
		from++
		out = append(out, string(p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantRecords(t testing.TB, s *Store, from, last uint64) {
	t.Helper()
	got := contentsOf(t, s, from)
	var want []string
	for n := from; n <= last; n++ {
		want = append(want, payloadOf(n))
	}
	if !slices.Equal(want, got) {
		t.Fatalf("records from %d (-want +got):\n%s", from, cmp.Diff(want, got))
	}
	if s.Last() != last {
		t.Fatalf("Last = %d; want %d", s.Last(), last)
	}
}

func TestAppendAndReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "journal")
	s, recovery := open(t, Config{Dir: dir})
	if diff := cmp.Diff(Recovery{}, recovery); diff != "" {
		t.Errorf("new journal (-want +got):\n%s", diff)
	}
	if s.Last() != 0 || s.Oldest() != 1 {
		t.Errorf("new journal has records %d to %d; want 1 to 0", s.Oldest(), s.Last())
	}
	appendTo(t, s, 20)
	first, err := s.Append(context.Background(), []byte(payloadOf(21)), []byte(payloadOf(22)), []byte(payloadOf(23)))
	if err != nil || first != 21 {
		t.Fatalf("Append of three = %d, %v; want 21", first, err)
	}
	wantRecords(t, s, 1, 23)
	closeStore(t, s)
	if _, err := s.Append(context.Background(), []byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close: %v; want ErrClosed", err)
	}
	if err := s.Read(1, func(uint64, []byte) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Read after Close: %v; want ErrClosed", err)
	}
	s, recovery = open(t, Config{Dir: dir})
	if diff := cmp.Diff(Recovery{Records: 23}, recovery); diff != "" {
		t.Errorf("reopened (-want +got):\n%s", diff)
	}
	appendTo(t, s, 30)
	wantRecords(t, s, 1, 30)
	wantRecords(t, s, 29, 30)
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, s.hotPath(): 0o600, filepath.Join(dir, lockName): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v (%v); want %v", path, info.Mode(), err, want)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	s, _ := open(t, Config{Dir: t.TempDir(), MaxRecord: 10})
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name     string
		ctx      context.Context
		payloads [][]byte
		want     error
	}{
		{"too large", context.Background(), [][]byte{[]byte("ok"), make([]byte, 11)}, ErrTooLarge},
		{"cancelled", cancelled, [][]byte{[]byte("ok")}, context.Canceled},
		{"none", context.Background(), nil, nil},
	} {
		if _, err := s.Append(c.ctx, c.payloads...); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.name, err, c.want)
		}
	}
	if s.Last() != 0 {
		t.Errorf("Last = %d after refused appends; want 0", s.Last())
	}
	if first, err := s.Append(context.Background(), make([]byte, 10)); first != 1 || err != nil {
		t.Errorf("Append of the largest = %d, %v", first, err)
	}
}

// TestConcurrentAppends: every Append gets numbers of its own, and they share
// transactions. Readers and compactions run meanwhile.
// TestGivenUp: records whose Append gave up while they waited for their turn are
// never written.
func TestGivenUp(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	writing, goOn := make(chan struct{}), make(chan struct{})
	s.fault = func() error {
		writing <- struct{}{}
		<-goOn
		return nil
	}
	first := make(chan error)
	go func() {
		_, err := s.Append(context.Background(), []byte(payloadOf(1)))
		first <- err
	}()
	<-writing
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan error)
	go func() {
		_, err := s.Append(ctx, []byte("given up"))
		second <- err
	}()
	for s.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Fatalf("the Append that waits: %v; want %v", err, context.Canceled)
	}
	s.fault = nil // the committer reads it after goOn
	close(goOn)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s, _ = open(t, Config{Dir: dir})
	wantRecords(t, s, 1, 1)
}

func TestConcurrentAppends(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir, Queue: 8})
	const writers, each = 32, 20
	given := make([]string, writers*each*2+1)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				a, b := fmt.Sprintf("%d/%d/a", w, i), fmt.Sprintf("%d/%d/b", w, i)
				first, err := s.Append(context.Background(), []byte(a), []byte(b))
				if err != nil {
					t.Error(err)
					return
				}
				given[first], given[first+1] = a, b
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			contentsOf(t, s, 1)
			if last := s.Last(); last > 0 {
				if err := s.Compact([]byte("state"), last); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Wait()
	if diff := cmp.Diff(given[1:], contentsOf(t, s, 1)); diff != "" {
		t.Errorf("records (-acknowledged +read):\n%s", diff)
	}
	if st := s.Stats(); st.Commits >= writers*each {
		t.Errorf("%d commits for %d appends; want fewer", st.Commits, writers*each)
	}
	closeStore(t, s)
	s, _ = open(t, Config{Dir: dir})
	if diff := cmp.Diff(given[1:], contentsOf(t, s, 1)); diff != "" {
		t.Errorf("records after reopening (-acknowledged +read):\n%s", diff)
	}
}

// TestReadMayAppend: no lock of the database is held while fn runs.
func TestReadMayAppend(t *testing.T) {
	s, _ := open(t, Config{Dir: t.TempDir()})
	appendTo(t, s, 3)
	stop := errors.New("stop")
	err := s.Read(1, func(seq uint64, _ []byte) error {
		if seq == 3 {
			return stop
		}
		_, err := s.Append(context.Background(), make([]byte, 1<<20))
		return err
	})
	if err != stop || s.Last() != 5 {
		t.Errorf("Read = %v with %d records; want %v with 5", err, s.Last(), stop)
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	_, _, err := Open(Config{Dir: dir})
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("second Open: %v; want ErrLocked", err)
	}
	for _, part := range []string{hotName, fmt.Sprint(os.Getpid())} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %s", err, part)
		}
	}
	closeStore(t, s)
	open(t, Config{Dir: dir})
}

// TestLockedByTool: a program that knows nothing of our lock holds bbolt's.
func TestLockedByTool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	closeStore(t, s)
	db, err := bbolt.Open(filepath.Join(dir, hotName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("Open: %v; want ErrLocked", err)
	}
}

func TestConfigRefused(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []Config{{}, {Dir: dir, MaxRecord: -1}, {Dir: dir, ArchiveBytes: -1}, {Dir: dir, Queue: -1}} {
		if s, _, err := Open(c); err == nil {
			s.Close()
			t.Errorf("Open(%+v) succeeded", c)
		}
	}
}

func TestNotWritable(t *testing.T) {
	if os.Getuid() == 0 {
		// Root may write anywhere but where there can be no folder.
		if _, _, err := Open(Config{Dir: "/proc/journal"}); err == nil || !strings.Contains(err.Error(), "/proc/journal") {
			t.Errorf("Open in /proc: %v; want an error that names the folder", err)
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(Config{Dir: dir}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open: %v; want a permission error that names %s", err, dir)
	}
}

func TestNewerVersion(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 3)
	if err := s.update(func(tx *bbolt.Tx, _ uint64) error { return putVersion(tx, 7) }); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	path := filepath.Join(dir, hotName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // sound, then damaged: not salvaged into an older version
		_, _, err = Open(Config{Dir: dir})
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "version 7") {
			t.Errorf("Open: %v; want ErrNewer with file and version", err)
		}
		after, _ := os.ReadFile(path)
		if string(before) != string(after) {
			t.Error("the file was changed")
		}
		before[16] ^= 1
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrateFromZero(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, hotName)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(bucketUnframed)
		for seq := uint64(1); seq <= 12 && err == nil; seq++ {
			err = b.Put(key(seq), []byte(payloadOf(seq)))
		}
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, recovery := open(t, Config{Dir: dir})
	if diff := cmp.Diff(Recovery{Records: 12}, recovery); diff != "" {
		t.Errorf("recovery (-want +got):\n%s", diff)
	}
	appendTo(t, s, 15)
	wantRecords(t, s, 1, 15)
	closeStore(t, s)
	s, _ = open(t, Config{Dir: dir})
	wantRecords(t, s, 1, 15)
	backups, _ := filepath.Glob(filepath.Join(dir, "journal-v0-*.db"))
	if len(backups) != 1 {
		t.Fatalf("backups: %v; want one", backups)
	}
	if kept, _ := os.ReadFile(backups[0]); string(kept) != string(old) {
		t.Error("the backup is not the file as it was")
	}
}
