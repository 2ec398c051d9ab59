// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestLogLines: however a log is cut into pieces, its lines come out as asked for.
func TestLogLines(t *testing.T) {
	bar := "epoch 1\r 10%|#         |\r 50%|#####     |\r100%|##########|\nloss 0.5\r\nwarning\r\r\n\nend"
	for _, c := range []struct {
		name string
		l    logLines
		want string
	}{
		{"as it is", logLines{}, strings.TrimSuffix(bar, "end") + "end\n"},
		{"collapsed", logLines{collapse: true}, "100%|##########|\nloss 0.5\nwarning\n\nend\n"},
		{"matching", logLines{collapse: true, grep: regexp.MustCompile("loss|end")}, "loss 0.5\nend\n"},
		{"with ranks", logLines{collapse: true, prefix: "[rank 2] ", grep: regexp.MustCompile("^l")}, "[rank 2] loss 0.5\n"},
	} {
		for size := 1; size <= len(bar); size++ {
			var out bytes.Buffer
			l := c.l
			l.out = &out
			for at := 0; at < len(bar); at += size {
				if _, err := l.Write([]byte(bar[at:min(len(bar), at+size)])); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.end(); err != nil || out.String() != c.want {
				t.Fatalf("%s, in pieces of %d: %q, %v; want %q", c.name, size, out.String(), err, c.want)
			}
		}
	}
	// A bar that runs for long needs little memory, and a line without end is parted.
	var out bytes.Buffer
	l := logLines{out: &out, collapse: true}
	for i := range 100_000 {
		fmt.Fprintf(&l, "\r%d of 100000", i)
	}
	if cap(l.line) > 4*maxLogLine || out.Len() > 0 {
		t.Errorf("%d bytes kept, %d written; want a bound, and nothing before its end", cap(l.line), out.Len())
	}
	if err := l.end(); err != nil || out.String() != "99999 of 100000\n" {
		t.Errorf("%q, %v; want the last state", out.String(), err)
	}
	_, _ = l.Write(bytes.Repeat([]byte("x"), 10*maxLogLine))
	if len(l.line) > maxLogLine {
		t.Errorf("%d bytes of a line kept; want at most %d", len(l.line), maxLogLine)
	}
	// Who follows sees the state of a bar that has not ended.
	out.Reset()
	live := logLines{out: &out, collapse: true, live: true}
	fmt.Fprint(&live, "\r 1%\r 2%")
	if out.String() != " 2%\n" {
		t.Errorf("%q; want the present state", out.String())
	}
}

func FuzzLogLines(f *testing.F) {
	f.Add([]byte("a\rb\nc\r\n"), 2)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		collect := func(size int) string {
			var out bytes.Buffer
			l := logLines{out: &out, collapse: true}
			for rest := text; len(rest) > 0; {
				n := min(len(rest), size)
				_, _ = l.Write(rest[:n])
				rest = rest[n:]
			}
			_ = l.end()
			return out.String()
		}
		if len(text) > maxLogLine {
			return
		}
		if whole, parts := collect(len(text)+1), collect(1+size&0xff); whole != parts || strings.Contains(whole, "\r") {
			t.Errorf("%q in one piece, %q in several", whole, parts)
		}
	})
}

// TestLogViews asks for the logs of several processes and attempts.
func TestLogViews(t *testing.T) {
	f := newFake()
	f.job = func(_ api.Identity, id sched.JobID) (api.Job, error) {
		return api.Job{Spec: sched.Spec{ID: id}, State: api.Running}, nil
	}
	f.logFiles = []api.LogFile{{Attempt: 1}, {Attempt: 2}, {Attempt: 2, Rank: 1}}
	f.copyLog = func(_ context.Context, q api.LogQuery, w io.Writer) error {
		_, err := fmt.Fprintf(w, "0%%\r%d.%d follow %v\nother\n", q.Attempt, q.Rank, q.Follow)
		return err
	}
	r := start(t, config(f))
	c := r.client(t, r.plain, "fw_viewer")
	for _, tc := range []struct {
		q    api.LogQuery
		want string
	}{
		{api.LogQuery{}, "0%\r0.0 follow false\nother\n"},
		{api.LogQuery{Collapse: true}, "0.0 follow false\nother\n"},
		{api.LogQuery{Attempt: 1, Grep: "^oth"}, "other\n"},
		{api.LogQuery{AllRanks: true, Grep: "follow", Collapse: true}, "[rank 0] 2.0 follow false\n[rank 1] 2.1 follow false\n"},
		{api.LogQuery{AllRanks: true, Attempt: 1, Collapse: true}, "[rank 0] 1.0 follow false\n[rank 0] other\n"},
		{api.LogQuery{AllAttempts: true, Grep: "follow", Collapse: true}, "[fairway: attempt 1]\n1.0 follow false\n[fairway: attempt 2]\n2.0 follow false\n"},
		{api.LogQuery{AllAttempts: true, Grep: "follow", Collapse: true, Follow: true}, "[fairway: attempt 1]\n1.0 follow false\n[fairway: attempt 2]\n0.0 follow true\n"},
	} {
		var out bytes.Buffer
		if err := c.Logs(t.Context(), "j1", tc.q, &out); err != nil || out.String() != tc.want {
			t.Errorf("%+v: %q, %v; want %q", tc.q, out.String(), err, tc.want)
		}
	}
	var out bytes.Buffer
	if err := c.Logs(t.Context(), "j1", api.LogQuery{AllRanks: true, Follow: true, Collapse: true}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[rank 0] 0.0 follow true\n", "[rank 1] 0.1 follow true\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("followed %q; want %q", out.String(), want)
		}
	}
	for query, field := range map[string]string{
		"since=yesterday": "since", "grep=(": "grep", "rank=1&all_ranks": "rank", "attempt=1&all_attempts": "attempt",
	} {
		if a := ask(t, "GET", r.plain+"/v1/jobs/j1/logs?"+query, "", "Authorization", asViewer); a.status != 400 || a.refused().Field != field {
			t.Errorf("%s: %d %s; want 400 about %s", query, a.status, a.body, field)
		}
	}
	a := ask(t, "GET", r.plain+"/v1/jobs/j%221/logs?download", "", "Authorization", asViewer)
	if got, want := a.header.Get("Content-Disposition"), `attachment; filename="j_1.log"`; got != want {
		t.Errorf("download as %q; want %q", got, want)
	}
}
