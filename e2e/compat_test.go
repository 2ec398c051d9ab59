// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/api/apitest"
)

// v01 holds what the programs of version 0.1 wrote: see its README.
const (
	v01          = "testdata/v0.1/"
	v01Exchanges = "../server/testdata/v0.1/exchanges.jsonl"
)

// exchange is a request of the client of version 0.1, and what the daemon answered.
type exchange struct {
	Method, Path      string
	Status            int
	Request, Response json.RawMessage
}

// send sends a recorded request to the daemon.
func (d *daemon) send(method, path string, body []byte, token string) (int, []byte) {
	d.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(d.data, "fairway.sock"))
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequest(method, "http://fairway"+path, bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if strings.Contains(path, "/stream") {
		return resp.StatusCode, nil
	}
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, out
}

// fairway runs a command and returns what it printed.
func fairway(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("fairway %v: %v\n%s", args, err, stderr.String())
	}
	return out
}

// TestV01Data: a daemon takes over a data folder of version 0.1, with a snapshot and
// records after it, and answers as the old daemon did.
func TestV01Data(t *testing.T) {
	t.Parallel()
	data := shortDir(t)
	if out, err := exec.Command("tar", "-xzf", v01+"data.tar.gz", "-C", data).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, out)
	}
	exported := fairway(t, nil, "journal", "export", "--full", "--data", data)
	old, err := os.ReadFile(v01 + "journal.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(old), "\n"), strings.Split(string(exported), "\n")
	if len(was) != len(is) {
		t.Fatalf("the journal has %d lines; version 0.1 exported %d", len(is), len(was))
	}
	for i := range len(was) - 1 {
		for _, l := range apitest.Lost([]byte(was[i]), []byte(is[i])) {
			t.Errorf("line %d of the export: %s", i+1, l)
		}
	}
	fairway(t, nil, "sim", "--journal", v01+"journal.jsonl", "--policy", "fifo,las", "--json")

	d := startDaemon(t, data, "--config", v01+"fairway.yaml")
	compared := 0
	for _, e := range apitest.Lines[exchange](t, v01Exchanges) {
		except, ok := v01Answers[e.Path]
		if e.Method != "GET" || !ok {
			continue
		}
		compared++
		status, now := d.send(e.Method, e.Path, nil, "")
		if status != e.Status {
			t.Errorf("GET %s: status %d, %s; it was %d", e.Path, status, now, e.Status)
			continue
		}
		for _, l := range apitest.Lost(e.Response, now, except...) {
			t.Errorf("GET %s: %s", e.Path, l)
		}
	}
	if compared != len(v01Answers) {
		t.Errorf("%d answers compared; want %d", compared, len(v01Answers))
	}
}

// v01Answers are the requests whose answers survive a restart, each with the fields
// that depend on the time, the policy's estimates or the machine.
var v01Answers = map[string][]string{
	// A job that was paused had a not_before 250 years ahead; now it has a flag.
	"/v1/jobs?limit=1000":       {"jobs.rho", "jobs.reason.text", "jobs.status.not_before"},
	"/v1/apps":                  {"apps.rho"},
	"/v1/tenants":               {"tenants.rho", "tenants.share"},
	"/v1/tokens":                nil,
	"/v1/policy":                nil,
	"/v1/searches/sweep":        nil,
	"/v1/apps/pair/agent":       nil,
	"/v1/jobs/trains-3/points":  nil,
	"/v1/jobs/broken-2/explain": {"now", "summary"}, // which named the cause twice
}

// TestV01Client: the daemon accepts every request of the version 0.1 client, with the
// same outcome.
func TestV01Client(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, shortDir(t), "--config", v01+"fairway.yaml")
	// Version 0.1 stopped any job. Now the quotas of this recording, which cover the
	// cluster, would leave nothing for jobs of another tenant that cannot be stopped.
	if status, out := d.send("PUT", "/v1/tenants/default", []byte(`{"preemptible": true}`), ""); status != 200 {
		t.Fatalf("set tenant: status %d: %s", status, out)
	}
	renamed := map[string]string{} // ids of tokens then and now
	var reports []exchange
	for _, e := range apitest.Lines[exchange](t, v01Exchanges) {
		if e.Path == "/v1/agent/report" {
			reports = append(reports, e)
			continue
		}
		if e.Method == "POST" {
			d.settle()
			time.Sleep(2 * time.Millisecond) // a record younger than a millisecond counts as new, whatever its key
		}
		for old, now := range renamed {
			e.Path = strings.ReplaceAll(e.Path, old, now)
		}
		if e.Path == "/v1/jobs" && e.Method == "POST" {
			e.Request = asThen(t, e.Request)
		}
		var status int
		var now []byte
		if !holds(time.Minute, func() bool {
			status, now = d.send(e.Method, e.Path, e.Request, "")
			return status == e.Status || e.Method != "GET" // what it asks for may not be there yet
		}) || status != e.Status {
			t.Errorf("%s %s: status %d, %s; it was %d", e.Method, e.Path, status, now, e.Status)
		}
		if e.Path == "/v1/tokens" && e.Method == "POST" {
			var a, b api.NewToken
			if err := json.Unmarshal(e.Response, &a); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(now, &b); err != nil {
				t.Fatal(err)
			}
			renamed[url.PathEscape(a.Token.ID)] = url.PathEscape(b.Token.ID)
		}
	}
	if status, out := d.send("PUT", "/v1/nodes/box", []byte(`{"state": "ready"}`), ""); status != 200 {
		t.Fatalf("uncordon: status %d: %s", status, out)
	}
	for _, r := range reports {
		if status, out := d.send(r.Method, r.Path, r.Request, d.secretOfJob()); status != r.Status {
			t.Errorf("report %s: status %d, %s; it was %d", r.Request, status, out, r.Status)
		}
	}
	if len(reports) < 3 || len(renamed) == 0 {
		t.Errorf("%d reports and %d tokens: the recording has lost something", len(reports), len(renamed))
	}
}

// asThen lets a job wait that can never run on the cluster, as every job did in version
// 0.1, and leaves its image away, which that version ignored on one machine: now it needs a
// container runtime.
func asThen(t *testing.T, request json.RawMessage) json.RawMessage {
	t.Helper()
	var job map[string]any
	if err := json.Unmarshal(request, &job); err != nil || job["command"] == nil {
		return request
	}
	job["wait_for_capacity"] = true
	delete(job, "image")
	out, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// settle waits until no attempt is about to start or stop and no search will submit
// another trial, because job IDs are counted.
func (d *daemon) settle() {
	d.t.Helper()
	var page api.JobPage
	var searches []api.Search
	if !holds(patience, func() bool {
		var err error
		page, err = d.Page(d.t.Context(), api.JobFilter{States: []string{api.Starting, api.Stopping}})
		if err != nil {
			d.t.Fatal(err)
		}
		searches, err = d.Searches(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		return len(page.Jobs) == 0 && !slices.ContainsFunc(searches, func(s api.Search) bool { return !s.Over() })
	}) {
		d.t.Fatalf("jobs still start or stop: %v; searches: %v", page.Jobs, searches)
	}
}

// secretOfJob submits a job and returns the secret of its agent once it runs.
func (d *daemon) secretOfJob() string {
	d.t.Helper()
	path := filepath.Join(d.data, "secret")
	body, _ := json.Marshal(map[string]any{"name": "agent", "gpus": 1, "key": "agent", "command": []string{"sh", "-c", "echo $FAIRWAY_TOKEN > " + path + ".new; mv " + path + ".new " + path + "; sleep 600"}})
	if status, out := d.send("POST", "/v1/jobs", body, ""); status != 201 && status != 200 {
		d.t.Fatalf("submit: status %d: %s", status, out)
	}
	var secret []byte
	if !holds(patience, func() bool {
		var err error
		secret, err = os.ReadFile(path)
		return err == nil
	}) {
		d.t.Fatal("the job does not run")
	}
	return strings.TrimSpace(string(secret))
}

// TestV01Files: job files, searches, the configuration and the contexts of version 0.1
// are still read.
func TestV01Files(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"job": {"submit", "-f"}, "app": {"app", "submit"}, "search": {"app", "submit"},
	} {
		old, err := os.ReadFile(v01 + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		now := fairway(t, nil, append(args, v01+name+".yaml", "--dry-run")...)
		// What a job gets when it is submitted was empty in a dry run, and is left out now.
		for _, l := range apitest.Lost(old, now, "id", "submitted", "trial.id", "trial.submitted") {
			t.Errorf("%s.yaml: %s", name, l)
		}
		if bytes.Contains(now, []byte(`"id": ""`)) || bytes.Contains(now, []byte(`"0001-01-01T00:00:00Z"`)) {
			t.Errorf("%s.yaml: the dry run prints what does not exist yet:\n%s", name, now)
		}
	}
	fairway(t, nil, "config", "check", v01+"fairway.yaml")

	home := t.TempDir()
	contexts, err := os.ReadFile(v01 + "contexts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, "fairway"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "fairway", "contexts.yaml"), contexts, 0o600); err != nil {
		t.Fatal(err)
	}
	list := strings.Join(strings.Fields(string(fairway(t, []string{"XDG_CONFIG_HOME=" + home}, "context", "list"))), " ")
	want, err := os.ReadFile(v01 + "contexts.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(want)) {
		if line = strings.Join(strings.Fields(line), " "); !strings.Contains(list, line) {
			t.Errorf("context list prints %q; want %q in it", list, line)
		}
	}
}
