// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

const (
	followEvery = 100 * time.Millisecond
	maxTail     = 10_000_000 // lines; more is all
)

var _ api.Logs = (*Machine)(nil)

// CopyLog writes what a rank has printed to w. With Follow and no attempt number
// it continues from attempt to attempt until the job ends.
func (m *Machine) CopyLog(ctx context.Context, id sched.JobID, q api.LogQuery, w io.Writer) error {
	switch {
	case checkJob(id) != nil:
		return api.Errorf(api.Unknown, "no log of job %.40q", string(id))
	case q.Stream != "":
		return api.Errorf(api.Invalid, "is %.20q", q.Stream).On("stream").Try("leave it out: both streams are in one log, in the order written")
	case q.Rank < 0 || q.Rank >= sched.MaxGPUs:
		return api.Errorf(api.Invalid, "is %d", q.Rank).On("rank").Try(fmt.Sprintf("use 0 to %d", sched.MaxGPUs-1))
	case q.Attempt < 0 || q.Tail < 0:
		return api.Errorf(api.Invalid, "attempt is %d, tail is %d", q.Attempt, q.Tail).On("attempt").Try("use numbers that are not negative")
	}
	// Whatever the names are, nothing outside this folder can be opened.
	root, err := os.OpenRoot(m.jobsDir())
	if err != nil {
		return api.Errorf(api.Internal, "open logs: %w", err)
	}
	defer root.Close()
	c := &copier{m: m, root: root, job: id, q: q, w: w}
	if q.Attempt > 0 {
		return c.attempt(ctx, q.Attempt)
	}
	return c.all(ctx)
}

// copier copies one log.
type copier struct {
	m    *Machine
	root *os.Root
	job  sched.JobID
	q    api.LogQuery
	w    io.Writer
}

// all copies the last attempt and, when following, those that come after it.
func (c *copier) all(ctx context.Context) error {
	done := 0
	for {
		n := c.next(done)
		switch {
		case n > 0:
			if err := c.attempt(ctx, n); err != nil {
				return err
			}
			if !c.q.Follow {
				return nil
			}
			done, c.q.Tail = n, 0
			continue
		case done == 0 && !c.mayRun():
			return api.Errorf(api.Unknown, "no log of job %s", c.job).Try("it may not have started yet, or its logs may have been deleted")
		case !c.q.Follow && done == 0:
			return api.Errorf(api.Unknown, "job %s has no log yet", c.job).Try("wait until it starts, or follow the log")
		case !c.mayRun():
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// mayRun reports whether another attempt may follow.
func (c *copier) mayRun() bool {
	if c.m.cfg.Ended != nil {
		return !c.m.cfg.Ended(c.job)
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.ordered[c.job]
}

// next returns the attempt to copy after another; at the start, the last one.
func (c *copier) next(done int) int {
	d, err := c.root.Open(string(c.job))
	if err != nil {
		return 0
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return 0
	}
	best := 0
	for _, name := range names {
		n := attemptNumber(name)
		if n > done && (best == 0 || (done == 0) == (n > best)) {
			best = n
		}
	}
	return best
}

// ended reports whether an attempt will print no more.
func (c *copier) ended(n int) bool {
	_, err := c.root.Lstat(filepath.Join(string(c.job), strconv.Itoa(n), exitFile))
	return err == nil || !c.has(n)
}

func (c *copier) has(n int) bool {
	_, err := c.root.Lstat(filepath.Join(string(c.job), strconv.Itoa(n)))
	return err == nil
}

// attempt copies the log of one attempt, and follows it if asked to.
func (c *copier) attempt(ctx context.Context, n int) error {
	path := filepath.Join(string(c.job), strconv.Itoa(n), rankLog(c.q.Rank))
	f, err := c.root.Open(path)
	for errors.Is(err, fs.ErrNotExist) && c.q.Follow && c.has(n) && !c.ended(n) {
		select { // it is about to start
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
		f, err = c.root.Open(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if c.q.Attempt == 0 && c.q.Follow && c.q.Rank > 0 {
			return nil // an attempt with fewer ranks
		}
		return api.Errorf(api.Unknown, "attempt %d of job %s has no log of rank %d", n, c.job, c.q.Rank).On("rank")
	}
	if err != nil {
		return api.Errorf(api.Internal, "open log: %w", err)
	}
	defer func() { f.Close() }()
	if err := c.begin(f, olderLog(path)); err != nil {
		return err
	}
	for c.q.Follow {
		over := c.ended(n) // before reading: what is printed before the end is there then
		if _, err := c.copy(f); err != nil {
			return err
		}
		if next := c.rotated(f, path); next != nil {
			if _, err := c.copy(f); err != nil { // what came between
				next.Close()
				return err
			}
			f.Close()
			f = next
			continue
		}
		if over {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
	return nil
}

// copy copies to the end of a file, and flushes a writer that buffers.
func (c *copier) copy(f *os.File) (int64, error) {
	n, err := io.Copy(c.w, f)
	if flusher, ok := c.w.(interface{ Flush() }); ok && n > 0 {
		flusher.Flush()
	}
	return n, err
}

// rotated returns the file that replaced f, if one did.
func (c *copier) rotated(f *os.File, path string) *os.File {
	next, err := c.root.Open(path)
	if err != nil {
		return nil
	}
	a, err1 := f.Stat()
	b, err2 := next.Stat()
	if err1 != nil || err2 != nil || os.SameFile(a, b) {
		next.Close()
		return nil
	}
	return next
}

// begin copies what is there: the older part and f up to its current end, or the
// last lines of both.
func (c *copier) begin(f *os.File, olderPath string) error {
	older, err := c.root.Open(olderPath)
	if err == nil {
		defer older.Close()
	} else {
		older = nil
	}
	if c.q.Tail > 0 && c.q.Tail < maxTail {
		at, found, err := tailOffset(f, c.q.Tail)
		if err != nil {
			return api.Errorf(api.Internal, "read log: %w", err)
		}
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return api.Errorf(api.Internal, "read log: %w", err)
		}
		if older != nil && found >= c.q.Tail {
			older = nil
		} else if older != nil {
			at, _, err := tailOffset(older, c.q.Tail-found)
			if err == nil {
				_, err = older.Seek(at, io.SeekStart)
			}
			if err != nil {
				return api.Errorf(api.Internal, "read log: %w", err)
			}
		}
	}
	if older != nil {
		if _, err := c.copy(older); err != nil {
			return err
		}
	}
	_, err = c.copy(f)
	return err
}

// tailOffset returns where the last n lines of a file begin, and how many lines
// there are from there on.
func tailOffset(f *os.File, n int) (offset int64, lines int, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	end := info.Size()
	if end == 0 {
		return 0, 0, nil
	}
	block := make([]byte, 64<<10)
	for at := end; at > 0; {
		size := min(int64(len(block)), at)
		at -= size
		part := block[:size]
		if _, err := f.ReadAt(part, at); err != nil {
			return 0, 0, err
		}
		for {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			part = part[:i]
			if pos := at + int64(i) + 1; pos < end { // the end of the last line begins no new line
				if lines++; lines == n {
					return pos, lines, nil
				}
			}
		}
	}
	return 0, lines + 1, nil
}
