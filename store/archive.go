// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// segment is a file of the archive: compressed frames of consecutive records. Its
// name holds the first and the last of them.
type segment struct {
	path        string
	first, last uint64
	bytes       int64
}

const segmentName = "%020d-%020d.seg.gz"

// listArchive returns the segments of an archive, ordered by first record, then by
// last. Other files are ignored.
func listArchive(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list archive: %w", err)
	}
	var out []segment
	for _, e := range entries {
		seg := segment{path: filepath.Join(dir, e.Name())}
		n, err := fmt.Sscanf(e.Name(), segmentName, &seg.first, &seg.last)
		if err != nil || n != 2 || e.Name() != fmt.Sprintf(segmentName, seg.first, seg.last) || seg.first > seg.last {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list archive: %w", err)
		}
		seg.bytes = info.Size()
		out = append(out, seg)
	}
	sortSegments(out)
	return out, nil
}

func sortSegments(segments []segment) {
	slices.SortFunc(segments, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last))
	})
}

// reach returns the oldest record from which the segments lead without a gap to
// the record before first; it returns first if there is none.
func reach(segments []segment, first uint64) uint64 {
	for _, seg := range slices.Backward(segments) {
		if seg.last+1 >= first {
			first = min(first, seg.first)
		}
	}
	return first
}

// writeSegment writes records to a segment, durably. next returns the frames in
// order, and none at the end. The segment gets its name only when it is complete.
func writeSegment(dir string, seg segment, next func() ([]frame, error)) (segment, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return seg, fmt.Errorf("create archive: %w", err)
	}
	f, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return seg, fmt.Errorf("create segment: %w", describe(err))
	}
	defer os.Remove(f.Name()) // fails once it has its name
	err = compress(f, next)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return seg, fmt.Errorf("write segment: %w", describe(err))
	}
	info, err := os.Stat(f.Name())
	if err != nil {
		return seg, fmt.Errorf("write segment: %w", err)
	}
	seg.bytes = info.Size()
	seg.path = filepath.Join(dir, fmt.Sprintf(segmentName, seg.first, seg.last))
	if err := os.Rename(f.Name(), seg.path); err != nil {
		return seg, fmt.Errorf("name segment: %w", err)
	}
	if err := errors.Join(syncDir(dir), syncDir(filepath.Dir(dir))); err != nil {
		return seg, fmt.Errorf("name segment %s: %w", seg.path, err)
	}
	return seg, nil
}

func compress(w io.Writer, next func() ([]frame, error)) error {
	z := gzip.NewWriter(w)
	for {
		frames, err := next()
		if err != nil {
			return err
		}
		if len(frames) == 0 {
			return z.Close()
		}
		for _, f := range frames {
			if _, err := z.Write(f.encode()); err != nil {
				return err
			}
		}
	}
}

// readSegment calls fn for each frame of a segment and checks that the contents
// match its name. If fn fails, readSegment stops and returns the error.
func readSegment(seg segment, fn func(frame) error) error {
	file, err := os.Open(seg.path)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer file.Close()
	z, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return fmt.Errorf("%w: segment %s: %w", ErrCorrupt, seg.path, err)
	}
	r := bufio.NewReaderSize(z, 64<<10)
	for seq := seg.first; seq <= seg.last; seq++ {
		f, err := readFrame(r)
		if err == nil && (f.kind != kindRecord || f.seq != seq) {
			err = fmt.Errorf("%w: frame %c%d where record %d should be", ErrCorrupt, f.kind, f.seq, seq)
		}
		if err != nil {
			return fmt.Errorf("read record %d of segment %s: %w", seq, seg.path, err)
		}
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

// readFrame reads a frame from a stream. It allocates only for bytes that are
// there, whatever length the header states.
func readFrame(r io.Reader) (frame, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, fmt.Errorf("%w: header of a frame: %w", ErrCorrupt, err)
	}
	f, length, sum, err := header(head[:])
	if err != nil {
		return f, err
	}
	var payload bytes.Buffer
	if _, err := io.CopyN(&payload, r, int64(length)); err != nil {
		return f, fmt.Errorf("%w: payload of frame %d: %w", ErrCorrupt, f.seq, err)
	}
	f.payload = payload.Bytes()
	if got := crc32.Update(checksum(head[:]), castagnoli, f.payload); got != sum {
		return f, fmt.Errorf("%w: frame %d has checksum %08x; want %08x", ErrCorrupt, f.seq, got, sum)
	}
	return f, nil
}

// archivedRun returns the last record that intact segments reach from a record
// without a gap; 0 if they do not hold that record.
func archivedRun(segments []segment, from uint64) uint64 {
	next := from
	for _, seg := range segments {
		if seg.first > next || seg.last < next {
			continue
		}
		if readSegment(seg, func(frame) error { return nil }) == nil {
			next = seg.last + 1
		}
	}
	if next == from {
		return 0
	}
	return next - 1
}
