// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// found is the position of an intact frame in a raw file, without its payload.
type found struct {
	frame
	at   int64 // of the header
	size int64 // with the header
}

// scanWindow is how much of the raw file is searched at a time.
const scanWindow = 1 << 20

// scan returns all intact frames of a raw file, by offset. It does not search
// inside an intact frame.
func scan(file io.ReaderAt, size int64) ([]found, error) {
	var out []found
	window := make([]byte, scanWindow)
	for at := int64(0); at+headerSize <= size; {
		n, err := file.ReadAt(window[:min(scanWindow, size-at)], at)
		if n < headerSize {
			if err == io.EOF {
				return out, nil
			}
			return out, fmt.Errorf("read the damaged file at %d: %w", at, err)
		}
		skip := bytes.Index(window[:n], []byte{0xF7, 'F', 'W'})
		switch {
		case skip < 0:
			at += int64(n - 2) // a magic may begin in the last two bytes
			continue
		case n-skip < headerSize:
			at += int64(skip)
			if skip == 0 {
				return out, nil // the end of the file: no room for a header
			}
			continue
		}
		at += int64(skip)
		f, ok, err := frameAt(file, size, at, window[skip:n])
		if err != nil {
			return out, err
		}
		if !ok {
			at++
			continue
		}
		out = append(out, f)
		at += f.size
	}
	return out, nil
}

// frameAt looks for an intact frame at an offset; head is what was read there.
func frameAt(file io.ReaderAt, size, at int64, head []byte) (found, bool, error) {
	f, length, sum, err := header(head)
	total := int64(headerSize + length)
	if err != nil || at+total > size {
		return found{}, false, nil
	}
	if int64(len(head)) >= total {
		return found{frame: f, at: at, size: total}, checksum(head[:total]) == sum, nil
	}
	got, rest := checksum(head), io.NewSectionReader(file, at+int64(len(head)), total-int64(len(head)))
	for b := make([]byte, 64<<10); ; {
		n, err := rest.Read(b)
		got = crc32.Update(got, castagnoli, b[:n])
		if err == io.EOF {
			return found{frame: f, at: at, size: total}, got == sum, nil
		}
		if err != nil {
			return found{}, false, fmt.Errorf("read the damaged file at %d: %w", at, err)
		}
	}
}

// haul is the usable part of a scan.
type haul struct {
	snapshots []found // at most two, older first
	records   []found // contiguous, whole Appends
	unused    []found // records that lie beyond the run
	term      uint64  // the highest seen
	version   uint64  // of the schema, the highest seen; 0 if none
}

// pick chooses the run of records that follows the newest snapshot. Records beyond
// a gap cannot be replayed and are unused. archived returns the last archived
// record of the run that starts at from, 0 if there is none.
func pick(frames []found, archived func(from uint64) uint64) haul {
	var h haul
	latest := map[uint64]found{} // by seq: the record of the highest term
	snaps := map[uint64]found{}
	var last uint64
	for _, f := range frames {
		h.term = max(h.term, f.term)
		switch f.kind {
		case kindRecord:
			if old, ok := latest[f.seq]; !ok || f.term >= old.term {
				latest[f.seq] = f
			}
			last = max(last, f.seq)
		case kindSnapshot:
			if old, ok := snaps[f.seq]; !ok || f.term >= old.term {
				snaps[f.seq] = f
			}
		case kindVersion:
			h.version = max(h.version, f.seq)
		}
	}
	for _, f := range snaps {
		h.snapshots = append(h.snapshots, f)
	}
	slices.SortFunc(h.snapshots, func(a, b found) int { return cmp.Compare(a.seq, b.seq) })
	h.snapshots = h.snapshots[max(0, len(h.snapshots)-2):]

	var start uint64 = 1
	if n := len(h.snapshots); n > 0 {
		start = h.snapshots[n-1].seq + 1
	}
	h.records = run(latest, start)
	if to := archived(start); to >= start {
		// The newest snapshot is lost, and the archive continues from the previous
		// one; free pages may hold only some of the same records.
		if beyond := run(latest, to+1); to+uint64(len(beyond)) >= start+uint64(len(h.records)) {
			start, h.records = to+1, beyond
		}
	}
	end := start + uint64(len(h.records))
	for _, f := range latest {
		if f.seq >= end && f.seq <= last {
			h.unused = append(h.unused, f)
		}
	}
	slices.SortFunc(h.unused, func(a, b found) int { return cmp.Compare(a.seq, b.seq) })
	return h
}

// run returns the records from one on, up to a gap, in whole Appends.
func run(latest map[uint64]found, start uint64) []found {
	var out []found
	var term uint64
	for seq := start; ; seq++ {
		f, ok := latest[seq]
		if !ok || f.term < term {
			return out[:whole(out)]
		}
		term = f.term
		out = append(out, f)
	}
}

// whole returns how many of the records remain without an incomplete Append at the
// end.
func whole(records []found) int {
	n := len(records)
	for n > 0 && records[n-1].left > 0 {
		n--
	}
	return n
}

// copyFrame returns the bytes of a frame that was found.
func copyFrame(file io.ReaderAt, f found) ([]byte, error) {
	b := make([]byte, f.size)
	if _, err := file.ReadAt(b, f.at); err != nil {
		return nil, fmt.Errorf("read frame %d of the damaged file at %d: %w", f.seq, f.at, err)
	}
	if got := binary.BigEndian.Uint64(b[8:]); got != f.seq {
		return nil, fmt.Errorf("%w: frame at %d changed from %d to %d while it was read", ErrCorrupt, f.at, f.seq, got)
	}
	return b, nil
}
