// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/bidding"
	"github.com/fairway-gpu/fairway/daemon/bidding/biddertest"
	"github.com/fairway-gpu/fairway/sched"
)

const secret = "a secret of the test"

var dawn = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// desk is a state store in memory.
type desk struct {
	t       *testing.T
	mu      sync.Mutex
	state   *sched.State
	now     time.Time
	bidders []api.BidderAddress
	kept    map[sched.AppID]*sched.Bid
	writes  map[sched.AppID]int
	why     map[sched.AppID]string
	moved   chan struct{}
}

func newDesk(t *testing.T, nodes ...sched.Node) *desk {
	t.Helper()
	cluster, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{
		t: t, state: sched.NewState(cluster), now: dawn, moved: make(chan struct{}),
		kept: map[sched.AppID]*sched.Bid{}, writes: map[sched.AppID]int{}, why: map[sched.AppID]string{},
	}
}

func (d *desk) apply(e sched.Event) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	e.At = d.now
	if err := d.state.Apply(e); err != nil {
		d.t.Fatal(err)
	}
	close(d.moved)
	d.moved = make(chan struct{})
}

func (d *desk) submit(id string, gpus int) {
	d.t.Helper()
	d.apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: sched.JobID(id), App: sched.AppID(id), GPUs: gpus, Submitted: d.now}})
}

// bidder submits a job and lets an address bid for it.
func (d *desk) bidder(id string, gpus int, url string) {
	d.t.Helper()
	d.mu.Lock()
	d.bidders = append(d.bidders, api.BidderAddress{App: sched.AppID(id), URL: url, Secret: secret})
	d.mu.Unlock()
	d.submit(id, gpus)
}

func (d *desk) Look() *sched.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Frozen(d.now)
}

func (d *desk) Bidders() []api.BidderAddress {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]api.BidderAddress(nil), d.bidders...)
}

func (d *desk) SetBid(_ context.Context, app sched.AppID, bid *sched.Bid, why string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[app], d.why[app] = bid, why
	d.writes[app]++
	return nil
}

func (d *desk) Moved() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.moved
}

// bid returns what was kept of an app.
func (d *desk) bid(app string) *sched.Bid {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[sched.AppID(app)]
}

const lease = 10 * time.Minute

// ample is a deadline for agents that answer: a busy machine may stop for seconds.
const ample = 30 * time.Second

// eventually waits until a condition holds, and says whether it does.
func eventually(ok func() bool) bool {
	for end := time.Now().Add(ample); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// exchange makes an exchange over the desk. Where an agent hangs, the test sets a
// shorter deadline.
func (d *desk) exchange(edit ...func(*bidding.Config)) *bidding.Exchange {
	c := bidding.Config{
		State: d, Lease: func() (time.Duration, bool) { return lease, true }, Deadline: ample, Every: time.Hour,
	}
	for _, e := range edit {
		e(&c)
	}
	if c.Dial == nil {
		c.Dial = func(b api.BidderAddress) (bidding.Agent, error) {
			return bidding.NewHTTPAgent(b.URL, bidding.HTTPOptions{Secret: b.Secret, Deadline: c.Deadline})
		}
	}
	return bidding.New(c)
}

func node(i, gpus int) sched.Node {
	return sched.Node{Name: fmt.Sprintf("n%d", i), Rack: fmt.Sprintf("r%d", i/2), GPUs: gpus, Type: "h200"}
}

// serve returns the address of a handler.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func good() *biddertest.Reference { return &biddertest.Reference{Work: 360_000, Spread: 0.05} }

// says answers rho well, and an offer with a text.
func says(kind, text string) http.Handler {
	inner := bidding.Serve(good(), secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != bidding.BidPath {
			inner.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = fmt.Fprint(w, text)
	})
}

// nobody is an agent that says as little as it may.
type nobody struct{}

func (nobody) Rho(context.Context, bidding.RhoQuery) (bidding.RhoReply, error) {
	return bidding.RhoReply{Rho: 1}, nil
}

func (nobody) Bid(_ context.Context, o bidding.Offer) (bidding.BidTable, error) {
	return bidding.BidTable{Round: o.Round, Rows: []bidding.Row{{Rho: 1}}}, nil
}

func (nobody) Win(context.Context, bidding.Win) error { return nil }
