// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// DefaultDeadline is how long an agent may take to answer one question.
const DefaultDeadline = 500 * time.Millisecond

// HTTPAgent is an agent at an address. It is not safe for concurrent use.
type HTTPAgent struct {
	url      *url.URL
	secret   string
	deadline time.Duration
	client   *http.Client
}

// HTTPOptions is what an HTTPAgent needs besides its address.
type HTTPOptions struct {
	Secret   string        // sent with every question, so that the agent can authenticate the daemon
	Deadline time.Duration // of one question; 0: DefaultDeadline
	Hosts    Hosts         // that may be called beside this machine
}

// NewHTTPAgent returns the agent at an address. Close it after use.
func NewHTTPAgent(address string, o HTTPOptions) (*HTTPAgent, error) {
	u, err := o.Hosts.parse(address)
	if err != nil {
		return nil, err
	}
	if o.Deadline <= 0 {
		o.Deadline = DefaultDeadline
	}
	dialer := &net.Dialer{Timeout: o.Deadline, Control: o.Hosts.control(u)}
	a := &HTTPAgent{url: u, secret: o.Secret, deadline: o.Deadline}
	a.client = &http.Client{
		Transport: &http.Transport{
			// No proxy: it would resolve the name, and the resolved address could not be
			// checked. No compression: a small answer could become a large one.
			DialContext: dialer.DialContext, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
			MaxConnsPerHost: 2, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
			TLSHandshakeTimeout: o.Deadline,
			Protocols:           onlyHTTP1(),
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return a, nil
}

func onlyHTTP1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

var _ Agent = (*HTTPAgent)(nil)

// Close closes the idle connection.
func (a *HTTPAgent) Close() { a.client.CloseIdleConnections() }

// Rho implements Agent.
func (a *HTTPAgent) Rho(ctx context.Context, q RhoQuery) (RhoReply, error) {
	var r RhoReply
	if err := a.ask(ctx, RhoPath, q, &r); err != nil {
		return RhoReply{}, err
	}
	if err := checkRho(r.Rho); err != nil {
		return RhoReply{}, fault(Nonsense, "%s: %w", RhoPath, err)
	}
	return r, nil
}

// Bid implements Agent.
func (a *HTTPAgent) Bid(ctx context.Context, o Offer) (BidTable, error) {
	var t BidTable
	if err := a.ask(ctx, BidPath, o, &t); err != nil {
		return BidTable{}, err
	}
	if err := o.Check(t); err != nil {
		return BidTable{}, fault(Nonsense, "%s: %w", BidPath, err)
	}
	return t, nil
}

// Win implements Agent.
func (a *HTTPAgent) Win(ctx context.Context, w Win) error { return a.ask(ctx, WinPath, w, nil) }

// ask sends a question and reads the answer, all within the deadline.
func (a *HTTPAgent) ask(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.deadline)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url.String()+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	q.Header.Set("User-Agent", "fairway")
	if a.secret != "" {
		q.Header.Set("Authorization", "Bearer "+a.secret)
	}
	resp, err := a.client.Do(q)
	if err != nil {
		return a.unreached(ctx, err)
	}
	defer resp.Body.Close()
	return a.read(ctx, resp, path, out)
}

// unreached returns whether there was no answer, or none in time.
func (a *HTTPAgent) unreached(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // its text repeats the address
	}
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return fault(Slow, "no answer within %s", a.deadline)
	}
	return fault(Silent, "%w", err)
}

func (a *HTTPAgent) read(ctx context.Context, resp *http.Response, path string, out any) error {
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fault(Refused, "%s: it answered %s; redirects are not followed", path, resp.Status)
	case resp.StatusCode == http.StatusNoContent && out == nil:
		return nil
	case resp.StatusCode != http.StatusOK:
		return fault(Refused, "%s: it answered %.60q; want 200", path, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxReply+1))
	switch {
	case err != nil:
		return a.unreached(ctx, err)
	case len(data) > MaxReply:
		return fault(TooLarge, "%s: the answer has more than %d bytes", path, MaxReply)
	case out == nil:
		return nil
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fault(Nonsense, "%s: the content type is %.60q; want application/json", path, resp.Header.Get("Content-Type"))
	}
	if err := decode(data, out, true); err != nil {
		return fault(Nonsense, "%s: cannot decode the answer: %w", path, err)
	}
	return nil
}
