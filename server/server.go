// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/server/web"
)

// Config is what a server needs. The services are required, the rest has
// defaults.
type Config struct {
	Jobs    api.Jobs
	Feed    api.Feed
	Cluster api.Cluster
	Access  api.Access
	Agents  api.Agents
	Bidders api.Bidders // nil: no program may bid for an app
	Logs    api.Logs
	// Searches may be nil: whoever keeps the jobs runs no searches then.
	Searches api.Searches

	// ReadJobs reads the jobs of a job file; nil: nobody can.
	ReadJobs func(text []byte) ([]api.Submission, error)
	Policies []api.PolicyEntry // what /v1/policies shows
	Version  string
	URL      string   // of the dashboard, for links to it; empty: unknown
	Warnings []string // about the configuration; the overview shows them
	// Deliveries is how the targets of notifications take them; nil: there are none.
	Deliveries func() []api.Delivery
	// SocketTenant is the tenant of whoever comes through the Unix socket;
	// empty: "default".
	SocketTenant sched.TenantID
	// JobOf returns the job that a process of this machine belongs to; empty: none.
	// Such a process has no rights of its user on the Unix socket. Nil: nobody can tell.
	JobOf func(pid int) (sched.JobID, error)
	// PublicMetrics lets everybody who can connect read /metrics.
	PublicMetrics bool
	// SessionKey seals the sessions of the dashboard: 32 bytes that are kept
	// between runs keep people logged in over a restart. Nil: a new one.
	SessionKey []byte
	// Ready says what keeps the daemon from working; nil, or a nil error: nothing.
	Ready func() error
	// Metrics collects what the daemon observes; nil: the server makes one.
	Metrics *Metrics

	Heartbeat  time.Duration // between comments on a silent stream; 0: 15 s
	MaxStreams int           // events and followed logs at a time; 0: 256
	Assets     fs.FS         // the dashboard; nil: package web
	Now        func() time.Time
	Log        *slog.Logger
}

// Server answers the API. Make one with New; it may serve once.
type Server struct {
	Config
	routes   []*route
	assets   assets
	sessions *sessions
	codes    *codes
	failures *limiter      // wrong secrets, by address
	refused  *limiter      // wrong secrets, by their hash
	held     chan struct{} // refusals that are held up
	penalty  time.Duration // for how long
	reports  *limiter      // of agents, by attempt
	streams  *places
	openAPI  []byte
	uid      int           // of the daemon
	patience time.Duration // for one write to a client of a stream
	recheck  time.Duration // how often the caller of a stream is identified again

	// drain ends when the server begins to stop: streams end then, requests in
	// flight may finish.
	drain context.Context
	stop  context.CancelFunc
}

// New makes a server.
func New(c Config) (*Server, error) {
	if c.Jobs == nil || c.Feed == nil || c.Cluster == nil || c.Access == nil || c.Agents == nil || c.Logs == nil {
		return nil, errors.New("new server: a service is missing; want Jobs, Feed, Cluster, Access, Agents and Logs")
	}
	if c.SessionKey == nil {
		c.SessionKey = make([]byte, sessionKeySize)
		rand.Read(c.SessionKey)
	}
	c.SocketTenant = cmp.Or(c.SocketTenant, "default")
	c.Heartbeat = cmp.Or(c.Heartbeat, 15*time.Second)
	c.MaxStreams = cmp.Or(c.MaxStreams, 256)
	c.Version = cmp.Or(c.Version, "unknown")
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	if c.Assets == nil {
		c.Assets = web.FS()
	}
	s := &Server{Config: c, routes: table(), uid: os.Getuid(), patience: 10 * time.Second, recheck: 2 * time.Second, streams: newPlaces(c.MaxStreams)}
	s.drain, s.stop = context.WithCancel(context.Background())
	s.failures = newLimiter(limit{every: 2 * time.Second, burst: 20}, c.Now)
	s.refused = newLimiter(limit{every: 2 * time.Second, burst: 20}, c.Now)
	s.held, s.penalty = make(chan struct{}, 64), time.Second
	s.reports = newLimiter(limit{every: 100 * time.Millisecond, burst: 100}, c.Now)
	s.codes = &codes{now: c.Now, open: map[string]loginCode{}}
	var err error
	if s.sessions, err = newSessions(c.SessionKey, c.Now); err != nil {
		return nil, fmt.Errorf("new server: %w", err)
	}
	if s.assets, err = loadAssets(c.Assets); err != nil {
		return nil, fmt.Errorf("new server: %w", err)
	}
	if s.openAPI, err = describe(s.routes, c.Version); err != nil {
		return nil, fmt.Errorf("new server: %w", err)
	}
	if err := c.Metrics.collect(s); err != nil {
		return nil, fmt.Errorf("new server: %w", err)
	}
	return s, nil
}

// Kind is a way in.
type Kind uint8

// The kinds.
const (
	Socket Kind = iota // a Unix socket: the peer is known by the operating system
	Plain              // TCP without encryption
	Secure             // TCP with TLS
	Agents             // a Unix socket for jobs: only the routes of agents, only by the secret of an attempt
)

// Endpoint is a way in which requests arrive.
type Endpoint struct {
	Kind Kind
	// Hosts are the names and addresses that a request may be addressed to, in
	// lower case and without port; none: any. On a loopback address it keeps a
	// page of another site, whose name was made to point here, from asking.
	Hosts []string
}

// Handler answers requests that arrive at an endpoint. The connections of a
// Socket must have been accepted by Serve, which looks at who the peer is.
func (s *Server) Handler(d Endpoint) http.Handler {
	mux := http.NewServeMux()
	byPath := map[string]methods{}
	for _, rt := range s.routes {
		if d.Kind == Agents && !rt.agent {
			continue
		}
		if byPath[rt.path] == nil {
			byPath[rt.path] = methods{}
		}
		byPath[rt.path][rt.method] = rt
	}
	for path, m := range byPath {
		mux.Handle(path, s.dispatch(d, m))
	}
	if d.Kind == Agents {
		mux.Handle("/", s.dispatch(d, nil))
		return s.guard(d, mux)
	}
	mux.Handle("/v1/", s.dispatch(d, nil))
	mux.Handle("/login", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.login(d, w, r) }))
	mux.Handle("/logout", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.logout(d, w, r) }))
	mux.Handle("/", s.assets)
	return s.guard(d, mux)
}
