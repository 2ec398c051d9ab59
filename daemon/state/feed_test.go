// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestWatch: every record once, in order, from where one asks, with restarts of
// the memory in between.
func TestWatch(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	watch := func(who api.Identity, f api.RecordFilter, n int) <-chan []api.Record {
		out := make(chan []api.Record, 1)
		enough := errors.New("enough")
		go func() {
			var got []api.Record
			_ = d.Watch(ctx, who, f, func(r api.Record) error {
				if got = append(got, r); len(got) == n {
					return enough
				}
				return nil
			})
			out <- got
		}()
		return out
	}
	const jobs = 600 // more than one batch of the watcher
	all := watch(admin, api.RecordFilter{}, jobs+2)
	tail := watch(admin, api.RecordFilter{After: 2}, jobs)
	blue := watch(ann, api.RecordFilter{Kind: "job-submitted"}, 1+jobs/2)
	for i := range jobs {
		d.submit([]api.Identity{ann, bob}[i%2], submission("y", 1))
		if i == jobs/2 { // the memory is read again from the journal
			d.tape.setFail(errDisk)
			_, err := d.Submit(ctx, ann, []api.Submission{submission("ghost", 1)})
			wantCode(t, "Submit", err, api.Unavailable)
			d.tape.setFail(nil)
		}
	}
	for name, test := range map[string]struct {
		got   []api.Record
		first uint64
		want  int
	}{
		"all": {<-all, 1, jobs + 2}, "after 2": {<-tail, 3, jobs},
	} {
		if len(test.got) != test.want {
			t.Errorf("%s: %d records; want %d", name, len(test.got), test.want)
		}
		for i, r := range test.got {
			if r.Seq != test.first+uint64(i) {
				t.Fatalf("%s: record %d has number %d; want %d", name, i, r.Seq, test.first+uint64(i))
			}
		}
	}
	last := uint64(0)
	for _, r := range <-blue {
		if r.Seq <= last || r.Event.Spec.Tenant != "blue" || strings.HasPrefix(string(r.Event.Spec.ID), "ghost") {
			t.Errorf("ann sees record %d of %s after %d", r.Seq, r.Event.Spec.Tenant, last)
		}
		last = r.Seq
	}
	stop()
}

func TestRecords(t *testing.T) {
	d := open(t)
	for range 10 {
		d.submit(ann, submission("x", 1))
		d.submit(bob, submission("y", 1))
	}
	d.command("x-1", api.Cancel)
	var got []uint64
	f := api.RecordFilter{Limit: 3}
	for {
		page, err := d.Records(ann, f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) == 0 {
			break
		}
		for _, r := range page.Records {
			if r.Kind() == "job-submitted" {
				got = append(got, r.Seq)
			}
		}
		f.After = page.Next
	}
	if len(got) != 10 {
		t.Errorf("ann sees %d of her submissions in pages; want 10", len(got))
	}
	page, _ := d.Records(admin, api.RecordFilter{Job: "x-1"})
	if len(page.Records) != 2 || page.Records[1].Kind() != "job-ended" {
		t.Errorf("records of x-1: %+v; want its submission and its end", page.Records)
	}
	if page, _ := d.Records(bob, api.RecordFilter{Job: "x-1"}); len(page.Records) != 0 {
		t.Errorf("bob sees %+v of ann's job", page.Records)
	}
	if page, err := d.Records(admin, api.RecordFilter{After: 1 << 60}); err != nil || len(page.Records) != 0 {
		t.Errorf("after the end of time: %+v, %v; want none", page.Records, err)
	}
	for _, limit := range []int{-1, api.MaxPage + 1} {
		_, err := d.Records(admin, api.RecordFilter{Limit: limit})
		wantCode(t, "limit", err, api.Invalid)
	}
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := reopen(t, d.tape.copyTape(), d.clock)
	after.submit(ann, submission("z", 1))
	page, _ = after.Records(admin, api.RecordFilter{})
	if len(page.Records) != 1 || page.Oldest != page.Records[0].Seq {
		t.Errorf("after a compaction and a restart: %d records, oldest %d; want the new one", len(page.Records), page.Oldest)
	}
}

func TestTokens(t *testing.T) {
	d := open(t)
	ctx := t.Context()
	token, secret, err := d.CreateToken(ctx, admin, api.Token{User: "ann", Tenant: "blue", Role: api.User, RunAs: "ann", ID: "mine", Revoked: true, Hash: []byte("x"), Expires: d.clock.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	who, err := d.Authenticate(secret)
	if err != nil || who.User != "ann" || who.Tenant != "blue" || who.Role != api.User || who.Owner.Name != "ann" {
		t.Errorf("Authenticate = %+v, %v; want ann of blue", who, err)
	}
	for name, s := range map[string]string{"empty": "", "cut": secret[:len(secret)-1], "more": secret + "A", "the id": token.ID, "of an attempt": d.secret("x", 1), "long": "fw_" + strings.Repeat("A", 1<<20)} {
		_, err := d.Authenticate(s)
		wantCode(t, name, err, api.Denied)
	}
	// Neither the secret nor its hash is shown, or the secret kept.
	hash := d.mem.Tokens[0].Hash
	list, _ := d.Tokens(admin)
	page, _ := d.Records(admin, api.RecordFilter{Kind: "token-set"})
	if len(page.Records) != 1 {
		t.Fatalf("%d records of tokens; want 1", len(page.Records))
	}
	shown, _ := json.Marshal([]any{token, list, page})
	for _, text := range []string{base64.StdEncoding.EncodeToString(hash), hex.EncodeToString(hash), secret} {
		if strings.Contains(string(shown), text) {
			t.Errorf("%q is shown: %s", text, shown)
		}
	}
	for _, r := range d.tape.records {
		if bytes.Contains(r, []byte(secret)) {
			t.Error("the secret is in the journal")
		}
	}
	if page, _ := d.Records(ann, api.RecordFilter{Kind: "token-set"}); len(page.Records) != 0 {
		t.Error("a user sees tokens in the feed")
	}
	after := reopen(t, d.tape.copyTape(), d.clock)
	if _, err := after.Authenticate(secret); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	d.clock.add(2 * time.Hour)
	_, err = d.Authenticate(secret)
	wantCode(t, "expired", err, api.Denied)
	_, other, _ := d.CreateToken(ctx, admin, api.Token{User: "bob", Role: api.Viewer})
	list, _ = d.Tokens(admin)
	if err := d.RevokeToken(ctx, admin, list[1].ID); err != nil {
		t.Fatal(err)
	}
	_, err = d.Authenticate(other)
	wantCode(t, "revoked", err, api.Denied)
	wantCode(t, "revoke nothing", d.RevokeToken(ctx, admin, "none"), api.Unknown)
	for name, bad := range map[string]api.Token{"no role": {User: "x"}, "no user": {Role: api.User}, "past": {User: "x", Role: api.User, Expires: d.clock.Now()}, "slash": {User: "x", Role: api.User, Tenant: "a/b"}} {
		_, _, err := d.CreateToken(ctx, admin, bad)
		wantCode(t, name, err, api.Invalid)
	}
	d.wantDurable()
}

func TestSetPolicy(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	change, err := d.SetPolicy(t.Context(), admin, "las", true)
	if err != nil || change.From != "fifo" || change.To != "las" || change.Starts != 1 || len(change.Actions) != 1 {
		t.Errorf("dry run = %+v, %v; want one start, from fifo to las", change, err)
	}
	if spec, _ := d.Policy(ann); spec != "fifo" {
		t.Errorf("the policy is %s after a dry run; want fifo", spec)
	}
	for _, spec := range []string{"", "none", "optimus", "las:x=1"} {
		_, err := d.SetPolicy(t.Context(), admin, spec, false)
		wantCode(t, spec, err, api.Invalid)
	}
	if _, err := d.SetPolicy(t.Context(), admin, "las", false); err != nil {
		t.Fatal(err)
	}
	if _, spec := reopen(t, d.tape.copyTape(), d.clock).InForce(); spec != "las" {
		t.Errorf("the policy is %s after a restart; want las", spec)
	}
	d.wantRunning(map[string]string{}) // only the loop starts jobs
	if view, err := d.SetTenant(t.Context(), admin, sched.Tenant{ID: "blue", Max: 1}); err != nil || view.Waiting != 1 {
		t.Errorf("SetTenant = %+v, %v; want blue with one waiting job", view, err)
	}
	_, err = d.SetTenant(t.Context(), admin, sched.Tenant{ID: "a/b"})
	wantCode(t, "tenant with a slash", err, api.Invalid)
	_, err = d.SetNode(t.Context(), admin, "none", sched.Ready)
	wantCode(t, "no such node", err, api.Unknown)
	_, err = d.SetNode(t.Context(), admin, "box", sched.Down)
	wantCode(t, "down by hand", err, api.Invalid)
}
