// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// FuzzStore does what the bytes say, beside a list that is what a journal should be:
// appends, compactions, restarts, disk errors, a file that is moved away, a crash.
func FuzzStore(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add([]byte{2, 2, 3, 2, 4, 2, 3, 5, 2, 4, 6, 1, 4})
	f.Add([]byte{0, 3, 0, 3, 0, 3, 4, 7, 0, 4})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := &model{t: t, dir: memoryDir(t)}
		m.open()
		for _, op := range ops[:min(len(ops), 40)] {
			m.do(op)
		}
		m.check()
		if err := m.s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// model is a store and what it should hold.
type model struct {
	t       *testing.T
	dir     string
	s       *Store
	records []string // all that were acknowledged
	snap    int      // records that the last snapshot stands for
}

func (m *model) open() {
	s, recovery, err := Open(Config{Dir: m.dir})
	if err != nil || recovery.Reason != "" {
		m.t.Fatalf("open: %+v, %v", recovery, err)
	}
	m.s = s
}

func (m *model) do(op byte) {
	switch size := int(op >> 3); op & 7 {
	case 0, 1, 2: // one, two or three records
		m.append(int(op&7)+1, size, nil)
	case 3:
		m.compact(size)
	case 4:
		if err := m.s.Close(); err != nil {
			m.t.Fatal(err)
		}
		m.open()
	case 5:
		m.s.fault = func() error { return &os.PathError{Op: "write", Path: "x", Err: os.ErrDeadlineExceeded} }
		m.append(1, size, os.ErrDeadlineExceeded)
		m.s.fault = nil
	case 6:
		away := m.s.hotPath() + ".away"
		if err := os.Rename(m.s.hotPath(), away); err != nil {
			m.t.Fatal(err)
		}
		m.append(1, size, ErrMoved)
		if err := os.Rename(away, m.s.hotPath()); err != nil {
			m.t.Fatal(err)
		}
	case 7:
		m.crash()
	}
}

func (m *model) append(n, size int, want error) {
	var texts []string
	var payloads [][]byte
	for i := range n {
		texts = append(texts, fmt.Sprintf("%d %0*d", len(m.records)+i+1, 1+size*97, i))
		payloads = append(payloads, []byte(texts[i]))
	}
	first, err := m.s.Append(context.Background(), payloads...)
	if !errors.Is(err, want) || want == nil && first != uint64(len(m.records)+1) {
		m.t.Fatalf("append: %d, %v; want %d, %v", first, err, len(m.records)+1, want)
	}
	if err == nil {
		m.records = append(m.records, texts...)
	}
}

func (m *model) compact(back int) {
	upTo := len(m.records) - back
	if upTo < max(m.snap, 1) {
		return
	}
	if err := m.s.Compact(fmt.Appendf(nil, "up to %d", upTo), uint64(upTo)); err != nil {
		m.t.Fatal(err)
	}
	m.snap = upTo
}

// crash goes on with a copy of the folder, as a killed process leaves it.
func (m *model) crash() {
	dir := memoryDir(m.t)
	if err := os.CopyFS(dir, os.DirFS(m.dir)); err != nil {
		m.t.Fatal(err)
	}
	if err := m.s.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.dir = dir
	m.open()
}

func (m *model) check() {
	got := contentsOf(m.t, m.s, 1)
	if len(got) != len(m.records) {
		m.t.Fatalf("%d records; want %d", len(got), len(m.records))
	}
	for i, want := range m.records {
		if got[i] != want {
			m.t.Fatalf("record %d is %.40q; want %.40q", i+1, got[i], want)
		}
	}
	if snap, upTo, ok := m.s.Snapshot(); ok != (m.snap > 0) || ok && (upTo != uint64(m.snap) || string(snap) != fmt.Sprintf("up to %d", m.snap)) {
		m.t.Fatalf("snapshot %q up to %d; want %d", snap, upTo, m.snap)
	}
}

// FuzzSegment: a file of the archive with any contents is read or refused.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	s, _ := open(f, Config{Dir: dir})
	appendTo(f, s, 5)
	if err := s.Compact([]byte("all"), 5); err != nil {
		f.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, archiveName, "*"))
	sound, err := os.ReadFile(paths[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sound)
	f.Add(sound[:len(sound)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(memoryDir(t), "x")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		next := uint64(1)
		err := readSegment(segment{path: path, first: 1, last: 5}, func(f frame) error {
			if f.seq != next {
				t.Errorf("record %d; want %d", f.seq, next)
			}
			next++
			return nil
		})
		if err == nil && next != 6 || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("read up to %d, %v; want all five or ErrCorrupt", next-1, err)
		}
		if _, err := ReadUnused(path); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("as frames: %v; want ErrCorrupt", err)
		}
	})
}
