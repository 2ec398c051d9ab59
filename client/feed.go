// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// How a watch handles a daemon that went away.
const (
	shortestPause = 200 * time.Millisecond
	longestPause  = 10 * time.Second
	// silence is how long a stream may stay silent; the daemon sends a comment every
	// 15 s.
	silence = time.Minute
	maxLine = 16 << 20
)

func recordQuery(f api.RecordFilter) url.Values {
	return url.Values(values{}.count("after", f.After).text("job", string(f.Job)).text("app", string(f.App)).text("kind", f.Kind).number("limit", f.Limit))
}

// Events returns a page of the journal, oldest first.
func (c *Client) Events(ctx context.Context, f api.RecordFilter) (page api.RecordPage, err error) {
	err = c.do(ctx, request{method: "GET", path: path("v1", "events"), query: recordQuery(f)}, &page)
	return page, err
}

// History returns the cluster over time, oldest first.
func (c *Client) History(ctx context.Context) ([]api.Sample, error) {
	var out api.SampleList
	err := c.do(ctx, request{method: "GET", path: path("v1", "history")}, &out)
	return out.Samples, err
}

// Watch calls send with every record after f.After, as they happen, until the
// context ends or send fails. If the daemon goes away, Watch reconnects and
// continues after the last record. A daemon that is unreachable at first, or
// refuses, is an error.
func (c *Client) Watch(ctx context.Context, f api.RecordFilter, send func(api.Record) error) error {
	f.Limit = 0
	pause := shortestPause
	for reached := false; ; {
		opened, err := c.stream(ctx, &f.After, f, send)
		reached = reached || opened
		var own sendError
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return ctx.Err()
		case !reached || final(err):
			return err
		}
		if opened {
			pause = shortestPause
		}
		// Clients of a restarting daemon should not all reconnect at once.
		wait := pause/2 + rand.N(pause/2)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		pause = min(2*pause, longestPause)
	}
}

// sendError is an error of the caller's function.
type sendError struct{ error }

// final reports whether a retry cannot help.
func final(err error) bool {
	switch api.CodeOf(err) {
	case api.Invalid, api.Denied, api.Unknown, api.Conflict, api.TooLarge:
		return err != nil
	}
	return false
}

// stream reads one response until it ends. It keeps the last sequence number that
// send accepted, and reports whether the daemon answered.
func (c *Client) stream(ctx context.Context, last *uint64, f api.RecordFilter, send func(api.Record) error) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := request{method: "GET", path: path("v1", "events", "stream"), query: recordQuery(f), accept: "text/event-stream", header: http.Header{}}
	if *last > 0 {
		q.header.Set("Last-Event-ID", strconv.FormatUint(*last, 10))
	}
	resp, err := c.send(ctx, q)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	var e event
	for {
		line, err := readLine(in)
		if err != nil {
			return true, c.unreachable(ctx, err)
		}
		quiet.Reset(silence)
		if len(line) > 0 {
			e.add(line)
			continue
		}
		if err := e.deliver(last, send); err != nil {
			return true, err
		}
		e = event{}
	}
}

// event is one event of a stream, as far as it has been read.
type event struct {
	name string
	data []byte
}

func (e *event) add(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		e.name = string(value)
	case "data":
		e.data = append(e.data, value...)
	}
}

func (e *event) deliver(last *uint64, send func(api.Record) error) error {
	switch e.name {
	case "record":
		var r api.Record
		if err := json.Unmarshal(e.data, &r); err != nil {
			return api.Errorf(api.Invalid, "read a record: %w", err).Try("client and daemon may be of different versions")
		}
		if err := send(r); err != nil {
			return sendError{err}
		}
		*last = max(*last, r.Seq)
	case "problem":
		var body api.ErrorBody
		if err := json.Unmarshal(e.data, &body); err == nil && body.Error != nil {
			return body.Error
		}
	}
	return nil
}

// readLine reads a line of bounded length, without its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("a line of the stream has more than %d bytes", maxLine)
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}
