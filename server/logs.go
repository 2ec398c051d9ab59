// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

func listLogs(c *call) (any, error) {
	if err := c.findLog(); err != nil {
		return nil, err
	}
	files, err := c.Logs.LogFiles(c.job())
	return api.LogList{Logs: list(files)}, err
}

// findLog replaces the name of a job in the path by its id. The service of logs knows no
// names, and no tenants: whoever may not see the job is refused here.
func (c *call) findLog() error {
	job, err := c.Jobs.Job(c.who, c.job())
	switch {
	case err != nil:
		return err
	case job.Members != nil:
		return api.Errorf(api.Conflict, "%s is an array", job.ID).Try(fmt.Sprintf("name one of its jobs, such as %s_%d", job.ID, job.Member.Index))
	}
	c.r.SetPathValue("id", string(job.ID))
	return nil
}

// copyLog sends a log. The answer begins with the first byte, so that what goes
// wrong before it is an error like any other; what goes wrong later is in a
// trailer.
func copyLog(c *call) (any, error) {
	if err := c.findLog(); err != nil {
		return nil, err
	}
	view, err := c.logView()
	if err != nil {
		return nil, err
	}
	ctx, leave, err := c.enterStream()
	if err != nil {
		return nil, err
	}
	defer leave()
	out := &logWriter{call: c, flush: view.Follow}
	view.out = out
	err = view.copy(ctx, c)
	why := lost(ctx)
	switch {
	case why != nil:
		err = why
	case ctx.Err() != nil: // asked to end: by the client or by our stop
		return nil, nil
	case err == nil:
		out.begin()
		return nil, nil
	}
	if !out.begun {
		return nil, err
	}
	refused, _ := c.refusal(c.r, err)
	if text, err := json.Marshal(refused); err == nil {
		c.w.Header().Set(api.ErrorTrailer, string(text))
	}
	return nil, nil
}

// logView is a request for logs.
type logView struct {
	api.LogQuery
	grep *regexp.Regexp // nil: all lines
	mu   sync.Mutex
	out  io.Writer
}

func (c *call) logView() (*logView, error) {
	q := c.query
	v := &logView{LogQuery: api.LogQuery{
		Attempt: int(q.count("attempt")), Rank: int(q.count("rank")),
		Stream: q.text("stream"), Tail: int(q.count("tail")), Follow: q.flag("follow"),
		AllRanks: q.flag("all_ranks"), AllAttempts: q.flag("all_attempts"), Grep: q.text("grep"), Collapse: q.flag("collapse"),
	}}
	switch {
	case v.AllRanks && v.Rank > 0:
		return nil, api.Errorf(api.Invalid, "is %d, and all_ranks is set", v.Rank).On("rank").Try("leave one of them out")
	case v.AllAttempts && v.Attempt > 0:
		return nil, api.Errorf(api.Invalid, "is %d, and all_attempts is set", v.Attempt).On("attempt").Try("leave one of them out")
	}
	var err error
	if v.Since, err = q.time("since"); err != nil {
		return nil, err
	}
	if v.Grep != "" {
		if v.grep, err = regexp.Compile(v.Grep); err != nil {
			return nil, api.Errorf(api.Invalid, "is %.60q: %w", v.Grep, err).On("grep").Try(`use a regular expression; \ before a sign takes it literally`)
		}
	}
	return v, nil
}

// Write writes for several that may write at the same time.
func (v *logView) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.out.Write(b)
}

// copy copies all logs of the view.
func (v *logView) copy(ctx context.Context, c *call) error {
	if !v.AllRanks && !v.AllAttempts {
		return v.one(ctx, c, v.Attempt, v.Rank)
	}
	files, err := v.files(ctx, c)
	if err != nil {
		return err
	}
	for i, f := range files {
		first := i == 0 || files[i-1].Attempt != f.Attempt
		if v.AllAttempts && first {
			if _, err := fmt.Fprintf(v, "[fairway: attempt %d]\n", f.Attempt); err != nil {
				return err
			}
		}
		if v.Follow && f.Attempt == files[len(files)-1].Attempt {
			return v.follow(ctx, c, files[i:])
		}
		if err := v.one(ctx, c, f.Attempt, f.Rank); err != nil {
			return err
		}
	}
	return nil
}

// files returns the logs of the view; when following, it waits for the first.
func (v *logView) files(ctx context.Context, c *call) ([]api.LogFile, error) {
	const every = 500 * time.Millisecond
	for {
		files, err := c.Logs.LogFiles(c.job())
		if err != nil {
			return nil, err
		}
		attempt := v.Attempt
		if n := len(files); n > 0 && attempt == 0 {
			attempt = files[n-1].Attempt
		}
		files = slices.DeleteFunc(slices.Clone(files), func(f api.LogFile) bool {
			return !v.AllRanks && f.Rank != v.Rank || !v.AllAttempts && f.Attempt != attempt
		})
		job, err := c.Jobs.Job(c.who, c.job())
		if len(files) > 0 || err != nil {
			return files, err
		}
		if !v.Follow || api.HasEnded(job.State) {
			return nil, api.Errorf(api.Unknown, "job %s has no such log", c.job()).Try("it may not have started yet, or its logs may have been deleted")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(every):
		}
	}
}

// follow follows the logs of one attempt, and of those that come after it.
func (v *logView) follow(ctx context.Context, c *call, files []api.LogFile) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	faults := make([]error, len(files))
	var all sync.WaitGroup
	for i, f := range files {
		all.Go(func() {
			if faults[i] = v.one(ctx, c, v.Attempt, f.Rank); faults[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	for _, err := range faults { // those that were cancelled say nothing
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return cmp.Or(faults...)
}

// one copies one log.
func (v *logView) one(ctx context.Context, c *call, attempt, rank int) error {
	q := api.LogQuery{Attempt: attempt, Rank: rank, Stream: v.Stream, Tail: v.Tail, Follow: v.Follow, Since: v.Since}
	if v.AllAttempts && attempt > 0 {
		q.Follow = false
	}
	if v.grep == nil && !v.Collapse && !v.AllRanks {
		return c.Logs.CopyLog(ctx, c.job(), q, v)
	}
	lines := &logLines{out: v, grep: v.grep, collapse: v.Collapse, live: q.Follow}
	if v.AllRanks {
		lines.prefix = fmt.Sprintf("[rank %d] ", rank)
	}
	if err := c.Logs.CopyLog(ctx, c.job(), q, lines); err != nil {
		return err
	}
	return lines.end()
}

// logWriter writes a log to a client that may be slow.
type logWriter struct {
	*call
	flush bool // at once: somebody is watching
	begun bool
}

func (l *logWriter) begin() {
	if l.begun {
		return
	}
	l.begun = true
	h := l.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Trailer", api.ErrorTrailer)
	if l.query.flag("download") {
		name := strings.Map(func(r rune) rune {
			if r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
				return r
			}
			return '_'
		}, string(l.job()))
		h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name+".log"))
	}
	l.w.WriteHeader(http.StatusOK)
}

// Write implements io.Writer.
func (l *logWriter) Write(b []byte) (int, error) {
	l.begin()
	if l.flush {
		if err := l.push(b); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	defer l.hurry()()
	return l.w.Write(b)
}
