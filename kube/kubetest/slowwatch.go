// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// SlowWatch returns a connection to the API server on which watch events arrive after
// the delay, while all other requests are answered at once. A client that uses it acts
// on stale information. It ends with the test.
func (c *Cluster) SlowWatch(t testing.TB, delay time.Duration) func(*rest.Config) *rest.Config {
	t.Helper()
	target, err := url.Parse(c.Admin().Host)
	if err != nil {
		t.Fatal(fmt.Errorf("open slow way: %w", err))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.ca.pem)
	cert, err := tls.LoadX509KeyPair(c.file("apiserver.crt"), c.file("apiserver.key"))
	if err != nil {
		t.Fatal(fmt.Errorf("open slow way: %w", err))
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") == "true" {
				r.Body = newLate(r.Request.Context(), r.Body, delay)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(fmt.Errorf("open slow way: %w", err))
	}
	server := &http.Server{Handler: proxy, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.ServeTLS(listener, "", "") }() // it ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return func(r *rest.Config) *rest.Config {
		r = rest.CopyConfig(r)
		r.Host = "https://" + listener.Addr().String()
		return r
	}
}

// late is a stream that is delayed.
type late struct {
	io.Closer
	ctx    context.Context
	pieces chan piece
	rest   []byte
	err    error // after the rest
}

// piece is what one read returned.
type piece struct {
	due  time.Time
	data []byte
	err  error
}

// mostLate is how many pieces may be in flight.
const mostLate = 100_000

func newLate(ctx context.Context, from io.ReadCloser, delay time.Duration) *late {
	l := &late{Closer: from, ctx: ctx, pieces: make(chan piece, mostLate)}
	go func() {
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			select {
			case l.pieces <- piece{time.Now().Add(delay), buffer[:n], err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

// Read implements io.Reader.
func (l *late) Read(into []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		select {
		case <-l.ctx.Done():
			return 0, l.ctx.Err()
		case p := <-l.pieces:
			select {
			case <-l.ctx.Done():
				return 0, l.ctx.Err()
			case <-time.After(time.Until(p.due)):
			}
			l.rest, l.err = p.data, p.err
		}
	}
	n := copy(into, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
