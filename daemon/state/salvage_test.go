// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// cut damages a tape: it loses some records, and those behind them are found.
func (j *tape) cut(from, to int) (found [][]byte) {
	for _, p := range j.records[to:] {
		found = append(found, bytes.Clone(p))
	}
	j.records = j.records[:from]
	return found
}

// TestSalvage: what stands behind damage comes back, as far as it makes sense.
func TestSalvage(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	first := d.submit(ann, submission("first", 1))
	before := len(d.tape.records)
	lost := d.submit(ann, submission("lost", 1))
	after := len(d.tape.records)
	s := submission("kept", 1)
	s.Key = "once"
	back := d.submit(ann, s)
	ran := d.submit(bob, submission("ran", 1))
	gone := d.submit(bob, submission("gone", 1))
	held := d.submit(bob, submission("held", 1))
	d.decide(wants{ran: on(2)})
	d.command(gone, api.Cancel)
	d.command(first, api.Cancel)
	d.command(lost, api.Cancel)
	d.command(held, api.Pause)
	token, secret, err := d.CreateToken(t.Context(), admin, api.Token{User: "ann", Role: api.User})
	if err != nil {
		t.Fatal(err)
	}
	epoch := d.mem.epoch()
	damaged := d.tape.copyTape()
	found := damaged.cut(before, after)
	found = append(found, []byte("not a record"))

	d = reopen(t, damaged, d.clock, func(c *Config) { c.Seen, c.Lost, c.Found = mark, "a bad page", found })
	for id, want := range map[sched.JobID]string{first: api.Cancelled, back: api.Waiting, ran: api.Waiting, gone: api.Cancelled, held: api.Paused} {
		d.wantState(id, want)
	}
	if _, err := d.Job(admin, lost); err == nil {
		t.Errorf("%s is back, but its record is lost", lost)
	}
	if who, err := d.Authenticate(secret); err != nil || who.User != token.User {
		t.Errorf("the token is gone: %v, %v", who, err)
	}
	if again := d.submit(ann, s); again != back {
		t.Errorf("the key of %s gives %s", back, again)
	}
	d.wantClaim(true, api.Attempt{AttemptID: api.AttemptID{Job: ran, Number: 1}, Epoch: epoch, Placement: on(2)})
	d.wantState(ran, api.Starting)
	if next := d.submit(ann, submission("x", 1)); next != "x-7" {
		t.Errorf("the next job is %s; want x-7", next)
	}
	o, _ := d.Overview(admin)
	for _, want := range []string{"missing", "a bad page", "4 jobs"} {
		if len(o.Damages) != 1 || !strings.Contains(o.Problem, want) {
			t.Errorf("problem %q, damages %v; want %q in one", o.Problem, o.Damages, want)
		}
	}
	d.wantDurable()

	// Brought back twice, because the daemon was killed in between: nothing changes.
	jobs := len(d.mem.jobs)
	d = reopen(t, d.tape, d.clock, func(c *Config) { c.Found = found })
	if len(d.mem.jobs) != jobs {
		t.Errorf("%d jobs after the second time; want %d", len(d.mem.jobs), jobs)
	}
	d.wantState(ran, api.Starting)
}

// TestCutOffWrite: a file that is damaged, but lacks nothing that was acknowledged,
// needs nobody's attention.
func TestCutOffWrite(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	d.submit(ann, submission("x", 1))
	first := d.mem.epoch()
	d = reopen(t, d.tape.copyTape(), d.clock, func(c *Config) { c.Seen, c.Lost = mark, "a bad meta page" })
	if o, _ := d.Overview(admin); o.Problem != "" {
		t.Errorf("problem %q; want none", o.Problem)
	}
	if d.mem.epoch() == first {
		t.Error("the epoch is the same")
	}
}

// TestSalvageSettings: the policy, cordons and searches come back too.
func TestSalvageSettings(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	before := len(d.tape.records)
	d.submit(ann, submission("lost", 1))
	after := len(d.tape.records)
	for _, p := range []string{"las", "srtf"} {
		if _, err := d.SetPolicy(t.Context(), admin, p, false); err != nil {
			t.Fatal(err)
		}
	}
	node := d.Node.Name
	first, second := d.startTrials()
	d.command(first, api.Cancel)
	if _, err := d.SetNode(t.Context(), admin, node, sched.Cordoned); err != nil {
		t.Fatal(err)
	}
	damaged := d.tape.copyTape()
	found := damaged.cut(before, after)

	d = reopen(t, damaged, d.clock, func(c *Config) { c.Seen, c.Lost, c.Found = mark, "a bad page", found })
	if p, _ := d.Policy(admin); p != "srtf" {
		t.Errorf("the policy is %s; want srtf", p)
	}
	if p, name := d.InForce(); name != "srtf" || p == nil {
		t.Errorf("the policy in force is %s; want srtf", name)
	}
	if nodes, _ := d.Nodes(admin); nodes[0].State != sched.Cordoned {
		t.Errorf("node %s is %v; want it cordoned", node, nodes[0].State)
	}
	s := d.search()
	if s.Over() || len(s.Trials) != 2 || s.Trials[0].State != api.Cancelled || s.Trials[1].Job != second {
		t.Errorf("the search is %+v; want two trials, the first cancelled", s)
	}
	o, _ := d.Overview(admin)
	for _, want := range []string{"1 search-submitted", "2 policy-set", "1 node-joined", "the policy is srtf again", "not brought back: 2 job-started"} {
		if !strings.Contains(o.Problem, want) {
			t.Errorf("problem %q; want %q in it", o.Problem, want)
		}
	}
	d.wantDurable()
}

// TestSalvageTornSearch: a search that has lost trials ends, and its jobs go on.
func TestSalvageTornSearch(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*api.Record) bool
	}{
		{"a proposal", func(r *api.Record) bool { return r.Search != nil && len(r.Search.Propose) == 2 }},
		{"the last proposal", func(r *api.Record) bool { return r.Search != nil && len(r.Search.Propose) > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t)
			before := len(d.tape.records)
			first, _ := d.startTrials()
			d.noteSearch(api.SearchRecord{ID: "blue/sweep", Propose: []api.Proposal{{Number: 2, Params: map[string]string{"x": "1"}}}})
			damaged := d.tape.copyTape()
			var found [][]byte
			for _, p := range damaged.cut(before, before) {
				var r api.Record
				if err := json.Unmarshal(p, &r); err != nil {
					t.Fatal(err)
				}
				if !c.lose(&r) {
					found = append(found, p)
				}
			}
			d = reopen(t, damaged, d.clock, func(c *Config) { c.Lost, c.Found = "a bad page", found })
			if s := d.search(); s.State != api.Failed {
				t.Errorf("the search is %s with %d trials; want it failed", s.State, len(s.Trials))
			}
			d.wantState(first, api.Waiting)
			if o, _ := d.Overview(admin); !strings.Contains(o.Problem, "lost trials of search blue/sweep") {
				t.Errorf("problem %q; want the search in it", o.Problem)
			}
			d.wantDurable()
		})
	}
}
