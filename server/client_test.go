// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// use is one method of the client: what it asks, what the service must see and
// what must come back.
type use struct {
	name string
	ask  func(context.Context, *client.Client) (any, error)
	saw  string
	args []any
	want any
}

func uses() []use {
	shownToken := filled[api.Token]()
	shownToken.Hash = nil
	type made struct {
		Token  api.Token
		Secret string
	}
	sub := api.Submission{Spec: sched.Spec{GPUs: 2}, Task: api.Task{Command: []string{"true"}}, Key: "k"}
	inApp := sub
	inApp.App = "sweep"
	return []use{
		{"Overview", func(ctx context.Context, c *client.Client) (any, error) { return c.Overview(ctx) }, "Overview", nil, func() any { o := filled[api.Overview](); o.Seq, o.Version = 0, "test"; return o }()},
		{"Submit", func(ctx context.Context, c *client.Client) (any, error) { return c.Submit(ctx, sub) }, "Submit", []any{[]api.Submission{sub}}, filled[api.Job]()},
		{"SubmitApp", func(ctx context.Context, c *client.Client) (any, error) {
			return c.SubmitApp(ctx, "sweep", []api.Submission{sub})
		}, "Submit", []any{[]api.Submission{inApp}}, []api.Job{filled[api.Job]()}},
		{"Job", func(ctx context.Context, c *client.Client) (any, error) { return c.Job(ctx, "j 1%?") }, "Job", []any{sched.JobID("j 1%?")}, single()},
		{"Page", func(ctx context.Context, c *client.Client) (any, error) {
			return c.Page(ctx, api.JobFilter{States: []string{"running", "paused"}, Tenant: "t", App: "a", User: "u", Search: "ä &", After: "j9", Limit: 5, Fold: true})
		}, "List", []any{api.JobFilter{States: []string{"running", "paused"}, Tenant: "t", App: "a", User: "u", Search: "ä &", After: "j9", Limit: 5, Fold: true}},
			api.JobPage{Jobs: []api.Job{filled[api.Job]()}, Total: 1}},
		{"Command", func(ctx context.Context, c *client.Client) (any, error) { return c.Command(ctx, "j1", api.Pause) }, "Command", []any{sched.JobID("j1"), api.Pause}, filled[api.Job]()},
		{"CommandApp", func(ctx context.Context, c *client.Client) (any, error) {
			return c.CommandApp(ctx, "sweep", api.Cancel)
		}, "CommandApp", []any{sched.AppID("sweep"), api.Cancel}, []api.Job{filled[api.Job]()}},
		{"Apps", func(ctx context.Context, c *client.Client) (any, error) { return c.Apps(ctx) }, "Apps", nil, []api.AppView{filled[api.AppView]()}},
		{"Preview", func(ctx context.Context, c *client.Client) (any, error) {
			return c.Preview(ctx, api.Submission{Spec: sched.Spec{GPUs: 1}, Task: api.Task{Command: []string{"true"}}})
		}, "Preview", []any{api.Submission{Spec: sched.Spec{GPUs: 1}, Task: api.Task{Command: []string{"true"}}}}, filled[api.Preview]()},
		{"ReadJobs", func(ctx context.Context, c *client.Client) (any, error) { return c.ReadJobs(ctx, "a file") }, "", nil,
			[]api.Submission{{Spec: sched.Spec{GPUs: 2}, Task: api.Task{Name: "a file"}}}},
		{"Explain", func(ctx context.Context, c *client.Client) (any, error) { return c.Explain(ctx, "j1") }, "Explain", []any{sched.JobID("j1")}, filled[api.Explanation]()},
		{"Points", func(ctx context.Context, c *client.Client) (any, error) { return c.Points(ctx, "j1") }, "Points", []any{sched.JobID("j1")}, []api.Point{filled[api.Point]()}},
		{"JobMetrics", func(ctx context.Context, c *client.Client) (any, error) {
			return c.JobMetrics(ctx, "j1", "loss", "a b")
		}, "Metrics", []any{sched.JobID("j1"), []string{"loss", "a b"}}, filled[api.MetricList]()},
		{"Logs", func(ctx context.Context, c *client.Client) (any, error) {
			var b bytes.Buffer
			err := c.Logs(ctx, "j1", api.LogQuery{Attempt: 2, Rank: 1, Stream: "stderr", Tail: 9, Follow: true}, &b)
			return b.String(), err
		}, "CopyLog", []any{single().ID, api.LogQuery{Attempt: 2, Rank: 1, Stream: "stderr", Tail: 9, Follow: true}}, "epoch 1\nepoch 2\n"},
		{"LogFiles", func(ctx context.Context, c *client.Client) (any, error) { return c.LogFiles(ctx, "j1") }, "LogFiles", []any{single().ID}, []api.LogFile{filled[api.LogFile]()}},
		{"Usage", func(ctx context.Context, c *client.Client) (any, error) {
			return c.Usage(ctx, api.UsageQuery{By: "job", Since: time.Unix(1e9, 0).UTC()})
		}, "Usage", []any{api.UsageQuery{By: "job", Since: time.Unix(1e9, 0).UTC()}}, filled[api.Usage]()},
		{"Nodes", func(ctx context.Context, c *client.Client) (any, error) { return c.Nodes(ctx) }, "Nodes", nil, []api.Node{filled[api.Node]()}},
		{"SetNode", func(ctx context.Context, c *client.Client) (any, error) {
			return c.SetNode(ctx, "gpu-1", sched.Cordoned)
		}, "SetNode", []any{"gpu-1", sched.Cordoned}, filled[api.Node]()},
		{"Tenants", func(ctx context.Context, c *client.Client) (any, error) { return c.Tenants(ctx) }, "Tenants", nil, []api.TenantView{filled[api.TenantView]()}},
		{"AcknowledgeDamage", func(ctx context.Context, c *client.Client) (any, error) { return c.AcknowledgeDamage(ctx) }, "AcknowledgeDamage", nil, []api.Damage{filled[api.Damage]()}},
		{"SetTenant", func(ctx context.Context, c *client.Client) (any, error) {
			return c.SetTenant(ctx, sched.Tenant{ID: "nlp", Weight: 2, Quota: 4})
		}, "SetTenant", []any{sched.Tenant{ID: "nlp", Weight: 2, Quota: 4}}, filled[api.TenantView]()},
		{"Events", func(ctx context.Context, c *client.Client) (any, error) {
			return c.Events(ctx, api.RecordFilter{After: 1 << 60, Job: "j1", App: "a1", Kind: "job-started", Limit: 3})
		}, "Records", []any{api.RecordFilter{After: 1 << 60, Job: "j1", App: "a1", Kind: "job-started", Limit: 3}}, api.RecordPage{Records: []api.Record{}, Next: 7, Oldest: 1}},
		{"History", func(ctx context.Context, c *client.Client) (any, error) { return c.History(ctx) }, "History", nil, []api.Sample{filled[api.Sample]()}},
		{"Policy", func(ctx context.Context, c *client.Client) (any, error) { return c.Policy(ctx) }, "Policy", nil, "las"},
		{"SetPolicy", func(ctx context.Context, c *client.Client) (any, error) {
			return c.SetPolicy(ctx, "las:lease=9m", true)
		}, "SetPolicy", []any{"las:lease=9m", true}, filled[api.PolicyChange]()},
		{"Policies", func(ctx context.Context, c *client.Client) (any, error) { return c.Policies(ctx) }, "", nil, []api.PolicyEntry{filled[api.PolicyEntry]()}},
		{"Tokens", func(ctx context.Context, c *client.Client) (any, error) { return c.Tokens(ctx) }, "Tokens", nil, []api.Token{shownToken}},
		{"CreateToken", func(ctx context.Context, c *client.Client) (any, error) {
			t, secret, err := c.CreateToken(ctx, api.Token{User: "ann", Role: api.User})
			return made{t, secret}, err
		}, "CreateToken", []any{api.Token{User: "ann", Role: api.User}}, made{shownToken, "fw_new"}},
		{"RevokeToken", func(ctx context.Context, c *client.Client) (any, error) { return nil, c.RevokeToken(ctx, "t1") }, "RevokeToken", []any{"t1"}, nil},
		{"Report", func(ctx context.Context, c *client.Client) (any, error) {
			return c.Report(ctx, "attempt", api.AgentReport{Done: 5, Checkpoint: true})
		}, "Report", []any{"attempt", api.AgentReport{Done: 5, Checkpoint: true}}, filled[api.AgentAnswer]()},
		{"Health", func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Health(ctx) }, "", nil, nil},
		{"Ready", func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Ready(ctx) }, "", nil, nil},
	}
}

// TestClient sends every method of the client over every kind of listener.
func TestClient(t *testing.T) {
	f := newFake()
	r := start(t, config(f))
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	peer := api.Identity{User: me.Username, Tenant: "default", Role: api.Admin, Owner: api.Owner{Name: me.Username, UID: os.Getuid(), GID: os.Getgid()}}
	admin := api.Identity{User: "admin-1", Tenant: "vision", Role: api.Admin, Owner: api.Owner{UID: 1234}}
	for _, endpoint := range []struct {
		name, address, token string
		who                  api.Identity
	}{
		{"socket", r.socket, "", peer},
		{"socket with token", r.socket, "fw_admin", admin},
		{"plain", r.plain, "fw_admin", admin},
		{"secure", r.secure, "fw_admin", admin},
	} {
		c := r.client(t, endpoint.address, endpoint.token)
		who, err := c.Whoami(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", endpoint.name, err)
		}
		if want := (api.Identity{User: endpoint.who.User, Tenant: endpoint.who.Tenant, Role: endpoint.who.Role}); who != want {
			t.Errorf("%s: whoami = %+v; want %+v", endpoint.name, who, want)
		}
		for _, u := range uses() {
			got, err := u.ask(t.Context(), c)
			if err != nil {
				t.Errorf("%s: %s: %v", endpoint.name, u.name, err)
				continue
			}
			// The fake dates new jobs ahead, so that they are not taken for known.
			later := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Submitted" }, cmp.Ignore())
			if diff := cmp.Diff(u.want, got, later, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s: -want +got\n%s", endpoint.name, u.name, diff)
			}
			if u.saw == "" {
				continue
			}
			saw := f.last()
			if saw.method != u.saw || cmp.Diff(u.args, saw.args, cmpopts.EquateEmpty()) != "" {
				t.Errorf("%s: %s: the service saw %s %v; want %s %v", endpoint.name, u.name, saw.method, saw.args, u.saw, u.args)
			}
			if u.saw != "Report" && u.saw != "CopyLog" && u.saw != "LogFiles" && saw.who != endpoint.who {
				t.Errorf("%s: %s: asked as %+v; want %+v", endpoint.name, u.name, saw.who, endpoint.who)
			}
		}
	}
	if s := r.log.String(); s != "" {
		t.Errorf("the log has %s", s)
	}
}

func TestClientList(t *testing.T) {
	f := newFake()
	f.list = func(q api.JobFilter) (api.JobPage, error) {
		pages := map[sched.JobID]api.JobPage{
			"":   {Jobs: []api.Job{{Spec: sched.Spec{ID: "j3"}}, {Spec: sched.Spec{ID: "j2"}}}, Next: "j2", Total: 3},
			"j2": {Jobs: []api.Job{{Spec: sched.Spec{ID: "j1"}}}, Total: 3},
		}
		return pages[q.After], nil
	}
	r := start(t, config(f))
	c := r.client(t, r.socket, "")
	var got []sched.JobID
	for j, err := range c.List(t.Context(), api.JobFilter{Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, j.ID)
	}
	if diff := cmp.Diff([]sched.JobID{"j3", "j2", "j1"}, got); diff != "" {
		t.Error(diff)
	}
	for _, err := range c.List(t.Context(), api.JobFilter{Limit: api.MaxPage + 1}) {
		if api.CodeOf(err) != api.Invalid {
			t.Errorf("a page of %d: %v", api.MaxPage+1, err)
		}
	}
}

func TestClientErrors(t *testing.T) {
	f := newFake()
	r := start(t, config(f))
	c := r.client(t, r.plain, "fw_admin")
	for code, status := range statuses {
		want := &api.Error{Code: code, Message: "m", Field: "f", Remedy: "r"}
		f.set(func(f *fake) { f.err = want })
		_, err := c.Job(t.Context(), "j1")
		var got *api.Error
		if !errors.As(err, &got) || *got != *want {
			t.Errorf("%s: %#v", code, err)
		}
		if a := ask(t, "GET", r.plain+"/v1/jobs/j1", "", "Authorization", asViewer); a.status != status {
			t.Errorf("%s: status %d; want %d", code, a.status, status)
		}
	}
	f.set(func(f *fake) { f.err = errors.New("open /secret/path: no") })
	_, err := c.Job(t.Context(), "j1")
	if api.CodeOf(err) != api.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("an unexpected error shows as %v", err)
	}
	if !strings.Contains(r.log.String(), "/secret/path") {
		t.Errorf("the unexpected error is not in the log: %s", r.log)
	}
	if _, err := r.client(t, r.plain, "fw_wrong").Overview(t.Context()); api.CodeOf(err) != api.Denied {
		t.Errorf("a wrong token: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Overview(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	r.stop()
	for _, address := range []string{r.socket, r.plain, r.secure} {
		_, err := r.client(t, address, "").Overview(t.Context())
		if api.CodeOf(err) != api.Unavailable || !strings.Contains(err.Error(), "no daemon answers at "+address) || !strings.Contains(err.Error(), "fairway up") {
			t.Errorf("%s with no daemon: %v", address, err)
		}
	}
}

func TestIdempotent(t *testing.T) {
	f := newFake()
	now := time.Now()
	f.submit = func(s []api.Submission) ([]api.Job, error) {
		at := now
		if s[0].Key == "known" {
			at = now.Add(-time.Second)
		}
		out := make([]api.Job, len(s))
		for i := range out {
			out[i].Submitted = at
		}
		return out, nil
	}
	c := config(f)
	c.Now = func() time.Time { return now }
	r := start(t, c)
	for _, k := range []struct {
		path, body string
		want       int
	}{
		{"/v1/jobs", `{"command":["a"],"gpus":1,"key":"new"}`, 201},
		{"/v1/jobs", `{"command":["a"],"gpus":1,"key":"known"}`, 200},
		{"/v1/apps", `{"id":"a","jobs":[{"command":["a"],"gpus":1,"key":"new"}]}`, 201},
		{"/v1/apps", `{"id":"a","jobs":[{"command":["a"],"gpus":1,"key":"known"}]}`, 200},
	} {
		if a := ask(t, "POST", r.plain+k.path, k.body, "Authorization", asUser); a.status != k.want {
			t.Errorf("%s %s: %d %s; want %d", k.path, k.body, a.status, a.body, k.want)
		}
	}
}

func TestLogs(t *testing.T) {
	f := newFake()
	step := make(chan struct{})
	f.copyLog = func(ctx context.Context, q api.LogQuery, w io.Writer) error {
		switch q.Attempt {
		case 1:
			return api.Errorf(api.Unknown, "there is no attempt 1")
		case 2:
			io.WriteString(w, "half")
			return api.Errorf(api.Internal, "the disk is gone")
		case 3:
			return nil
		}
		io.WriteString(w, "one\n")
		<-step
		io.WriteString(w, "two\n")
		<-ctx.Done()
		return ctx.Err()
	}
	r := start(t, config(f))
	for _, address := range []string{r.plain, r.secure} {
		c := r.client(t, address, "fw_viewer")
		for _, k := range []struct {
			attempt int
			text    string
			code    api.Code
		}{{1, "", api.Unknown}, {2, "half", api.Internal}, {3, "", ""}} {
			var b strings.Builder
			err := c.Logs(t.Context(), "j1", api.LogQuery{Attempt: k.attempt}, &b)
			if b.String() != k.text || (err == nil) != (k.code == "") || (err != nil && api.CodeOf(err) != k.code) {
				t.Errorf("%s: attempt %d: %q, %v; want %q, %s", address, k.attempt, b.String(), err, k.text, k.code)
			}
		}
	}
	// Lines arrive while the log is followed, and the stream ends with the server.
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := r.client(t, r.plain, "fw_viewer").Logs(context.Background(), "j1", api.LogQuery{Follow: true}, pw)
		pw.Close()
		done <- err
	}()
	buf := make([]byte, 100)
	for _, want := range []string{"one\n", "two\n"} {
		n, err := pr.Read(buf)
		if string(buf[:n]) != want || err != nil {
			t.Fatalf("read %q, %v; want %q", buf[:n], err, want)
		}
		if want == "one\n" {
			close(step)
		}
	}
	r.stop()
	if err := <-done; err != nil {
		t.Errorf("a followed log ends with %v", err)
	}
	// The service of logs does not know who asks: the server looks at the job.
	f = newFake()
	f.job = func(api.Identity, sched.JobID) (api.Job, error) {
		return api.Job{}, api.Errorf(api.Unknown, "no such job")
	}
	r = start(t, config(f))
	err := r.client(t, r.plain, "fw_viewer").Logs(t.Context(), "j1", api.LogQuery{}, io.Discard)
	if api.CodeOf(err) != api.Unknown || f.last().method != "Job" {
		t.Errorf("the log of a job of others: %v, after %s", err, f.last().method)
	}
}

// TestReadJobs: what is wrong in a job file is said as it is; a server that cannot read
// them says so.
func TestReadJobs(t *testing.T) {
	r := start(t, config(newFake()))
	_, err := r.client(t, r.socket, "").ReadJobs(t.Context(), "gpu: 2")
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.Invalid || !strings.Contains(e.Message, "the job file:1: gpu") {
		t.Errorf("a file with a slip: %v; want an error that names the line", err)
	}
	c := config(newFake())
	c.ReadJobs = nil
	r = start(t, c)
	if _, err = r.client(t, r.socket, "").ReadJobs(t.Context(), "a file"); !errors.As(err, &e) || e.Code != api.Unavailable {
		t.Errorf("nobody reads files: %v; want unavailable", err)
	}
}
