// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// streamBuffer is how many records wait for a slow client.
const streamBuffer = 256

func (c *call) recordFilter() api.RecordFilter {
	return api.RecordFilter{
		After: c.query.count("after"), Job: sched.JobID(c.query.text("job")), App: sched.AppID(c.query.text("app")),
		Kind: c.query.text("kind"), Limit: int(c.query.count("limit")),
	}
}

func listRecords(c *call) (any, error) {
	page, err := c.Feed.Records(c.who, c.recordFilter())
	shown := make([]api.Record, 0, len(page.Records))
	for _, r := range page.Records {
		shown = append(shown, public(r))
	}
	page.Records = shown
	return page, err
}

// public leaves out of a record what nobody needs to see.
func public(r api.Record) api.Record {
	if r.Token != nil {
		t := *r.Token
		t.Hash = nil
		r.Token = &t
	}
	if r.Bidder != nil {
		b := *r.Bidder
		b.Sealed = nil
		r.Bidder = &b
	}
	return r
}

func history(c *call) (any, error) {
	samples, err := c.Feed.History(c.who)
	return api.SampleList{Samples: list(samples)}, err
}

// enterStream takes one of the places for streams, and returns a context that
// ends with the request, when the server stops, or when the caller loses the right to
// ask; see lost.
func (c *call) enterStream() (context.Context, func(), error) {
	free, err := c.streams.take(c.who)
	if err != nil {
		return nil, nil, err
	}
	// Under HTTP/2 a deadline that passes ends the stream even if nobody writes.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancelCause(c.r.Context())
	undo := context.AfterFunc(c.drain, func() { cancel(nil) })
	go c.watchCaller(ctx, cancel)
	return ctx, func() {
		undo()
		cancel(nil)
		free()
	}, nil
}

// watchCaller ends a stream when its caller is no longer who it was: the token was
// revoked or has expired, the session was ended, the role is another.
func (c *call) watchCaller(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(c.recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		who, err := c.identify(c.at, c.r, c.verify)
		switch {
		case errors.As(err, &unauthenticated{}):
			end(err)
		case err == nil && who != c.who:
			end(needsToken("the rights of the caller have changed"))
		}
	}
}

// lost returns why the caller of a stream lost the right to it, if it did.
func lost(ctx context.Context) error {
	var refused unauthenticated
	if errors.As(context.Cause(ctx), &refused) {
		return refused
	}
	return nil
}

// watchRecords streams records. One goroutine takes them from the feed, which
// waits while the buffer is full; this one writes, and gives up on a client that
// takes nothing for a while: it can come back and go on where it was.
func watchRecords(c *call) (any, error) {
	filter := c.recordFilter()
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.ParseUint(last, 10, 64)
		if err != nil {
			return nil, api.Errorf(api.Invalid, "is %.40q", last).On("Last-Event-ID").Try("send the id of an event")
		}
		filter.After = n
	}
	probe := filter
	probe.Limit = 1
	if _, err := c.Feed.Records(c.who, probe); err != nil {
		return nil, err
	}
	ctx, leave, err := c.enterStream()
	if err != nil {
		return nil, err
	}
	defer leave()
	watch, cancel := context.WithCancel(ctx)
	records := make(chan api.Record, streamBuffer)
	var fault error // of the feed; written before records is closed
	go func() {
		defer close(records)
		defer func() {
			if p := recover(); p != nil {
				fault = fmt.Errorf("watch the feed: panic: %v", p)
			}
		}()
		fault = c.Feed.Watch(watch, c.who, filter, func(r api.Record) error {
			select {
			case records <- public(r):
				return nil
			case <-watch.Done():
				return watch.Err()
			}
		})
	}()
	err = c.writeRecords(ctx, records)
	cancel()
	for range records { // the feed may be about to send one more
	}
	if why := lost(ctx); why != nil {
		fault = why
	}
	if err == nil && fault != nil && c.drain.Err() == nil && c.r.Context().Err() == nil {
		refused, _ := c.refusal(c.r, fault)
		err = c.writeEvent("problem", "", api.ErrorBody{Error: refused})
	}
	if err != nil {
		c.Log.Debug("event stream ended", "err", err)
	}
	return nil, nil
}

// writeRecords writes until the records or the context end.
func (c *call) writeRecords(ctx context.Context, records <-chan api.Record) error {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // for proxies that would collect it
	if err := c.push([]byte("retry: 2000\n\n")); err != nil {
		return err
	}
	beat := time.NewTicker(c.Heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case r, open := <-records:
			if !open {
				return nil
			}
			err = c.writeEvent("record", strconv.FormatUint(r.Seq, 10), r)
		case <-beat.C:
			err = c.push([]byte(": still here\n\n"))
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// writeEvent writes one event. JSON has no line breaks of its own.
func (c *call) writeEvent(name, id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, data)
	return c.push(b.Bytes())
}

// push writes and flushes, and fails if the client does not take it in time.
func (c *call) push(b []byte) error {
	defer c.hurry()()
	if _, err := c.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// hurry sets a deadline for a write; what it returns takes it away again. A
// writer that has no deadlines, as in a test, needs none.
func (c *call) hurry() (undo func()) {
	control := http.NewResponseController(c.w)
	_ = control.SetWriteDeadline(time.Now().Add(c.patience))
	return func() { _ = control.SetWriteDeadline(time.Time{}) }
}
