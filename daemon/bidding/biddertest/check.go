// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package biddertest checks programs that bid for apps over a real socket, in
// whatever language they are written. Run is for a Go test of such a program;
// for any other, start it and run
//
//	FAIRWAY_BIDDER=http://127.0.0.1:9000 FAIRWAY_BIDDER_SECRET=... go test -run TestExternal ./bidding/biddertest
//
// Reference is a small agent that passes, and a model for others.
package biddertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon/bidding"
)

// Finding is a rule that an agent breaks.
type Finding struct {
	Rule string // one of those in docs/bidding.md
	Text string
}

func (f Finding) String() string { return f.Rule + ": " + f.Text }

// Run fails the test for every rule that the agent at an address breaks.
func Run(t testing.TB, address, secret string) {
	t.Helper()
	for _, f := range Check(t.Context(), address, secret) {
		t.Errorf("%s: %s", address, f)
	}
}

// Check puts questions to the agent at an address and returns what is wrong with
// its answers. It must be on this machine. It takes a few seconds at most.
func Check(ctx context.Context, address, secret string) []Finding {
	return CheckWithin(ctx, bidding.DefaultDeadline, address, secret)
}

// CheckWithin is Check for a daemon that waits longer, or less long, than most:
// see bidders.deadline of its settings.
func CheckWithin(ctx context.Context, deadline time.Duration, address, secret string) []Finding {
	s := &suite{ctx: ctx, deadline: deadline, base: strings.TrimRight(address, "/"), secret: secret, round: uint64(time.Now().UnixMilli())}
	s.client = &http.Client{Timeout: 10 * deadline, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer s.client.CloseIdleConnections()
	for _, part := range []func(){s.rho, s.offers, s.strangers, s.rubbish, s.later, s.win, s.together} {
		part()
	}
	return s.found
}

// suite is a check under way.
type suite struct {
	ctx      context.Context
	deadline time.Duration // of an answer
	base     string
	secret   string
	client   *http.Client
	round    uint64
	found    []Finding
}

func (s *suite) fail(rule, format string, args ...any) {
	s.found = append(s.found, Finding{rule, fmt.Sprintf(format, args...)})
}

// reply is what came back over the wire.
type reply struct {
	status int
	kind   string
	body   []byte
	took   time.Duration
	err    error
}

func (s *suite) send(method, path, auth string, body []byte) reply {
	begin := time.Now()
	q, err := http.NewRequestWithContext(s.ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	q.Header.Set("Content-Type", "application/json")
	if auth != "" {
		q.Header.Set("Authorization", auth)
	}
	resp, err := s.client.Do(q)
	if err != nil {
		return reply{err: err, took: time.Since(begin)}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, bidding.MaxReply+1))
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return reply{status: resp.StatusCode, kind: kind, body: data, took: time.Since(begin), err: err}
}

func (s *suite) post(path string, question any) reply {
	body, err := json.Marshal(question)
	if err != nil {
		return reply{err: err}
	}
	return s.send(http.MethodPost, path, "Bearer "+s.secret, body)
}

// good reports whether an answer is a JSON object in time, as the daemon needs it.
func (s *suite) good(what string, r reply) bool {
	switch {
	case r.err != nil:
		s.fail("answers", "%s: %v", what, r.err)
	case r.status != http.StatusOK:
		s.fail("answers", "%s: status %d with %.100q; want 200", what, r.status, r.body)
	case r.kind != "application/json":
		s.fail("json", "%s: content type %q; want application/json", what, r.kind)
	case r.took > s.deadline:
		s.fail("in-time", "%s: %s; want at most %s", what, r.took.Round(time.Millisecond), s.deadline)
	default:
		return true
	}
	return false
}

// agent returns the daemon's own view of the agent: every check that it makes.
func (s *suite) agent(secret string) (*bidding.HTTPAgent, error) {
	return bidding.NewHTTPAgent(s.base, bidding.HTTPOptions{Secret: secret, Deadline: s.deadline})
}

func (s *suite) next() uint64 { s.round++; return s.round }

func (s *suite) app(holds ...bidding.Share) bidding.App {
	if holds == nil {
		holds = []bidding.Share{}
	}
	return bidding.App{ID: "check", Submitted: time.Now().Add(-time.Hour).UTC(), Contention: 3, Apps: 4, ClusterGPUs: 64, Holds: holds}
}

func (s *suite) query() bidding.RhoQuery {
	return bidding.RhoQuery{Round: s.next(), Now: time.Now().UTC(), App: s.app(), Lease: 600}
}

func (s *suite) rho() {
	if !s.good("rho", s.post(bidding.RhoPath, s.query())) {
		return
	}
	a, err := s.agent(s.secret)
	if err != nil {
		s.fail("answers", "%v", err)
		return
	}
	defer a.Close()
	if _, err := a.Rho(s.ctx, s.query()); err != nil {
		s.fail("rho", "%v", err)
	}
}

// market is one offer that is put to the agent.
type market struct {
	name  string
	offer bidding.Offer
}

// markets are the offers: one and many nodes, gangs and tasks, what is held
// already, nothing of use.
func (s *suite) markets() []market {
	node := func(i, gpus int) bidding.Free {
		return bidding.Free{Node: fmt.Sprintf("node-%d", i), Rack: fmt.Sprintf("rack-%d", i/4), Type: "h200", GPUs: gpus}
	}
	var many []bidding.Free
	for i := range 200 {
		many = append(many, node(i, 1+i%8))
	}
	odd := bidding.Free{Node: `näme "with" <odd> signs`, GPUs: 4}
	held := []bidding.Share{{Node: "node-0", GPUs: 2}, {Node: "elsewhere", GPUs: 1}}
	return []market{
		{"one node", bidding.Offer{App: s.app(), Free: []bidding.Free{node(0, 8)}, Gang: 1, Task: 1, Demand: 8}},
		{"little demand", bidding.Offer{App: s.app(), Free: []bidding.Free{node(0, 8), node(1, 8)}, Gang: 1, Task: 1, Demand: 3}},
		{"gangs of 4", bidding.Offer{App: s.app(), Free: []bidding.Free{node(0, 3), node(1, 6), node(9, 2)}, Gang: 4, Task: 1, Demand: 16}},
		{"tasks of 2", bidding.Offer{App: s.app(), Free: []bidding.Free{node(0, 3), node(1, 5), node(2, 1)}, Gang: 2, Task: 2, Demand: 16}},
		{"no whole gang", bidding.Offer{App: s.app(), Free: []bidding.Free{node(0, 3)}, Gang: 4, Task: 4, Demand: 16}},
		{"GPUs held", bidding.Offer{App: s.app(held...), Free: []bidding.Free{node(0, 4), node(1, 4)}, Gang: 1, Task: 1, Demand: 6}},
		{"odd name", bidding.Offer{App: s.app(), Free: []bidding.Free{odd}, Gang: 1, Task: 1, Demand: 4}},
		{"nothing free", bidding.Offer{App: s.app(), Free: []bidding.Free{}, Gang: 1, Task: 1, Demand: 8}},
		{"200 nodes", bidding.Offer{App: s.app(), Free: many, Gang: 1, Task: 1, Demand: 500}},
	}
}

func (s *suite) offers() {
	takes := false
	for _, m := range s.markets() {
		o := m.offer
		o.Round, o.Now, o.Lease, o.Deadline = s.next(), time.Now().UTC(), 600, s.deadline.Milliseconds()
		if !s.good("bid on "+m.name, s.post(bidding.BidPath, o)) {
			continue
		}
		a, err := s.agent(s.secret)
		if err != nil {
			s.fail("answers", "%v", err)
			return
		}
		o.Round = s.next()
		table, err := a.Bid(s.ctx, o)
		a.Close()
		if err != nil {
			s.fail("bid", "on %s: %v", m.name, err)
			continue
		}
		s.useful(m.name, table)
		takes = takes || len(table.Rows) > 1
	}
	if !takes {
		s.fail("bids", "no answer to any offer takes a GPU; an agent that wants nothing need not bid")
	}
}

// useful checks that every row is better than to take nothing.
func (s *suite) useful(name string, t bidding.BidTable) {
	present := 0.0
	for _, row := range t.Rows {
		if len(row.Take) == 0 {
			present = row.Rho
		}
	}
	for i, row := range t.Rows {
		if len(row.Take) > 0 && row.Rho > present {
			s.fail("useful", "on %s: row %d has rho %g, and taking nothing %g; leave rows out that make it worse", name, i, row.Rho, present)
			return
		}
	}
}

// strangers: whoever does not know the secret learns nothing.
func (s *suite) strangers() {
	body, _ := json.Marshal(s.query())
	for name, auth := range map[string]string{"no secret": "", "a wrong secret": "Bearer wrong" + s.secret, "another scheme": "Basic " + s.secret} {
		for _, path := range []string{bidding.RhoPath, bidding.BidPath, bidding.WinPath} {
			if r := s.send(http.MethodPost, path, auth, body); r.err != nil || r.status != http.StatusUnauthorized && r.status != http.StatusForbidden {
				s.fail("secret", "%s with %s: status %d, %v; want 401", path, name, r.status, r.err)
			}
		}
	}
}

// rubbish: what is not a question is refused, and the agent lives on.
func (s *suite) rubbish() {
	bodies := map[string][]byte{
		"nothing": nil, "no JSON": []byte("rho, please"), "half of it": []byte(`{"round": 1, "now":`),
		"a list": []byte("[]"), "another type": []byte(`{"round": "one", "free": 3, "app": []}`),
	}
	for name, body := range bodies {
		for _, path := range []string{bidding.RhoPath, bidding.BidPath} {
			if r := s.send(http.MethodPost, path, "Bearer "+s.secret, body); r.err != nil || r.status/100 != 4 {
				s.fail("rubbish", "%s with %s: status %d, %v; want 400", path, name, r.status, r.err)
			}
		}
	}
	if r := s.send(http.MethodGet, bidding.BidPath, "Bearer "+s.secret, nil); r.err != nil || r.status/100 != 4 && r.status != http.StatusNotImplemented {
		s.fail("rubbish", "GET %s: status %d, %v; want 405", bidding.BidPath, r.status, r.err)
	}
	if r := s.post("/v1/none", s.query()); r.err != nil || r.status != http.StatusNotFound {
		s.fail("rubbish", "a path that is none: status %d, %v; want 404", r.status, r.err)
	}
	s.good("rho after rubbish", s.post(bidding.RhoPath, s.query()))
}

// later: a later daemon may say more than an agent knows.
func (s *suite) later() {
	body, _ := json.Marshal(s.query())
	more := append([]byte(`{"mood": {"of": ["the", "day"]}, `), body[1:]...)
	s.good("rho with a field of a later version", s.send(http.MethodPost, bidding.RhoPath, "Bearer "+s.secret, more))
}

// win: news may come twice.
func (s *suite) win() {
	w := bidding.Win{Round: s.next(), Now: time.Now().UTC(), App: "check", Lease: 600, Jobs: []bidding.JobGrant{
		{Job: "check-1", GPUs: []bidding.Share{{Node: "node-0", GPUs: 2}}, Until: time.Now().Add(10 * time.Minute).UTC()},
	}}
	lost := w
	lost.Jobs = []bidding.JobGrant{}
	for name, news := range map[string]bidding.Win{"a win": w, "the same again": w, "a loss": lost} {
		r := s.post(bidding.WinPath, news)
		if r.err != nil || r.status != http.StatusOK && r.status != http.StatusNoContent || r.took > s.deadline {
			s.fail("win", "%s: status %d, %v, after %s; want 200 or 204 within %s", name, r.status, r.err, r.took.Round(time.Millisecond), s.deadline)
		}
	}
}

// together: several questions at the same time, as after a restart of the daemon.
func (s *suite) together() {
	const questions = 8
	replies := make([]reply, questions)
	queries := make([]bidding.RhoQuery, questions)
	for i := range queries {
		queries[i] = s.query()
	}
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = s.post(bidding.RhoPath, queries[i]) })
	}
	wg.Wait()
	for i, r := range replies {
		if !s.good(fmt.Sprintf("question %d of %d at the same time", i+1, questions), r) {
			return
		}
	}
}
