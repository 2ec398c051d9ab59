// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// Time limits of a request that is not a stream.
const (
	readTime  = 30 * time.Second
	writeTime = 60 * time.Second
)

// guard stands before every handler: it keeps a panic from ending the daemon,
// refuses requests that were meant for another host, and sets the headers that
// keep a browser from doing foolish things with an answer.
func (s *Server) guard(d Endpoint, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		defer s.recovered(rec, r)
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if !d.knows(r.Host) {
			s.refuse(rec, r, api.Errorf(api.Denied, "host %.100q is not a name of this daemon", r.Host).
				Try("use the address it listens on, or add the name to its hosts"))
			return
		}
		control := http.NewResponseController(w)
		// Not every writer has deadlines; one that has none needs none.
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))
		next.ServeHTTP(rec, r)
	})
}

// knows reports whether a request for a host may arrive at the endpoint.
func (d Endpoint) knows(host string) bool {
	if len(d.Hosts) == 0 {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return slices.Contains(d.Hosts, strings.ToLower(strings.Trim(host, "[]")))
}

// recovered turns a panic into an error of one request.
func (s *Server) recovered(rec *recorder, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.Log.Error("panic in a request", "method", r.Method, "path", r.URL.Path, "err", p, "stack", string(debug.Stack()))
	if rec.status != 0 {
		panic(http.ErrAbortHandler) // the answer has begun: all that is left is to break it off
	}
	s.refuse(rec, r, api.Errorf(api.Internal, "the daemon panicked on this request").Try("see the daemon's log, and report the bug"))
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int // 0: not begun
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find the writer below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
