// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// timeEvery is how often the time is noted at which a log is written. What is written
// from one entry to the next is at most that much later than the first.
const timeEvery = 10 * time.Second

// timeEntry is a line of the file of times: where in the log, and when (Unix time).
const timeEntry = "%d %d\n"

// noteTime notes when the output from here on was written. Without the note, what is
// asked for by time is more than needed: it is not worth an error.
func (r *rotator) noteTime(now time.Time) {
	if !r.timed.IsZero() && now.Sub(r.timed) < timeEvery && !now.Before(r.timed) {
		return
	}
	r.timed = now
	f, err := os.OpenFile(logTimes(r.path), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, timeEntry, r.size, now.Unix())
}

// seekSince moves ahead to the first line that was written since a time, to within
// timeEvery.
func (l *logFile) seekSince(root *os.Root, path string, since time.Time) error {
	times, err := root.Open(logTimes(path))
	if err != nil {
		return nil // a log of version 0.1: all of it
	}
	defer times.Close()
	info, err := l.Stat()
	if err != nil {
		return err
	}
	from := info.Size()
	for in := bufio.NewReader(times); ; {
		var at, when int64
		if n, err := fmt.Fscanf(in, timeEntry, &at, &when); n < 2 || err != nil {
			break
		}
		if time.Unix(when, 0).Add(timeEvery + time.Second).After(since) {
			from = at
			break
		}
	}
	now, err := l.Seek(0, io.SeekCurrent)
	if err != nil || from <= now {
		return err
	}
	return l.seekLine(from)
}

// seekLine moves to the first line that begins at an offset or later.
func (l *logFile) seekLine(from int64) error {
	block := make([]byte, 64<<10)
	for at := from - 1; ; {
		n, err := l.ReadAt(block, at)
		if i := slices.Index(block[:n], '\n'); i >= 0 {
			_, err := l.Seek(at+int64(i)+1, io.SeekStart)
			return err
		}
		at += int64(n)
		if err == io.EOF {
			_, err = l.Seek(at, io.SeekStart)
			return err
		}
		if err != nil {
			return err
		}
	}
}

// LogFiles returns the logs of a job, by attempt and rank.
func (m *Machine) LogFiles(id sched.JobID) ([]api.LogFile, error) {
	if checkJob(id) != nil {
		return nil, api.Errorf(api.Unknown, "no log of job %.40q", string(id))
	}
	root, err := os.OpenRoot(m.jobsDir())
	if err != nil {
		return nil, api.Errorf(api.Internal, "open logs: %w", err)
	}
	defer root.Close()
	c := &copier{m: m, root: root, job: id}
	var out []api.LogFile
	for n := c.first(); n > 0; n = c.next(n) {
		for rank := range sched.MaxGPUs {
			f, ok := c.logFile(n, rank)
			if !ok {
				break
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// first returns the first attempt that is there; 0: there is none.
func (c *copier) first() int { return c.after(0, false) }

func (c *copier) logFile(n, rank int) (out api.LogFile, ok bool) {
	path := filepath.Join(string(c.job), strconv.Itoa(n), rankLog(rank))
	f, err := openLog(c.root, path)
	if err != nil {
		return out, false
	}
	defer f.Close()
	out = api.LogFile{Attempt: n, Rank: rank, Dropped: f.before, Ended: c.ended(n)}
	if older, err := openLog(c.root, olderLog(path)); err == nil {
		defer older.Close()
		if !older.same(f) && older.before <= f.before {
			out.Dropped = older.before
			out.Bytes += older.textSize()
		}
	}
	out.Bytes += f.textSize()
	return out, true
}

func (l *logFile) textSize() int64 {
	info, err := l.Stat()
	if err != nil {
		return 0
	}
	return max(0, info.Size()-l.begin)
}
