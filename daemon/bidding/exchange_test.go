// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/bidding"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/sched"
)

// echo answers an offer with rows made from it.
func echo(rows func(o bidding.Offer) string) http.Handler {
	inner := bidding.Serve(good(), secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != bidding.BidPath {
			inner.ServeHTTP(w, r)
			return
		}
		var o bidding.Offer
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			w.WriteHeader(400)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"round":%d,"rows":%s}`, o.Round, rows(o))
	})
}

func fixed(rows string) http.Handler { return echo(func(bidding.Offer) string { return rows }) }

// refusing returns an address that refuses connections until the test ends: its port is
// taken, so that no other server of the tests gets it, and nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// TestBadBidders: each kind of bad agent loses its own bid and no other.
func TestBadBidders(t *testing.T) {
	t.Parallel()
	silent := "http://" + refusing(t)
	const now = `{"take":[],"rho":2}`
	var hung atomic.Int32
	stuck := hanging()
	bad := map[string]struct {
		result string
		url    string
	}{
		"hanging": {"slow", serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hung.Add(1); stuck.ServeHTTP(w, r) }))},
		"silent":  {"silent", silent},
		"slow": {"slow", serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range time.Tick(20 * time.Millisecond) { // a byte now and then
				if _, err := w.Write([]byte(" ")); err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
			}
		}))},
		"huge": {"large", serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 4<<20))
		}))},
		"headers":       {"silent", serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }))},
		"redirect":      {"refused", serve(t, http.RedirectHandler(serve(t, bidding.Serve(good(), secret)), http.StatusTemporaryRedirect))},
		"unauthorized":  {"refused", serve(t, bidding.Serve(good(), "another secret"))},
		"error":         {"refused", serve(t, http.NotFoundHandler())},
		"text":          {"nonsense", serve(t, says("text/html", `{"round":1,"rows":[]}`))},
		"no json":       {"nonsense", serve(t, says("application/json", `hello`))},
		"two objects":   {"nonsense", serve(t, fixed(`[`+now+`]} {"rows":[]`))},
		"unknown field": {"nonsense", serve(t, fixed(`[{"take":[],"rho":2,"mood":1}]`))},
		"NaN":           {"nonsense", serve(t, fixed(`[{"take":[],"rho":NaN}]`))},
		"Infinity":      {"nonsense", serve(t, fixed(`[{"take":[],"rho":Infinity}]`))},
		"1e999":         {"nonsense", serve(t, fixed(`[{"take":[],"rho":1e999}]`))},
		"too large":     {"nonsense", serve(t, fixed(`[{"take":[],"rho":1e300}]`))},
		"negative":      {"nonsense", serve(t, fixed(`[{"take":[],"rho":-1}]`))},
		"zero":          {"nonsense", serve(t, fixed(`[{"take":[],"rho":0}]`))},
		"no present":    {"nonsense", serve(t, fixed(`[{"take":[{"node":"n0","gpus":2}],"rho":1}]`))},
		"two presents":  {"nonsense", serve(t, fixed(`[`+now+`,`+now+`]`))},
		"no rows":       {"nonsense", serve(t, fixed(`[]`))},
		"greedy":        {"nonsense", serve(t, fixed(`[`+now+`,{"take":[{"node":"n0","gpus":6}],"rho":1}]`))},
		"overflow":      {"nonsense", serve(t, fixed(`[`+now+`,{"take":[{"node":"n0","gpus":9223372036854775806},{"node":"n1","gpus":4}],"rho":1}]`))},
		"less than one": {"nonsense", serve(t, fixed(`[`+now+`,{"take":[{"node":"n0","gpus":-2}],"rho":1}]`))},
		"half a GPU":    {"nonsense", serve(t, fixed(`[`+now+`,{"take":[{"node":"n0","gpus":0.5}],"rho":1}]`))},
		"unknown node":  {"nonsense", serve(t, fixed(`[`+now+`,{"take":[{"node":"n9","gpus":2}],"rho":1}]`))},
		"same node":     {"nonsense", serve(t, fixed(`[`+now+`,{"take":[{"node":"n0","gpus":1},{"node":"n0","gpus":1}],"rho":1}]`))},
		"half a gang":   {"nonsense", serve(t, fixed(`[`+now+`,{"take":[{"node":"n0","gpus":1}],"rho":1}]`))},
		"no demand":     {"nonsense", serve(t, fixed(`[`+now+`,{"take":[{"node":"n0","gpus":4}],"rho":1}]`))},
		"too many rows": {"nonsense", serve(t, fixed(`[`+now+strings.Repeat(`,{"take":[{"node":"n0","gpus":2}],"rho":1}`, bidding.MaxRows)+`]`))},
		"stale":         {"nonsense", serve(t, says("application/json", `{"round":7,"rows":[`+now+`]}`))},
		"rho only":      {"nonsense", serve(t, says("application/json", `{"rho":1}`))},
	}
	d := newDesk(t, node(0, 4), node(1, 4))
	for name, b := range bad {
		d.bidder(name, 2, b.url)
	}
	d.bidder("good", 2, serve(t, bidding.Serve(good(), secret)))
	d.bidder("also good", 4, serve(t, bidding.Serve(good(), secret)))
	var mu sync.Mutex
	results := map[string]int{}
	var log bytes.Buffer
	const patience = 8 * time.Second // the machine of the test may be busy
	x := d.exchange(func(c *bidding.Config) {
		c.Deadline = patience
		c.Observe = func(r string) { mu.Lock(); defer mu.Unlock(); results[r]++ }
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	begin := time.Now()
	x.Refresh(t.Context())
	if took := time.Since(begin); took >= 3*patience { // one after the other, the three slow ones take as long
		t.Errorf("the round took %s; want %s at most and a little", took, 2*patience)
	}
	want := map[string]int{"ok": 2}
	for name, b := range bad {
		want[b.result]++
		if got := d.bid(name); got != nil {
			t.Errorf("%s: bid %+v was kept", name, got)
		}
		line := ""
		for l := range strings.SplitSeq(log.String(), "\n") {
			if strings.Contains(l, "app="+name+" ") || strings.Contains(l, fmt.Sprintf("app=%q ", name)) {
				line = l
			}
		}
		if !strings.Contains(line, "reason="+b.result) {
			t.Errorf("%s: the log says %q; want reason=%s", name, line, b.result)
		}
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	for _, name := range []string{"good", "also good"} {
		if b := d.bid(name); b == nil || len(b.Rows) != 1 || b.Rho <= b.Rows[0].Rho {
			t.Errorf("%s: bid %+v; want a row with a gang", name, b)
		}
	}
	// Who failed is left alone for a while: nobody waits for it again.
	const pause = 2 * time.Second // the first of an agent; it begins when its question has taken too long
	x.Refresh(t.Context())
	if took := time.Since(begin); hung.Load() != 1 && took < patience+pause {
		t.Errorf("the hanging agent was asked %d times in %s; want once", hung.Load(), took)
	}
}

// hanging takes a question and never answers. A server sees that the other side
// has gone only after it has read all of the question.
func hanging() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
}

// zeros is a stream without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// counting counts the questions that an agent gets.
type counting struct {
	bidding.Agent
	rhos, bids atomic.Int32
	last       atomic.Pointer[bidding.Offer]
}

func (c *counting) Rho(ctx context.Context, q bidding.RhoQuery) (bidding.RhoReply, error) {
	c.rhos.Add(1)
	return c.Agent.Rho(ctx, q)
}

func (c *counting) Bid(ctx context.Context, o bidding.Offer) (bidding.BidTable, error) {
	c.bids.Add(1)
	c.last.Store(&o)
	return c.Agent.Bid(ctx, o)
}

// TestWhoIsAskedWhen: an agent is asked when its choice has changed, and not
// because the clock has moved on a little.
func TestWhoIsAskedWhen(t *testing.T) {
	d := newDesk(t, node(0, 4), node(1, 4))
	a := &counting{Agent: good()}
	d.bidder("a", 4, "http://127.0.0.1:1")
	auction := true
	x := d.exchange(func(c *bidding.Config) {
		c.Dial = func(api.BidderAddress) (bidding.Agent, error) { return a, nil }
		c.Lease = func() (time.Duration, bool) { return lease, auction }
	})
	step := func(name string, rhos, bids int32) {
		t.Helper()
		x.Refresh(t.Context())
		if a.rhos.Load() != rhos || a.bids.Load() != bids {
			t.Errorf("%s: asked %d and %d times; want %d and %d", name, a.rhos.Load(), a.bids.Load(), rhos, bids)
		}
	}
	step("begin", 1, 1)
	o := a.last.Load()
	if len(o.Free) != 2 || o.Gang != 4 || o.Demand != 4 || o.Lease != 600 || o.Deadline != ample.Milliseconds() || o.Free[1] != (bidding.Free{Node: "n1", Rack: "r0", Type: "h200", GPUs: 4}) {
		t.Errorf("offer %+v", o)
	}
	step("nothing new", 1, 1)
	d.submit("b", 2)
	step("another app that waits", 1, 1)
	d.apply(sched.Event{Kind: sched.JobStarted, Job: "b", Placement: sched.Placement{{Node: 0, Milli: 1000, GPUs: 3}}})
	step("fewer GPUs are free", 2, 2)
	d.apply(sched.Event{Kind: sched.JobStarted, Job: "a", Placement: sched.Placement{{Node: 1, Milli: 1000, GPUs: 15}}})
	step("it has all it needs: nothing to bid for", 3, 2)
	if b := d.bid("a"); b == nil || len(b.Rows) != 0 || b.Rho <= 0 {
		t.Errorf("bid %+v; want one that takes nothing", b)
	}
	d.mu.Lock()
	d.now = d.now.Add(lease)
	d.mu.Unlock()
	step("leases are over", 4, 3)
	if o := a.last.Load(); len(o.App.Holds) != 0 || o.Free[0].GPUs != 4 || o.Free[1].GPUs != 4 || o.Demand != 4 {
		t.Errorf("offer %+v; want its own GPUs and those of the other for sale", o)
	}
	auction = false
	step("another policy", 4, 3)
	auction = true
	d.mu.Lock()
	d.bidders[0].URL = "http://127.0.0.1:2"
	d.mu.Unlock()
	step("another address", 5, 4)
}

// TestOffer: what is for sale to whom.
func TestOffer(t *testing.T) {
	other := node(2, 2)
	other.Type = "t4"
	cordoned := node(3, 8)
	cordoned.State = sched.Cordoned
	d := newDesk(t, node(0, 4), node(1, 4), other, cordoned)
	a := &counting{Agent: good()}
	d.bidders = []api.BidderAddress{{App: "app", URL: "http://127.0.0.1:1"}}
	for i, s := range []sched.Spec{
		{GPUs: 4, TaskGPUs: 2}, {GPUs: 6, TaskGPUs: 2}, {GPUs: 2, TaskGPUs: 2}, {GPUs: 1, NonPreemptible: true},
	} {
		s.ID, s.App, s.Submitted, s.GPUTypes = sched.JobID(fmt.Sprint("j", i)), "app", d.now, []sched.GPUType{"h200"}
		if s.NonPreemptible {
			s.App = "other"
		}
		d.apply(sched.Event{Kind: sched.JobSubmitted, Spec: &s})
	}
	d.apply(sched.Event{Kind: sched.JobStarted, Job: "j3", Placement: sched.Placement{{Node: 1, Milli: 1000, GPUs: 1}}})
	d.mu.Lock()
	d.now = d.now.Add(lease)
	d.mu.Unlock()
	d.apply(sched.Event{Kind: sched.JobStarted, Job: "j2", Placement: sched.Placement{{Node: 0, Milli: 1000, GPUs: 3}}})
	x := d.exchange(func(c *bidding.Config) {
		c.Dial = func(api.BidderAddress) (bidding.Agent, error) { return a, nil }
	})
	x.Refresh(t.Context())
	o := *a.last.Load()
	o.Round, o.Deadline = 0, 0
	want := bidding.Offer{
		Now: d.now, Gang: 2, Task: 2, Demand: 10, Lease: 600,
		App: bidding.App{ID: "app", Submitted: dawn, Contention: 2, Apps: 2, ClusterGPUs: 18, Holds: []bidding.Share{{Node: "n0", GPUs: 2}}},
		// n2 is of a type that no job takes, n3 takes no work, n1 has a job that stays.
		Free: []bidding.Free{{Node: "n0", Rack: "r0", Type: "h200", GPUs: 2}, {Node: "n1", Rack: "r0", Type: "h200", GPUs: 3}},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("offer (-want +got):\n%s", diff)
	}
	b := d.bid("app")
	if b == nil || len(b.Rows) != 2 || b.Rows[1].Take[0].Node == b.Rows[1].Take[1].Node {
		t.Fatalf("bid %+v", b)
	}
	if len(b.Rows[1].Take) != 2 || b.Rows[1].Take[0] != (sched.BidShare{Node: 0, GPUs: 2}) && b.Rows[1].Take[0] != (sched.BidShare{Node: 1, GPUs: 2}) {
		t.Errorf("rows %+v; want 2 GPUs of each node", b.Rows)
	}
}

// TestMoreThanFit: with more agents than places the round still ends in time;
// who was not asked is not to blame and goes first.
func TestMoreThanFit(t *testing.T) {
	t.Parallel()
	const deadline = 2 * time.Second // the machine of the test may be busy
	d := newDesk(t, node(0, 4))
	for i := range 6 {
		d.bidder(fmt.Sprint("a", i), 1, serve(t, hanging()))
	}
	d.bidder("z", 1, serve(t, bidding.Serve(good(), secret)))
	var missed, slow atomic.Int32
	x := d.exchange(func(c *bidding.Config) {
		c.AtOnce, c.Deadline = 1, deadline
		c.Observe = func(r string) {
			switch r {
			case "missed":
				missed.Add(1)
			case "slow":
				slow.Add(1)
			}
		}
	})
	begin := time.Now()
	x.Refresh(t.Context())
	if took := time.Since(begin); took >= 6*deadline { // as all six take
		t.Errorf("the round took %s; want %s", took, 2*deadline)
	}
	if n := slow.Load() + missed.Load(); n != 7 || missed.Load() < 4 {
		t.Errorf("%d were slow, %d missed; want 7 in all and at least 4 missed", slow.Load(), missed.Load())
	}
	for i := 0; i < 5 && d.bid("z") == nil; i++ {
		x.Refresh(t.Context())
	}
	if d.bid("z") == nil {
		t.Error("the good one never had its turn")
	}
}

// TestNoLeak: after a round with every kind of trouble and the end of Run nothing
// is left running.
func TestNoLeak(t *testing.T) {
	d := newDesk(t, node(0, 4))
	d.bidder("hang", 1, serve(t, hanging()))
	d.bidder("good", 1, serve(t, bidding.Serve(good(), secret)))
	d.bidder("large", 1, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, io.LimitReader(zeros{}, 8<<20)) })))
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var slow atomic.Int32
	x := d.exchange(func(c *bidding.Config) {
		c.Every, c.Deadline = 20*time.Millisecond, time.Second
		c.Observe = func(r string) {
			if r == "slow" {
				slow.Add(1)
			}
		}
	})
	go func() { done <- x.Run(ctx) }()
	if !eventually(func() bool { return slow.Load() > 0 && d.bid("good") != nil }) {
		t.Errorf("bid of the good one: %v, slow ones: %d; want both", d.bid("good"), slow.Load())
	}
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("Run: %v", err)
	}
	if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
	}
}

// TestWins: an agent is told what its app holds when that changes, again if it
// did not listen, and not for ever.
func TestWins(t *testing.T) {
	t.Parallel()
	d := newDesk(t, node(0, 4))
	r := good()
	agent := &counting{Agent: r}
	d.bidder("a", 2, serve(t, bidding.Serve(agent, secret)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	x := d.exchange(func(c *bidding.Config) { c.Every = 50 * time.Millisecond })
	go func() { done <- x.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	until := func(n int) []bidding.Win {
		t.Helper()
		if !eventually(func() bool { return len(r.Wins()) >= n }) {
			t.Fatalf("%d wins were told; want %d", len(r.Wins()), n)
		}
		return r.Wins()
	}
	d.apply(sched.Event{Kind: sched.JobStarted, Job: "a", Placement: sched.Placement{{Node: 0, Milli: 1000, GPUs: 6}}})
	w := until(1)[0]
	want := bidding.Win{Round: w.Round, Now: dawn, App: "a", Lease: 600, Jobs: []bidding.JobGrant{
		{Job: "a", GPUs: []bidding.Share{{Node: "n0", GPUs: 2}}, Until: dawn.Add(lease)},
	}}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("win (-want +got):\n%s", diff)
	}
	d.apply(sched.Event{Kind: sched.JobStopped, Job: "a"})
	if w := until(2)[1]; len(w.Jobs) != 0 {
		t.Errorf("after the loss it was told %+v", w)
	}
	// Each round asks for a bid first and tells what was won after that.
	rounds := agent.bids.Load()
	if !eventually(func() bool { return agent.bids.Load() >= rounds+3 }) {
		t.Errorf("%d more rounds; want 3", agent.bids.Load()-rounds)
	}
	if n := len(r.Wins()); n != 2 {
		t.Errorf("%d wins were told; want 2", n)
	}
}

// backend counts snapshots.
type backend struct {
	loop.Backend
	state *desk
}

func (b backend) Snapshot(context.Context) (*sched.Snapshot, error) { return b.state.Look(), nil }

// TestGate: the bids are there before the snapshot is taken.
func TestGate(t *testing.T) {
	d := newDesk(t, node(0, 4))
	d.bidder("a", 2, serve(t, bidding.Serve(good(), secret)))
	g := d.exchange().Gate(backend{state: d})
	if _, err := g.Snapshot(t.Context()); err != nil || d.bid("a") == nil {
		t.Errorf("after Snapshot (%v) there is no bid", err)
	}
}

// TestGoAgentsAreCheckedToo: an agent that is no HTTPAgent is not trusted either.
func TestGoAgentsAreCheckedToo(t *testing.T) {
	d := newDesk(t, node(0, 4))
	d.bidder("rho", 1, "a")
	d.bidder("bid", 1, "b")
	x := d.exchange(func(c *bidding.Config) {
		c.Dial = func(b api.BidderAddress) (bidding.Agent, error) { return liar{good(), b.URL == "a"}, nil }
	})
	x.Refresh(t.Context())
	if d.bid("rho") != nil || d.bid("bid") != nil {
		t.Errorf("bids %v and %v were kept", d.bid("rho"), d.bid("bid"))
	}
}

type liar struct {
	bidding.Agent
	rho bool
}

func (l liar) Rho(ctx context.Context, q bidding.RhoQuery) (bidding.RhoReply, error) {
	if l.rho {
		return bidding.RhoReply{Rho: math.NaN()}, nil
	}
	return l.Agent.Rho(ctx, q)
}

func (l liar) Bid(ctx context.Context, o bidding.Offer) (bidding.BidTable, error) {
	t, err := l.Agent.Bid(ctx, o)
	t.Rows[0].Rho = math.Inf(1)
	return t, err
}
