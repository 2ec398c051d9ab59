// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// some is a backup of records with numbers for payloads.
func some(from, to uint64) func() ([]byte, error) {
	return func() ([]byte, error) {
		if from > to {
			return nil, io.EOF
		}
		from++
		return fmt.Appendf(nil, "record %d", from-1), nil
	}
}

func TestRestore(t *testing.T) {
	for name, b := range map[string]Backup{
		"records alone": {Next: some(1, 3000)}, "with a snapshot": {Snapshot: []byte("all"), UpTo: 41, Next: some(42, 3000)},
		"a snapshot alone": {Snapshot: []byte("all"), UpTo: 3000, Next: some(1, 0)},
	} {
		c := Config{Dir: filepath.Join(t.TempDir(), "journal")}
		last, err := Restore(c, b)
		if err != nil || last != 3000 {
			t.Fatalf("%s: %d, %v; want 3000", name, last, err)
		}
		s, recovery, err := Open(c)
		if err != nil || recovery.Reason != "" {
			t.Fatalf("%s: %+v, %v", name, recovery, err)
		}
		if snap, upTo, ok := s.Snapshot(); string(snap) != string(b.Snapshot) || upTo != b.UpTo || ok != (b.Snapshot != nil) {
			t.Errorf("%s: snapshot %q up to %d; want %q up to %d", name, snap, upTo, b.Snapshot, b.UpTo)
		}
		next := b.UpTo
		err = s.Read(b.UpTo+1, func(seq uint64, payload []byte) error {
			if next++; seq != next || string(payload) != fmt.Sprintf("record %d", seq) {
				return fmt.Errorf("record %d is %q; want %d", seq, payload, next)
			}
			return nil
		})
		if err != nil || next != 3000 {
			t.Errorf("%s: read up to %d, %v", name, next, err)
		}
		if first, err := s.Append(context.Background(), []byte("more")); err != nil || first != 3001 {
			t.Errorf("%s: append: %d, %v", name, first, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(c, b); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: over a journal: %v; want ErrExist", name, err)
		}
	}
	c := Config{Dir: t.TempDir()}
	broken := errors.New("line 3")
	if _, err := Restore(c, Backup{Next: func() ([]byte, error) { return nil, broken }}); !errors.Is(err, broken) {
		t.Errorf("of a bad file: %v; want its error", err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.Dir, "journal.db*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestMoved: what is written to a file without a name would be lost, so nothing is
// acknowledged.
func TestMoved(t *testing.T) {
	for name, move := range map[string]func(path string) error{
		"removed": os.Remove,
		"renamed": func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			if err := copyFile(path, path+".copy"); err != nil {
				return err
			}
			return os.Rename(path+".copy", path)
		},
	} {
		s, _, err := Open(Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), []byte("one")); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: before: %v", name, err)
		}
		if err := move(s.hotPath()); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); !errors.Is(err, ErrMoved) {
			t.Errorf("%s: check: %v; want ErrMoved", name, err)
		}
		if _, err := s.Append(t.Context(), []byte("two")); !errors.Is(err, ErrMoved) || errors.Is(err, ErrBroken) {
			t.Errorf("%s: append: %v; want ErrMoved", name, err)
		}
		if err := s.Compact([]byte("all"), 1); !errors.Is(err, ErrMoved) {
			t.Errorf("%s: compact: %v; want ErrMoved", name, err)
		}
		if err := s.Read(1, func(_ uint64, p []byte) error { return nil }); err != nil {
			t.Errorf("%s: what was acknowledged must still read: %v", name, err)
		}
		if name == "renamed" {
			if err := os.Rename(s.hotPath()+".old", s.hotPath()); err != nil {
				t.Fatal(err)
			}
			if first, err := s.Append(t.Context(), []byte("two")); err != nil || first != 2 {
				t.Errorf("put back: append: %d, %v; want 2", first, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}
