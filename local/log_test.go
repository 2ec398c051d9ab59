// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func TestRotator(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	r := rotator{path: path, limit: 100}
	var all strings.Builder
	for i := range 60 {
		line := fmt.Sprintf("line %02d %s\n", i, strings.Repeat("x", i%20))
		all.WriteString(line)
		// Split at odd places, as pipes do.
		_, _ = r.Write([]byte(line[:i%len(line)]))
		_, _ = r.Write([]byte(line[i%len(line):]))
	}
	r.close()
	old, now := logText(t, path+".1"), logText(t, path)
	if !strings.HasSuffix(all.String(), old+now) || len(old) == 0 || len(now) == 0 {
		t.Errorf("kept %q and %q; want the end of what was written", old, now)
	}
	if !strings.HasSuffix(old, "\n") || !strings.HasPrefix(now, "line ") {
		t.Errorf("a line was cut: %q, %q", old, now)
	}
	if len(old) > 200 || len(now) > 200 {
		t.Errorf("parts of %d and %d bytes; want about 100", len(old), len(now))
	}
	long := rotator{path: path + "2", limit: 1000}
	for range 100 {
		_, _ = long.Write(bytes.Repeat([]byte("y"), 5000)) // a line without end
	}
	long.close()
	for _, name := range []string{path + "2", path + "2.1"} {
		if info, err := os.Stat(name); err != nil || info.Size() > 1000+overLine+5000 {
			t.Errorf("%s: %v %v; want a bounded size", name, info, err)
		}
	}
}

func TestRotatorDiskFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	r := rotator{path: "/dev/full", limit: 1 << 20}
	if n, err := r.Write([]byte("hello\n")); n != 6 || err != nil {
		t.Errorf("write: %d, %v; want that it is swallowed", n, err)
	}
	if note := r.unwritten.missing(r.err); !strings.Contains(note, "6 bytes") || !strings.Contains(note, "no space left") {
		t.Errorf("%q; want 6 bytes and why", note)
	}
}

// logText reads a file of a log without its header.
func logText(t *testing.T, path ...string) string {
	t.Helper()
	text := read(t, path...)
	if header, rest, ok := strings.Cut(text, "\n"); ok && strings.HasSuffix(header, "earlier lines are not in this file]") {
		return rest
	}
	return text
}

// TestUnwrittenLines: a log says at the place where lines are missing how many.
func TestUnwrittenLines(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "size=1m")
	r := rotator{path: filepath.Join(disk, "log"), limit: 1 << 20}
	put := func(line string, n int) {
		for range n {
			_, _ = r.Write([]byte(line))
		}
	}
	put("before\n", 3)
	fillBytes(t, disk)
	put(strings.Repeat("x", 99)+"\n", 1000) // the last page of the file has room for some
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	put("after\n", 3)
	r.end()
	lines := strings.Split(strings.TrimSuffix(read(t, r.path), "\n"), "\n")
	var missing, there int
	for _, line := range lines {
		var bytes int
		if n, _ := fmt.Sscanf(line, "[fairway: %d lines (%d bytes) of output could not be written:", &missing, &bytes); n == 2 {
			if !strings.Contains(line, "no space left on device") {
				t.Errorf("%q does not say why", line)
			}
			continue
		}
		if len(line) == 99 {
			there++
		}
	}
	if missing < 900 || missing+there < 999 || missing+there > 1000 || lines[len(lines)-1] != "after" {
		t.Errorf("the log says that %d lines are missing, and %d are there; want 1000 together, one of them perhaps cut; it ends %q", missing, there, lines[len(lines)-2:])
	}
	if r.unwritten.lines != int64(missing) {
		t.Errorf("%d lines counted; want %d", r.unwritten.lines, missing)
	}
}

// TestDroppedLines: a log beyond its limit says how many lines it has dropped, where
// they were; so does the end of the attempt.
func TestDroppedLines(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LogLimit = 4096 })
	a := attempt("talks", 1, 0b1, `i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done`)
	r.orders.set(a)
	e := r.exit(a.AttemptID)
	copyLog := func(q api.LogQuery) []string {
		t.Helper()
		var b strings.Builder
		if err := r.m.CopyLog(t.Context(), "talks", q, &b); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	}
	lines := copyLog(api.LogQuery{})
	var gone int
	if _, err := fmt.Sscanf(lines[0], "[fairway: the first %d lines of this log were dropped:", &gone); err != nil || gone+len(lines)-1 != 2000 || lines[1] != fmt.Sprintf("line %d", gone) {
		t.Errorf("it begins %q and has %d lines; want how many of 2000 were dropped", lines[:2], len(lines))
	}
	if want := fmt.Sprintf("the first %d lines of its log were dropped", gone); !strings.Contains(e.Missing, want) {
		t.Errorf("the exit says %q; want %q", e.Missing, want)
	}
	if lines := copyLog(api.LogQuery{Tail: 5}); len(lines) != 5 || lines[0] != "line 1995" {
		t.Errorf("the last five lines are %q", lines)
	}
	if lines := copyLog(api.LogQuery{Tail: 5000}); !strings.HasPrefix(lines[0], "[fairway: the first") {
		t.Errorf("more lines than there are begin with %q", lines[0])
	}
}

// TestLogSince: what was printed before a time is left out, and the list of logs says
// what there is.
func TestLogSince(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LogLimit = 400 })
	a := attempt("talks", 1, 0b11, `i=0; while [ $i -lt 150 ]; do echo "line $i"; i=$((i+1)); done`)
	r.orders.set(a)
	r.exit(a.AttemptID)
	dir := r.m.attemptDir(a.AttemptID)
	// As if the lines had been printed an hour ago, but for those from the fifth of the
	// newest file on.
	now := time.Now()
	text := read(t, dir, "rank-0.log")
	lines := strings.SplitAfter(text, "\n")
	fifth := strings.Join(lines[:5], "")
	times := fmt.Sprintf(timeEntry+timeEntry, 0, now.Add(-time.Hour).Unix(), len(fifth)-3, now.Add(-time.Minute).Unix())
	old := fmt.Sprintf(timeEntry, 0, now.Add(-2*time.Hour).Unix())
	for name, text := range map[string]string{"rank-0.log.times": times, "rank-0.log.1.times": old} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for since, want := range map[time.Duration]string{
		10 * time.Second: "", 2 * time.Minute: strings.Join(lines[5:], ""), 90 * time.Minute: logText(t, dir, "rank-0.log"),
		3 * time.Hour: logText(t, dir, "rank-0.log.1") + logText(t, dir, "rank-0.log"),
	} {
		var b strings.Builder
		if err := r.m.CopyLog(t.Context(), "talks", api.LogQuery{Since: now.Add(-since)}, &b); err != nil || b.String() != want {
			t.Errorf("since %v: %q, %v; want %q", since, b.String(), err, want)
		}
	}
	// The other log has the times that were noted when it was written.
	var b strings.Builder
	if err := r.m.CopyLog(t.Context(), "talks", api.LogQuery{Rank: 1, Since: now.Add(-time.Hour)}, &b); err != nil || !strings.HasSuffix(b.String(), "line 149\n") {
		t.Errorf("since an hour: %q, %v; want the lines", b.String(), err)
	}
	b.Reset()
	if err := r.m.CopyLog(t.Context(), "talks", api.LogQuery{Rank: 1, Since: now.Add(time.Hour)}, &b); err != nil || b.Len() > 0 {
		t.Errorf("since the future: %q, %v; want nothing", b.String(), err)
	}
	files, err := r.m.LogFiles("talks")
	if err != nil || len(files) != 2 || files[1].Rank != 1 || !files[0].Ended || files[0].Attempt != 1 || files[0].Bytes == 0 || files[0].Dropped == 0 {
		t.Errorf("%+v, %v; want the logs of two processes, with what was dropped", files, err)
	}
	if files, err := r.m.LogFiles("nobody"); err != nil || len(files) != 0 {
		t.Errorf("%+v, %v of a job that never ran; want none", files, err)
	}
}

// slowWriter takes a line only when a test lets it.
type slowWriter struct {
	lockedBuffer
	next chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	<-w.next
	return w.lockedBuffer.Write(p)
}

// TestFollowTooSlow: who follows a log more slowly than it is rotated is told how
// many lines are missing, and where.
func TestFollowTooSlow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LogLimit = 1000 })
	go1 := filepath.Join(r.m.cfg.Dir, "go")
	a := attempt("talks", 1, 0b1, fmt.Sprintf(`echo first; until [ -e %s ]; do sleep 0.02; done; i=0; while [ $i -lt 1000 ]; do echo "line $i"; i=$((i+1)); done`, go1))
	w := &slowWriter{next: make(chan struct{})}
	done := make(chan error, 1)
	r.orders.set(a)
	r.started(a.AttemptID)
	go func() { done <- r.m.CopyLog(t.Context(), "talks", api.LogQuery{Follow: true, Attempt: 1}, w) }()
	w.next <- struct{}{}
	eventually(t, "the first line", func() bool { return w.String() == "first\n" })
	if err := os.WriteFile(go1, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.exit(a.AttemptID) // the follower is stuck with the next lines
	close(w.next)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	lines, there, gone := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n"), 0, 0
	for _, line := range lines {
		var n int
		if _, err := fmt.Sscanf(line, "[fairway: %d lines are missing here", &n); err == nil {
			gone += n
		} else {
			there++
		}
	}
	if gone == 0 || there+gone != 1001 || lines[len(lines)-1] != "line 999" {
		t.Errorf("%d lines are there and %d missing; want 1001 together", there, gone)
	}
}

// lockedBuffer is a writer that a test may read meanwhile.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestCopyLog(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	r := newRig(t, func(c *Config) {
		c.LogLimit = 400
		c.Ended = func(sched.JobID) bool {
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
	})
	// A log that is rotated twice before it is read has lost lines: it goes on when
	// whoever follows has come so far.
	script := func(letter string) string {
		return `i=100; while [ $i -lt 160 ]; do echo ` + letter + ` $i rank $RANK; i=$((i+1)); [ $((i%20)) = 0 ] && until [ -e seen-` + letter + `-$i ]; do sleep 0.02; done; done; exit 0`
	}
	a, b := attempt("talks", 1, 0b11, script("a")), attempt("talks", 2, 0b11, script("b"))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var follow lockedBuffer
	done := make(chan error, 1)
	go func() { done <- r.m.CopyLog(ctx, "talks", api.LogQuery{Follow: true, Rank: 1}, &follow) }()
	for i, attempt := range []api.Attempt{a, b} {
		letter := "ab"[i : i+1]
		r.orders.set(attempt)
		for _, n := range []int{120, 140, 160} {
			eventually(t, "the follower reads", func() bool { return strings.Contains(follow.String(), fmt.Sprintf("%s %d rank 1\n", letter, n-1)) })
			if err := os.WriteFile(filepath.Join(r.m.jobDir("talks"), "work", fmt.Sprintf("seen-%s-%d", letter, n)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.exit(attempt.AttemptID)
	}
	close(ended)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, letter := range []string{"a", "b"} {
		for i := 100; i < 160; i++ {
			fmt.Fprintf(&want, "%s %d rank 1\n", letter, i)
		}
	}
	if got := follow.String(); got != want.String() {
		t.Errorf("followed %q\nwant %q", got, want.String())
	}
	dir := r.m.attemptDir(b.AttemptID)
	now := logText(t, dir, "rank-0.log")
	whole := logText(t, dir, "rank-0.log.1") + now
	gone := ""
	if n := 60 - strings.Count(whole, "\n"); n > 0 {
		gone = fmt.Sprintf("[fairway: the first %d lines of this log were dropped: it keeps its last 0.000381 MiB to 0.000763 MiB (keep.log)]\n", n)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	lines[len(lines)-1] += "\n"
	if len(lines) < 30 || strings.Count(now, "\n") == len(lines) {
		t.Fatalf("the log was not rotated: %q", whole)
	}
	for _, n := range []int{0, 1, 2, strings.Count(now, "\n"), strings.Count(now, "\n") + 1, 30, 1000} {
		want := gone + whole
		if n > 0 && n <= len(lines) {
			want = strings.Join(lines[len(lines)-n:], "")
		}
		var got bytes.Buffer
		if err := r.m.CopyLog(ctx, "talks", api.LogQuery{Tail: n}, &got); err != nil || got.String() != want {
			t.Errorf("tail %d: %v %q; want %q", n, err, got.String(), want)
		}
	}
	for _, c := range []struct {
		job  sched.JobID
		q    api.LogQuery
		want api.Code
		says string
	}{
		{"talks", api.LogQuery{Rank: 2}, api.Unknown, "rank: attempt 2 of job talks has no log of rank 2"},
		{"talks", api.LogQuery{Rank: -1}, api.Invalid, "rank: is -1"},
		{"talks", api.LogQuery{Attempt: 3}, api.Unknown, "attempt: job talks has no attempt 3; the last is 2"},
		{"talks", api.LogQuery{Stream: "stdout"}, api.Invalid, "stream: is"},
		{"nobody", api.LogQuery{}, api.Unknown, "no log of job"},
		{"nobody", api.LogQuery{Follow: true}, api.Unknown, "no log of job"},
		{"../jobs/talks", api.LogQuery{}, api.Unknown, "no log of job"},
	} {
		if err := r.m.CopyLog(ctx, c.job, c.q, &bytes.Buffer{}); api.CodeOf(err) != c.want || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s %+v: %v; want %s: %s", c.job, c.q, err, c.want, c.says)
		}
	}
}

// FuzzCopyLog: whatever is asked for, only logs of the machine come back.
func FuzzCopyLog(f *testing.F) {
	dir := f.TempDir()
	for _, d := range []string{"machine/jobs/good/1", "machine/jobs/link", "1"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	for _, name := range []string{"1/rank-0.log", "rank-0.log", "machine/jobs/rank-0.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("outside"), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "machine/jobs/good/1/rank-0.log"), []byte("inside"), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "1"), filepath.Join(dir, "machine/jobs/link/1")); err != nil {
		f.Fatal(err)
	}
	m := &Machine{cfg: Config{Dir: filepath.Join(dir, "machine")}.withDefaults()}
	for _, id := range []string{"good", "link", "..", "../..", ".", "", "/", "good/../..", "good/1/../../..", "a\x00b", dir, "good/", "..\\..", "%2e%2e"} {
		f.Add(id, 0, 0, 0)
		f.Add(id, 1, 0, 3)
	}
	f.Add("good", -1, -1, -1)
	f.Fuzz(func(t *testing.T, id string, attempt, rank, tail int) {
		var b bytes.Buffer
		err := m.CopyLog(context.Background(), sched.JobID(id), api.LogQuery{Attempt: attempt, Rank: rank, Tail: tail}, &b)
		if strings.Contains(b.String(), "outside") {
			t.Fatalf("%q: read a file outside", id)
		}
		if err == nil && (id != "good" || b.String() != "inside") {
			t.Errorf("%q: got %q without an error", id, b.String())
		}
	})
}

func TestWhy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                 "",
		"one\ntwo\n\n  \n": "two",
		"no end":           "no end",
		"Traceback (most recent call last):\n  File \"x\", line 1\n    f()\nValueError: bad value 3\n":                                            "ValueError: bad value 3",
		"Traceback (most recent call last):\n  File \"x\"\ntorch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\nsaving nothing\nbye\n":        "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB",
		"Traceback (most recent call last):\nKeyError: 'a'\n\nDuring handling\n\nTraceback (most recent call last):\n  x\nRuntimeError: second\n": "RuntimeError: second",
		"[rank1]: Traceback (most recent call last):\n[rank1]:   File\n[rank1]: RuntimeError: nccl\n":                                             "[rank1]: RuntimeError: nccl",
		"\x1b[31mred\x1b[0m \x07bell\r\n":                                     "red bell",
		"10%\r50%\r99%\n":                                                     "99%",
		strings.Repeat("noise\n", 200) + "last":                               "last",
		strings.Repeat("w", 5000) + "\n":                                      strings.Repeat("w", tailWidth),
		"Traceback (most recent call last):\n  File \"x\"\nKeyboardInterrupt": "KeyboardInterrupt",
	} {
		for _, size := range []int{1, 7, 4096} { // in pieces, as pipes give it
			var k tail
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				k.add(rest[:min(size, len(rest))])
			}
			if got := k.why(); got != want {
				t.Errorf("%.60q in pieces of %d: %q; want %q", text, size, got, want)
			}
			if len(k.lines) > tailLines {
				t.Errorf("%d lines kept", len(k.lines))
			}
		}
	}
}
