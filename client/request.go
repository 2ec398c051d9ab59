// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/fairway-gpu/fairway/api"
)

// Maximum sizes of answers, in bytes, so that a faulty daemon cannot exhaust the
// client's memory.
const (
	maxAnswer = 256 << 20
	maxError  = 1 << 20
)

// request is one request to the API.
type request struct {
	method string
	path   string
	query  url.Values
	body   any
	token  string // instead of the client's
	accept string
	header http.Header
}

// path joins path elements that may contain any character.
func path(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// send makes a request and returns the answer if it is not an error.
func (c *Client) send(ctx context.Context, q request) (*http.Response, error) {
	var body io.Reader
	if q.body != nil {
		b, err := json.Marshal(q.body)
		if err != nil {
			return nil, api.Errorf(api.Invalid, "write the request as JSON: %w", err)
		}
		body = bytes.NewReader(b)
	}
	address := c.base + q.path
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, api.Errorf(api.Invalid, "make the request: %w", err)
	}
	for k, v := range q.header {
		r.Header[k] = v
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.accept != "" {
		r.Header.Set("Accept", q.accept)
	}
	token := c.token
	if q.token != "" {
		token = q.token
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refusal(resp)
}

// unreachable returns an error that says what to do about a silent daemon.
func (c *Client) unreachable(ctx context.Context, err error) error {
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrPermission):
		return &api.Error{Code: api.Denied, Message: "you may not use " + c.address, Remedy: "ask an administrator for a token, or to be let in by socket.group", Err: err}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return &api.Error{Code: api.Unavailable, Message: "no daemon answers at " + c.address, Remedy: "start one with `fairway up`", Err: err}
	case errors.As(err, &op) && op.Op == "dial":
		return &api.Error{Code: api.Unavailable, Message: fmt.Sprintf("no daemon answers at %s: %v", c.address, op.Err), Remedy: "check the address, or start one with `fairway up`", Err: err}
	}
	// The text of url.Error repeats the address.
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &api.Error{Code: api.Unavailable, Message: fmt.Sprintf("the daemon at %s broke off: %v", c.address, err), Remedy: "try again; the daemon's log may say why", Err: err}
}

// refusal reads the error of an answer.
func (c *Client) refusal(resp *http.Response) error {
	var body api.ErrorBody
	err := json.NewDecoder(io.LimitReader(resp.Body, maxError)).Decode(&body)
	if err == nil && body.Error != nil && body.Error.Code != "" {
		return body.Error
	}
	return api.Errorf(api.Internal, "%s answered %s, which no Fairway daemon does", c.address, resp.Status).Try("check the address")
}

// do makes a request and decodes the JSON value in its answer.
func (c *Client) do(ctx context.Context, q request, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSlow)
	defer cancel()
	q.accept = "application/json"
	resp, err := c.send(ctx, q)
	if err == nil {
		defer resp.Body.Close()
		err = c.decode(ctx, resp, out)
	}
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == errSlow {
		return api.Errorf(api.Unavailable, "the daemon at %s gave no answer within %s", c.address, c.timeout).Try("try again")
	}
	return err
}

var errSlow = errors.New("the daemon is slow")

func (c *Client) decode(ctx context.Context, resp *http.Response, out any) error {
	if out == nil {
		return nil
	}
	limited := &io.LimitedReader{R: resp.Body, N: maxAnswer}
	if err := json.NewDecoder(limited).Decode(out); err != nil {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.N <= 0:
			return api.Errorf(api.TooLarge, "the answer has more than %d bytes", maxAnswer)
		}
		return api.Errorf(api.Internal, "read the answer of %s: %w", c.address, err).Try("client and daemon may be of different versions")
	}
	return nil
}
