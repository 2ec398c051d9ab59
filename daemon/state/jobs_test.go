// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func TestSubmit(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("My Run_1!", 2))
	if want := sched.JobID("my-run-1-1"); id != want {
		t.Errorf("id %q; want %q", id, want)
	}
	got := d.job(id)
	if got.Tenant != "blue" || got.User != "ann" || got.State != api.Waiting || got.GPUs != 2 || !got.Submitted.Equal(d.clock.Now()) {
		t.Errorf("job %+v; want ann's, of blue, waiting, submitted now", got)
	}
	if got.Reason == nil || got.Reason.Code != "new" {
		t.Errorf("reason %+v; want code new", got.Reason)
	}
	select {
	case <-d.Changed():
	default:
		t.Error("Changed yields nothing after a submission")
	}
	d.decide(wants{id: on(1, 3)})
	for _, a := range d.Attempts() {
		if a.Owner != ann.Owner || a.GPUType != "h200" || len(a.Task.Command) != 2 {
			t.Errorf("attempt %+v; want ann's owner, type h200 and the command", a)
		}
	}
	d.wantRunning(map[string]string{"my-run-1-1.1": "1,3"})
	d.wantDurable()
}

func TestSubmitRefused(t *testing.T) {
	d := open(t, func(c *Config) { c.MaxQueue = 3 })
	with := func(edit func(*api.Submission)) api.Submission {
		s := submission("x", 1)
		edit(&s)
		return s
	}
	tests := []struct {
		name  string
		who   api.Identity
		list  []api.Submission
		code  api.Code
		field string
	}{
		{"viewer", eve, []api.Submission{submission("x", 1)}, api.Denied, ""},
		{"nobody", api.Identity{}, []api.Submission{submission("x", 1)}, api.Denied, ""},
		{"none", ann, nil, api.Invalid, "jobs"},
		{"too many", ann, make([]api.Submission, api.MaxSubmit+1), api.Invalid, "jobs"},
		{"own id", ann, []api.Submission{with(func(s *api.Submission) { s.ID = "mine" })}, api.Invalid, "id"},
		{"other tenant", ann, []api.Submission{with(func(s *api.Submission) { s.Tenant = "red" })}, api.Denied, "tenant"},
		{"app with a slash", ann, []api.Submission{with(func(s *api.Submission) { s.App = "red/x" })}, api.Invalid, "app"},
		{"no command", ann, []api.Submission{with(func(s *api.Submission) { s.Command = nil })}, api.Invalid, "command"},
		{"bad spec", ann, []api.Submission{with(func(s *api.Submission) { s.GPUs = -1 })}, api.Invalid, "gpus"},
		{"second of two", ann, []api.Submission{submission("x", 1), with(func(s *api.Submission) { s.Retries = -1 })}, api.Invalid, "jobs[1].retries"},
		{"queue full", ann, []api.Submission{submission("x", 1), submission("x", 1), submission("x", 1), submission("x", 1)}, api.TooMany, ""},
	}
	for _, test := range tests {
		_, err := d.Submit(t.Context(), test.who, test.list)
		wantCode(t, test.name, err, test.code)
		if e, ok := err.(*api.Error); ok && e.Field != test.field {
			t.Errorf("%s: field %q; want %q", test.name, e.Field, test.field)
		}
	}
	if page, _ := d.List(admin, api.JobFilter{}); page.Total != 0 {
		t.Errorf("%d jobs after refusals; want none", page.Total)
	}
}

func TestSubmitKey(t *testing.T) {
	d := open(t, func(c *Config) { c.MaxQueue = 9 })
	s := submission("x", 1)
	s.Key = "once"
	list := []api.Submission{s, s}
	jobs, err := d.Submit(t.Context(), ann, list)
	if err != nil {
		t.Fatal(err)
	}
	if jobs[0].ID != jobs[1].ID {
		t.Errorf("one key, jobs %s and %s; want one", jobs[0].ID, jobs[1].ID)
	}
	if other := d.submit(bob, s); other == jobs[0].ID {
		t.Error("the key of one tenant gave the job of another")
	}
	for range 7 {
		d.submit(admin, submission("filler", 1)) // the queue is full then
	}
	again, err := d.Submit(t.Context(), ann, list)
	if err != nil || again[0].ID != jobs[0].ID {
		t.Errorf("asked again on a full queue: %v, %v; want %s", again, err, jobs[0].ID)
	}
	d.command(jobs[0].ID, api.Cancel)
	if got := d.submit(ann, s); got != jobs[0].ID {
		t.Errorf("asked again after its end: %s; want %s", got, jobs[0].ID)
	}
	after := reopen(t, d.tape.copyTape(), d.clock)
	if got := after.submit(ann, s); got != jobs[0].ID {
		t.Errorf("asked again after a restart: %s; want %s", got, jobs[0].ID)
	}
}

func TestSubmitLeavesTheCallersList(t *testing.T) {
	d := open(t)
	s := submission("x", 1)
	s.App = "trial"
	list := []api.Submission{s}
	for range 2 {
		if _, err := d.Submit(t.Context(), ann, list); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]api.Submission{s}, list); diff != "" {
		t.Errorf("the caller's list has changed:\n%s", diff)
	}
}

func TestList(t *testing.T) {
	d := open(t)
	var all []sched.JobID
	for i := range 7 {
		who := []api.Identity{ann, bob}[i%2]
		s := submission(fmt.Sprint("run ", i), 1)
		s.App = "app"
		all = append(all, d.submit(who, s))
	}
	d.command(all[0], api.Cancel)
	d.command(all[2], api.Pause)
	ids := func(who api.Identity, f api.JobFilter) []sched.JobID {
		t.Helper()
		var out []sched.JobID
		for {
			p, err := d.List(who, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range p.Jobs {
				out = append(out, j.ID)
			}
			if p.Next == "" {
				return out
			}
			f.After = p.Next
		}
	}
	blue := []sched.JobID{all[6], all[4], all[2], all[0]}
	everybody := slices.Clone(all)
	slices.Reverse(everybody)
	tests := []struct {
		name string
		who  api.Identity
		f    api.JobFilter
		want []sched.JobID
	}{
		{"all, newest first", admin, api.JobFilter{}, everybody},
		{"in pages of 1", admin, api.JobFilter{Limit: 1}, everybody},
		{"in pages of 7", admin, api.JobFilter{Limit: 7}, everybody},
		{"in pages of 3", admin, api.JobFilter{Limit: 3}, everybody},
		{"own tenant", ann, api.JobFilter{Limit: 2}, blue},
		{"viewer", eve, api.JobFilter{}, blue},
		{"other tenant", ann, api.JobFilter{Tenant: "red"}, nil},
		{"tenant", admin, api.JobFilter{Tenant: "red"}, []sched.JobID{all[5], all[3], all[1]}},
		{"app by its short name", ann, api.JobFilter{App: "app"}, blue},
		{"app by its full name", admin, api.JobFilter{App: "blue/app"}, blue},
		{"user", admin, api.JobFilter{User: "bob"}, []sched.JobID{all[5], all[3], all[1]}},
		{"state", admin, api.JobFilter{States: []string{api.Cancelled, api.Paused}}, []sched.JobID{all[2], all[0]}},
		{"search", admin, api.JobFilter{Search: "run-3"}, []sched.JobID{all[3]}},
		{"search in the name", admin, api.JobFilter{Search: "run 3"}, []sched.JobID{all[3]}},
		{"oldest first", admin, api.JobFilter{Sort: "submitted", Limit: 2}, all},
		{"newest first", admin, api.JobFilter{Sort: "-submitted"}, everybody},
		{"by name, in pages", admin, api.JobFilter{Sort: "name", Limit: 3}, all},
		{"by user", admin, api.JobFilter{Sort: "-user", Limit: 2}, []sched.JobID{all[5], all[3], all[1], all[6], all[4], all[2], all[0]}},
		{"by state", admin, api.JobFilter{Sort: "state", States: []string{api.Cancelled, api.Paused}}, []sched.JobID{all[0], all[2]}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, ids(test.who, test.f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	for _, f := range []api.JobFilter{{Limit: -1}, {Limit: api.MaxPage + 1}, {After: "none"}, {Sort: "colour"}, {Sort: "--name"}} {
		_, err := d.List(admin, f)
		wantCode(t, fmt.Sprintf("%+v", f), err, api.Invalid)
	}
	_, err := d.List(ann, api.JobFilter{After: all[1]})
	wantCode(t, "after a job of another tenant", err, api.Invalid)
}

// TestListByUse: jobs are listed by the GPUs they have and by the GPU time they had.
func TestListByUse(t *testing.T) {
	d := open(t)
	a, b, c := d.submit(ann, submission("a", 1)), d.submit(ann, submission("b", 2)), d.submit(ann, submission("c", 1))
	d.decide(wants{a: on(0)})
	d.clock.add(time.Hour)
	d.decide(wants{a: on(0), b: on(1, 2)})
	d.clock.add(10 * time.Minute)
	for sort, want := range map[string][]sched.JobID{"-gpus": {b, c, a}, "-gpu_hours": {a, b, c}, "gpu_hours": {c, b, a}} {
		p, err := d.List(admin, api.JobFilter{Sort: sort})
		if err != nil || len(p.Jobs) != 3 || p.Jobs[0].ID != want[0] || p.Jobs[1].ID != want[1] || p.Jobs[2].ID != want[2] {
			t.Errorf("%s: %v, %v; want %v", sort, p.Jobs, err, want)
		}
	}
}

// TestOtherTenant asks every service of one job for what is another tenant's.
func TestOtherTenant(t *testing.T) {
	d := open(t)
	s := submission("secret", 1)
	s.App = "search"
	id := d.submit(ann, s)
	mine := d.submit(bob, submission("mine", 1))
	d.decide(wants{id: on(0)})
	// Something to tell: ann's job is preempted for bob's.
	d.clock.add(time.Second)
	d.decide(wants{mine: on(0)})
	calls := map[string]func(who api.Identity) error{
		"Job":     func(who api.Identity) error { _, err := d.Job(who, id); return err },
		"Explain": func(who api.Identity) error { _, err := d.Explain(who, id); return err },
		"Points":  func(who api.Identity) error { _, err := d.Points(who, id); return err },
		"Metrics": func(who api.Identity) error { _, err := d.Metrics(who, id, nil); return err },
		"CommandApp": func(who api.Identity) error {
			_, err := d.CommandApp(t.Context(), who, "blue/search", api.Pause)
			return err
		},
	}
	for _, c := range []api.Command{api.Cancel, api.Pause, api.Resume, "dance"} {
		calls["Command "+string(c)] = func(who api.Identity) error { _, err := d.Command(t.Context(), who, id, c); return err }
	}
	for name, call := range calls {
		wantCode(t, name, call(bob), api.Unknown)
		wantCode(t, name+" of nobody", call(api.Identity{Tenant: "blue"}), api.Unknown)
	}
	d.wantState(id, api.Stopping)
	for _, c := range []api.Command{api.Cancel, api.Pause, api.Resume} {
		_, err := d.Command(t.Context(), eve, id, c)
		wantCode(t, "viewer "+string(c), err, api.Denied)
	}
	// What bob can see at all must not name ann's job, app or tenant.
	page, _ := d.List(bob, api.JobFilter{})
	apps, _ := d.Apps(bob)
	tenants, _ := d.Tenants(bob)
	nodes, _ := d.Nodes(bob)
	records, _ := d.Records(bob, api.RecordFilter{})
	own, err := d.Explain(bob, mine)
	if err != nil {
		t.Fatal(err)
	}
	d.takeSample()
	history, _ := d.History(bob)
	overview, _ := d.Overview(bob)
	shown := fmt.Sprintf("%+v", decoded(t, []any{page, apps, tenants, nodes, records, own, history, overview}))
	for _, word := range []string{"secret", "search", "blue", "ann"} {
		if strings.Contains(shown, word) {
			t.Errorf("bob is shown %q: …%s…", word, around(shown, word))
		}
	}
	// And the price of ann's preemption does not name bob's.
	theirs, _ := d.Explain(ann, id)
	if shown := fmt.Sprintf("%+v", decoded(t, theirs)); strings.Contains(shown, "mine") || strings.Contains(shown, ":red") {
		t.Errorf("ann is shown bob's job: …%s…", around(shown, "mine"))
	}
}

func around(s, word string) string {
	i := max(0, strings.Index(s, word))
	return s[max(0, i-80):min(len(s), i+80)]
}

func TestAdminOnly(t *testing.T) {
	d := open(t)
	ctx := context.Background()
	calls := map[string]func(api.Identity) error{
		"SetNode": func(who api.Identity) error { _, err := d.SetNode(ctx, who, "box", sched.Cordoned); return err },
		"SetTenant": func(who api.Identity) error {
			_, err := d.SetTenant(ctx, who, sched.Tenant{ID: "blue", Weight: 9})
			return err
		},
		"SetPolicy": func(who api.Identity) error { _, err := d.SetPolicy(ctx, who, "las", false); return err },
		"Tokens":    func(who api.Identity) error { _, err := d.Tokens(who); return err },
		"CreateToken": func(who api.Identity) error {
			_, _, err := d.CreateToken(ctx, who, api.Token{User: "x", Role: api.Admin})
			return err
		},
		"RevokeToken": func(who api.Identity) error { return d.RevokeToken(ctx, who, "x") },
	}
	for name, call := range calls {
		for _, who := range []api.Identity{ann, eve, {}} {
			wantCode(t, fmt.Sprintf("%s as %s", name, who.Role), call(who), api.Denied)
		}
	}
}

func TestCommands(t *testing.T) {
	pending := func(*desk, sched.JobID) {}
	running := func(d *desk, id sched.JobID) {
		d.decide(wants{id: on(0)})
		d.Started(api.AttemptID{Job: id, Number: 1})
	}
	stopping := func(d *desk, id sched.JobID) { running(d, id); d.decide(wants{}) }
	paused := func(d *desk, id sched.JobID) { d.command(id, api.Pause) }
	halted := func(d *desk, id sched.JobID) { running(d, id); d.command(id, api.Pause) }
	finished := func(d *desk, id sched.JobID) { running(d, id); d.exited(exitOf(id, 1)) }
	killed := func(d *desk, id sched.JobID) { d.command(id, api.Cancel) }
	tests := []struct {
		name    string
		setup   func(*desk, sched.JobID)
		command api.Command
		want    string
		code    api.Code
	}{
		{"pending", pending, api.Cancel, api.Cancelled, ""},
		{"pending", pending, api.Pause, api.Paused, ""},
		{"pending", pending, api.Resume, api.Waiting, ""},
		{"running", running, api.Cancel, api.Cancelled, ""},
		{"running", running, api.Pause, api.Stopping, ""},
		{"running", running, api.Resume, api.Running, ""},
		{"stopping", stopping, api.Cancel, api.Cancelled, ""},
		{"stopping", stopping, api.Pause, api.Stopping, ""},
		{"stopping", stopping, api.Resume, api.Stopping, ""},
		{"paused", paused, api.Cancel, api.Cancelled, ""},
		{"paused", paused, api.Pause, api.Paused, ""},
		{"paused", paused, api.Resume, api.Waiting, ""},
		{"halted", halted, api.Resume, api.Stopping, ""},
		{"finished", finished, api.Cancel, api.Finished, api.Conflict},
		{"finished", finished, api.Pause, api.Finished, api.Conflict},
		{"finished", finished, api.Resume, api.Finished, api.Conflict},
		{"killed", killed, api.Cancel, api.Cancelled, ""},
		{"killed", killed, api.Pause, api.Cancelled, api.Conflict},
		{"pending", pending, "dance", api.Waiting, api.Invalid},
	}
	for _, test := range tests {
		t.Run(test.name+" "+string(test.command), func(t *testing.T) {
			d := open(t)
			id := d.submit(ann, submission("x", 1))
			test.setup(d, id)
			_, err := d.Command(t.Context(), ann, id, test.command)
			if test.code != "" {
				wantCode(t, "command", err, test.code)
			} else if err != nil {
				t.Fatal(err)
			}
			d.wantState(id, test.want)
			if test.want != api.Running {
				d.wantRunning(map[string]string{})
			}
			d.wantDurable()
		})
	}
}

// TestPauseHolds: a paused job is not started, and keeps that over a restart.
func TestPauseHolds(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("x", 1))
	nobody := api.Identity{Role: api.Admin} // no user name: still paused
	if _, err := d.Command(t.Context(), nobody, id, api.Pause); err != nil {
		t.Fatal(err)
	}
	d.clock.add(1000 * time.Hour)
	p, _ := d.InForce()
	d.decide(p)
	d.wantState(id, api.Paused)
	after := reopen(t, d.tape.copyTape(), d.clock)
	after.wantState(id, api.Paused)
	after.command(id, api.Resume)
	p, _ = after.InForce()
	after.decide(p)
	after.wantState(id, api.Starting)
}

func TestApp(t *testing.T) {
	d := open(t)
	s := submission("x", 1)
	s.App = "search"
	a, b, other := d.submit(ann, s), d.submit(ann, s), d.submit(bob, s)
	jobs, err := d.CommandApp(t.Context(), ann, "search", api.Cancel)
	if err != nil || len(jobs) != 2 {
		t.Fatalf("CommandApp = %d jobs, %v; want 2", len(jobs), err)
	}
	d.wantState(a, api.Cancelled)
	d.wantState(b, api.Cancelled)
	d.wantState(other, api.Waiting)
	_, err = d.CommandApp(t.Context(), ann, "search", api.Cancel)
	wantCode(t, "an app without active jobs", err, api.Unknown)
	_, err = d.CommandApp(t.Context(), api.Identity{User: "v", Tenant: "red", Role: api.Viewer}, "search", api.Cancel)
	wantCode(t, "viewer", err, api.Denied)
	apps, _ := d.Apps(ann)
	if len(apps) != 1 || apps[0].Killed != 2 || apps[0].Jobs != 2 {
		t.Errorf("apps %+v; want one with two killed jobs", apps)
	}
}
