// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/bidding"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/store"
)

// TestWithBook: over the real journal and the real policy, the bids of agents are
// in the snapshot that is decided on, a hanging one has none, and all jobs start.
func TestWithBook(t *testing.T) {
	t.Parallel()
	j, _, err := store.Open(store.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	hosts := hosts(t)
	b, err := state.Open(t.Context(), state.Config{
		Journal: j, Node: sched.Node{Name: "box", GPUs: 8, Type: "h200"}, Policies: policy.Builtin(), Standard: "themis",
		Key: bytes.Repeat([]byte("k"), 32), Now: time.Now, Log: slog.New(slog.DiscardHandler), CheckBidder: hosts.Check,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ann := api.Identity{User: "ann", Tenant: "blue", Role: api.User}
	for name, url := range map[sched.AppID]string{
		"good": serve(t, bidding.Serve(good(), secretWord)), "hanging": serve(t, hanging()), "plain": "",
	} {
		s := api.Submission{Spec: sched.Spec{GPUs: 2, App: name}, Task: api.Task{Name: string(name), Command: []string{"true"}}}
		if _, err := b.Submit(t.Context(), ann, []api.Submission{s}); err != nil {
			t.Fatal(err)
		}
		if url == "" {
			continue
		}
		if _, err := b.SetBidder(t.Context(), ann, name, api.BidderChange{URL: url, Secret: secretWord}); err != nil {
			t.Fatal(err)
		}
	}
	const deadline = 5 * time.Second // the machine of the test may be busy
	x := bidding.New(bidding.Config{
		State: b, Lease: func() (time.Duration, bool) { return lease, true }, Deadline: deadline,
		Dial: func(a api.BidderAddress) (bidding.Agent, error) {
			if a.Secret != secretWord {
				t.Errorf("secret %q", a.Secret)
			}
			return bidding.NewHTTPAgent(a.URL, bidding.HTTPOptions{Secret: a.Secret, Deadline: deadline, Hosts: hosts})
		},
	})
	begin := time.Now()
	s, err := x.Gate(b).Snapshot(t.Context())
	if err != nil || time.Since(begin) > 3*deadline { // the hanging one would keep it for ever
		t.Fatalf("Snapshot: %v after %s", err, time.Since(begin))
	}
	for app, want := range map[sched.AppID]bool{"blue/good": true, "blue/hanging": false, "blue/plain": false} {
		a, ok := s.App(app)
		if !ok || (a.Bid != nil) != want {
			t.Errorf("%s: bid %+v; want one: %v", app, a.Bid, want)
		}
		if want && (len(a.Bid.Rows) != 1 || a.Bid.Rows[0].Take[0] != (sched.BidShare{Node: 0, GPUs: 2})) {
			t.Errorf("%s: bid %+v", app, a.Bid)
		}
	}
	p, _ := b.InForce()
	actions, _, err := sched.Decide(p, s)
	if err != nil || len(actions) != 3 {
		t.Errorf("%d jobs start, %v; want all 3", len(actions), err)
	}
}

const secretWord = "a-secret-of-the-test"
