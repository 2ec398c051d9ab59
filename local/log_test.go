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
	old, now := read(t, path+".1"), read(t, path)
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
	if note := r.note(); !strings.Contains(note, "6 bytes") || !strings.Contains(note, "no space left") {
		t.Errorf("note %q; want 6 bytes and why", note)
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
	whole := read(t, dir, "rank-0.log.1") + read(t, dir, "rank-0.log")
	now := read(t, dir, "rank-0.log")
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	lines[len(lines)-1] += "\n"
	if len(lines) < 30 || strings.Count(now, "\n") == len(lines) {
		t.Fatalf("the log was not rotated: %q", whole)
	}
	for _, n := range []int{0, 1, 2, strings.Count(now, "\n"), strings.Count(now, "\n") + 1, 30, 1000} {
		want := whole
		if n > 0 && n < len(lines) {
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
	}{
		{"talks", api.LogQuery{Rank: 2}, api.Unknown},
		{"talks", api.LogQuery{Rank: -1}, api.Invalid},
		{"talks", api.LogQuery{Attempt: 3}, api.Unknown},
		{"talks", api.LogQuery{Stream: "stdout"}, api.Invalid},
		{"nobody", api.LogQuery{}, api.Unknown},
		{"nobody", api.LogQuery{Follow: true}, api.Unknown},
		{"../jobs/talks", api.LogQuery{}, api.Unknown},
	} {
		if err := r.m.CopyLog(ctx, c.job, c.q, &bytes.Buffer{}); api.CodeOf(err) != c.want {
			t.Errorf("%s %+v: %v; want %s", c.job, c.q, err, c.want)
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
