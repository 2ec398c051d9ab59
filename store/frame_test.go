// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrameRoundTrip(t *testing.T) {
	for _, f := range []frame{
		{kind: kindRecord, seq: 1, term: 1<<32 + 5, left: 3, payload: []byte("payload")},
		{kind: kindSnapshot, seq: 1<<63 + 1, payload: []byte{}},
	} {
		got, err := decode(f.encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, got, cmp.AllowUnexported(frame{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestFrameDetects: no single flipped bit, and no missing byte, goes unnoticed.
func TestFrameDetects(t *testing.T) {
	whole := frame{kind: kindRecord, seq: 42, term: 7, payload: []byte("payload")}.encode()
	for i := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if f, err := decode(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("bit %d flipped: %+v, %v; want ErrCorrupt", i, f, err)
		}
	}
	for n := range whole {
		if _, err := decode(whole[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v; want ErrCorrupt", n, len(whole), err)
		}
	}
}

// TestScanWindows: frames are found wherever they lie to the window that is read
// at a time, and one inside a payload is not a frame.
func TestScanWindows(t *testing.T) {
	inner := frame{kind: kindRecord, seq: 99, payload: []byte("inner")}.encode()
	for _, at := range []int{0, 1, scanWindow - 40, scanWindow - 33, scanWindow - 32, scanWindow - 31, scanWindow - 3, scanWindow - 2, scanWindow - 1, scanWindow} {
		raw := make([]byte, at)
		raw = append(raw, frame{kind: kindRecord, seq: 1, payload: inner}.encode()...)
		raw = append(raw, 0xF7, 'F', 'W')
		raw = append(raw, frame{kind: kindRecord, seq: 2, payload: make([]byte, scanWindow+5)}.encode()...)
		raw = append(raw, 0xF7, 'F', 'W', 'R')
		got, err := scan(bytes.NewReader(raw), int64(len(raw)))
		if err != nil || len(got) != 2 || got[0].seq != 1 || got[0].at != int64(at) || got[1].seq != 2 {
			t.Errorf("frame at %d: found %+v, %v", at, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(frame{kind: kindRecord, seq: 1, payload: []byte("x")}.encode())
	f.Add([]byte{0xF7, 'F', 'W', 'S'})
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decode(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v; want ErrCorrupt", err)
			}
			return
		}
		if !bytes.Equal(got.encode(), b) {
			t.Errorf("% x decodes to %+v, which encodes to % x", b, got, got.encode())
		}
		streamed, err := readFrame(bytes.NewReader(b))
		if err != nil || !bytes.Equal(streamed.payload, got.payload) {
			t.Errorf("readFrame = %+v, %v; decode = %+v", streamed, err, got)
		}
	})
}

// FuzzSalvage puts bytes into a sound file, or cuts it, and opens it.
func FuzzSalvage(f *testing.F) {
	sound := small(f, 8)
	frames := framesOf(f, sound, 8)
	f.Add(uint32(0), []byte{}, uint32(0))
	f.Add(uint32(16), []byte{1, 2, 3}, uint32(0))
	f.Add(uint32(4096+16), bytes.Repeat([]byte{0xFF}, 64), uint32(0))
	f.Add(uint32(0), make([]byte, 8192), uint32(0))
	f.Add(uint32(8192), []byte{2, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, uint32(0))
	f.Add(uint32(100), []byte("x"), uint32(20000))
	f.Add(uint32(0), sound[:4096], uint32(4096))
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, cut uint32) {
		raw := bytes.Clone(sound)
		raw = raw[:len(raw)-int(cut)%len(raw)]
		copy(raw[int(at)%len(raw):], patch)
		dir := memoryDir(t)
		if err := os.WriteFile(filepath.Join(dir, hotName), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s, recovery, err := Open(Config{Dir: dir})
		if err != nil {
			if !errors.Is(err, ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		defer s.Close()
		if least := intact(frames, raw); s.Last() < least {
			t.Fatalf("%d records of %d that are intact: %+v", s.Last(), least, recovery)
		}
		contentsOf(t, s, 1)
	})
}

// FuzzCheckFile: the check of the pages comes to an end and does not panic.
func FuzzCheckFile(f *testing.F) {
	sound := small(f, 8)
	f.Add(uint32(0), []byte{}, uint32(0))
	f.Add(uint32(16384), bytes.Repeat([]byte{1, 0}, 200), uint32(4096))
	f.Add(uint32(12288+10), []byte{0xFF, 0xFF}, uint32(0))
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, cut uint32) {
		b := bytes.Clone(sound)
		b = b[:len(b)-int(cut)%len(b)]
		copy(b[int(at)%len(b):], patch)
		if err := checkFile(bytes.NewReader(b), int64(len(b))); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v; want ErrCorrupt", err)
		}
		if _, err := scan(bytes.NewReader(b), int64(len(b))); err != nil {
			t.Error(err)
		}
	})
}

// FuzzReadFrame: a stream is never believed to be longer than it is.
func FuzzReadFrame(f *testing.F) {
	f.Add(frame{kind: kindRecord, seq: 1, payload: []byte("x")}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			if _, err := readFrame(r); err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Errorf("%v; want ErrCorrupt", err)
				}
				return
			}
			if r.Len() == 0 {
				if _, err := readFrame(r); !errors.Is(err, io.EOF) {
					t.Errorf("at the end: %v; want EOF", err)
				}
				return
			}
		}
	})
}
