// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
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
func (c *copier) next(done int) int { return c.after(done, done == 0) }

// after returns the first attempt after another, or the last of them.
func (c *copier) after(done int, last bool) int {
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
		if n > done && (best == 0 || last == (n > best)) && c.has(n) {
			best = n
		}
	}
	return best
}

// attempts says which attempts have logs.
func (c *copier) attempts() string {
	switch last := c.after(0, true); last {
	case 0:
		return "it may not have started yet, or its logs may have been deleted"
	case 1:
		return "leave it out: there is one"
	default:
		return fmt.Sprintf("the last is %d", last)
	}
}

// ended reports whether an attempt will print no more.
func (c *copier) ended(n int) bool {
	_, err := c.root.Lstat(filepath.Join(string(c.job), strconv.Itoa(n), exitFile))
	return err == nil || !c.has(n)
}

func (c *copier) has(n int) bool {
	if c.m.isStale(api.AttemptID{Job: c.job, Number: n}) {
		return false
	}
	_, err := c.root.Lstat(filepath.Join(string(c.job), strconv.Itoa(n)))
	return err == nil
}

// attempt copies the log of one attempt, and follows it if asked to.
func (c *copier) attempt(ctx context.Context, n int) error {
	path := filepath.Join(string(c.job), strconv.Itoa(n), rankLog(c.q.Rank))
	f, err := openLog(c.root, path)
	if err == nil && !c.has(n) { // of another job that had the name
		f.Close()
		err = fs.ErrNotExist
	}
	for errors.Is(err, fs.ErrNotExist) && c.q.Follow && c.has(n) && !c.ended(n) {
		select { // it is about to start
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
		f, err = openLog(c.root, path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if c.q.Attempt == 0 && c.q.Follow && c.q.Rank > 0 {
			return nil // an attempt with fewer ranks
		}
		if !c.has(n) {
			return api.Errorf(api.Unknown, "job %s has no attempt %d", c.job, n).On("attempt").Try(c.attempts())
		}
		return api.Errorf(api.Unknown, "attempt %d of job %s has no log of rank %d", n, c.job, c.q.Rank).On("rank")
	}
	if err != nil {
		return api.Errorf(api.Internal, "open log: %w", err)
	}
	defer func() { f.Close() }()
	if err := c.begin(f, path); err != nil {
		return err
	}
	for c.q.Follow {
		over := c.ended(n) // before reading: what is printed before the end is there then
		if _, err := c.copy(f); err != nil {
			return err
		}
		if next := c.rotated(f, path); next != nil {
			_, err := c.copy(f) // what came between
			if err == nil {
				err = c.skipped(f, next)
			}
			f.Close()
			f = next
			if err != nil {
				return err
			}
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
func (c *copier) copy(f *logFile) (int64, error) {
	n, err := io.Copy(c.w, f.File)
	if flusher, ok := c.w.(interface{ Flush() }); ok && n > 0 {
		flusher.Flush()
	}
	return n, err
}

// rotated returns the file that follows f, if another has replaced f. That is the
// older one if f was replaced twice.
func (c *copier) rotated(f *logFile, path string) *logFile {
	now, err := openLog(c.root, path)
	if err != nil {
		return nil
	}
	if now.same(f) {
		now.Close()
		return nil
	}
	older, err := openLog(c.root, olderLog(path))
	if err != nil {
		return now
	}
	if older.same(f) || older.before <= f.before {
		older.Close()
		return now
	}
	now.Close()
	return older
}

// skipped says how many lines between two files are gone, because the log was
// rotated faster than it was read.
func (c *copier) skipped(f, next *logFile) error {
	if next.before == 0 {
		return nil // not known
	}
	lines, err := f.lines()
	if err != nil {
		return api.Errorf(api.Internal, "read log: %w", err)
	}
	if n := next.before - f.before - lines; n > 0 {
		_, err = fmt.Fprintf(c.w, "[fairway: %d lines are missing here: they were dropped before they were read]\n", n)
	}
	return err
}

// begin copies what is there: the older part and f up to its current end, or the
// last lines of both. It says first how many lines are gone.
func (c *copier) begin(f *logFile, path string) error {
	parts := []*logFile{f}
	if older, err := openLog(c.root, olderLog(path)); err == nil {
		defer older.Close()
		if !older.same(f) && older.before <= f.before { // else f was replaced since it was opened
			parts = append(parts, older)
		}
	}
	left := maxTail
	if c.q.Tail > 0 {
		left = min(c.q.Tail, maxTail)
	}
	first := 0 // the number of the first part, counted from the last
	for i, part := range parts {
		first = i
		if left == maxTail {
			continue
		}
		found, err := part.seekTail(left)
		if err != nil {
			return api.Errorf(api.Internal, "read log: %w", err)
		}
		if left -= found; left <= 0 {
			break
		}
	}
	if !c.q.Since.IsZero() {
		for i, part := range parts[:first+1] {
			if err := part.seekSince(c.root, []string{path, olderLog(path)}[i], c.q.Since); err != nil {
				return api.Errorf(api.Internal, "read log: %w", err)
			}
		}
	} else if gone := parts[first].before; gone > 0 && left > 0 {
		if _, err := fmt.Fprintf(c.w, "[fairway: the first %d lines of this log were dropped: it keeps its last %s to %s (keep.log)]\n",
			gone, mebibytes(c.m.cfg.LogLimit), mebibytes(2*c.m.cfg.LogLimit)); err != nil {
			return err
		}
	}
	for i := first; i >= 0; i-- {
		if _, err := c.copy(parts[i]); err != nil {
			return err
		}
	}
	return nil
}

func mebibytes(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'g', 3, 64) + " MiB" }
