// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// The limits of a connection.
const (
	headerTime  = 10 * time.Second
	idleTime    = 2 * time.Minute
	maxHeader   = 64 << 10
	graceToStop = 10 * time.Second
)

// Serve answers on the listeners until the context ends, then lets requests in
// flight finish and ends the streams. It closes the listeners. A server serves
// once.
func (s *Server) Serve(ctx context.Context, listeners ...*Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { s.count(ctx) })
	faults := make(chan error, len(listeners))
	servers := make([]*http.Server, 0, len(listeners))
	for _, l := range listeners {
		srv, inner := s.httpServer(l)
		servers = append(servers, srv)
		group.Go(func() {
			if err := srv.Serve(inner); !errors.Is(err, http.ErrServerClosed) {
				faults <- fmt.Errorf("serve at %s: %w", l.URL(), err)
			}
		})
	}
	var fault error
	select {
	case <-ctx.Done():
	case fault = <-faults:
	}
	cancel()
	s.stop()
	var stops sync.WaitGroup
	for i, srv := range servers {
		stops.Go(func() {
			listeners[i].hide() // a new daemon may come while requests finish
			s.shutdown(srv)
			if err := listeners[i].Close(); err != nil {
				s.Log.Warn("close listener", "address", listeners[i].URL(), "err", err)
			}
		})
	}
	stops.Wait()
	group.Wait()
	return fault
}

// shutdown waits for requests in flight, but not for ever.
func (s *Server) shutdown(srv *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), graceToStop)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		s.Log.Warn("requests interrupted at shutdown", "err", err)
		_ = srv.Close() // they were cut off: what else it says does not matter
	}
}

func (s *Server) httpServer(l *Listener) (*http.Server, net.Listener) {
	srv := &http.Server{
		Handler:           s.Handler(l.endpoint),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	if l.endpoint.Kind == Socket {
		srv.ConnContext = s.withPeer
	}
	inner := l.inner
	if l.tls != nil {
		inner = tls.NewListener(inner, l.tls)
	}
	return srv, inner
}
