// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"

	"github.com/fairway-gpu/fairway/api"
)

// errorTrailer carries the error of a log that broke off after it had begun.
const errorTrailer = "Fairway-Error"

// copyLog sends a log. The answer begins with the first byte, so that what goes
// wrong before it is an error like any other; what goes wrong later is in a
// trailer.
func copyLog(c *call) (any, error) {
	// The service of logs knows no tenants: whoever may not see the job is
	// refused here.
	if _, err := c.Jobs.Job(c.who, c.job()); err != nil {
		return nil, err
	}
	q := api.LogQuery{
		Attempt: int(c.query.count("attempt")), Rank: int(c.query.count("rank")),
		Stream: c.query.text("stream"), Tail: int(c.query.count("tail")), Follow: c.query.flag("follow"),
	}
	ctx, leave, err := c.enterStream()
	if err != nil {
		return nil, err
	}
	defer leave()
	out := &logWriter{call: c, flush: q.Follow}
	err = c.Logs.CopyLog(ctx, c.job(), q, out)
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
		c.w.Header().Set(errorTrailer, string(text))
	}
	return nil, nil
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
	h.Set("Trailer", errorTrailer)
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
