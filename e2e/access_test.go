// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

// asker is a program that sends a request to a Unix socket and prints the status and
// the answer: SOCKET METHOD PATH [TOKEN].
const asker = `
import http.client, json, os, socket, sys
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1].removeprefix("unix://"))
link = Connection("fairway")
body = json.dumps({"ask": True}) if sys.argv[3].endswith("report") else None
link.request(sys.argv[2], sys.argv[3], body, {"Authorization": "Bearer " + sys.argv[4]} if len(sys.argv) > 4 else {})
answer = link.getresponse()
print("status", answer.status, answer.read().decode().strip(), flush=True)
`

// asks runs a job that sends requests, one for each line of the script, and returns
// what it printed.
func (d *daemon) asks(c submitter, script string) string {
	d.t.Helper()
	program := filepath.Join(d.data, "ask.py")
	if err := os.WriteFile(program, []byte(asker), 0o644); err != nil {
		d.t.Fatal(err)
	}
	script = strings.ReplaceAll(script, "ask ", "python3 "+program+" ")
	job, err := c.Submit(d.t.Context(), api.Submission{Spec: sched.Spec{GPUs: 1}, Task: api.Task{Command: shell(script)}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.until(job.ID, api.Finished)
	var out bytes.Buffer
	if err := d.Logs(d.t.Context(), job.ID, api.LogQuery{}, &out); err != nil {
		d.t.Fatal(err)
	}
	return out.String()
}

type submitter interface {
	Submit(context.Context, api.Submission) (api.Job, error)
}

// TestJobIsNotItsUser: a job runs as the daemon's user, who is an admin, and has none
// of his rights. It reports over its own socket and, as agents of version 0.1 do, over
// the other one.
func TestJobIsNotItsUser(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, shortDir(t), "--slots=1")
	main := "unix://" + filepath.Join(d.data, "fairway.sock")
	_, secret, err := d.CreateToken(t.Context(), api.Token{User: "ann", Role: api.User})
	if err != nil {
		t.Fatal(err)
	}
	got := d.asks(d, fmt.Sprintf(`
echo api=$FAIRWAY_API
ask %[1]s GET /v1/whoami
(setsid python3 %[2]s/ask.py %[1]s POST /v1/jobs/none-9/cancel > %[2]s/orphan; mv %[2]s/orphan %[2]s/done) &
while [ ! -e %[2]s/done ]; do sleep 0.05; done; cat %[2]s/done
ask %[1]s GET /v1/whoami %[3]s
ask %[1]s POST /v1/agent/report $FAIRWAY_TOKEN
ask $FAIRWAY_API POST /v1/agent/report $FAIRWAY_TOKEN
ask $FAIRWAY_API POST /v1/agent/report wrong
ask $FAIRWAY_API GET /v1/whoami
ask $FAIRWAY_API GET /v1/whoami %[3]s
`, main, d.data, secret))
	want := []string{
		"api=unix://" + filepath.Join(d.data, "agent.sock"),
		"status 401", "status 401", // as its user
		"status 200",                             // with a token
		"status 200", "status 200", "status 401", // as an agent
		"status 404", "status 404", // nothing else is there
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	for i, w := range want {
		if i >= len(lines) || !strings.HasPrefix(lines[i], w) {
			t.Fatalf("the job printed\n%s\nwant %q in line %d", got, w, i+1)
		}
	}
	if !strings.Contains(got, "a process of job ask-1") {
		t.Errorf("the refusal does not name the job:\n%s", got)
	}
	if me, err := d.Whoami(t.Context()); err != nil || me.Role != api.Admin {
		t.Errorf("outside of jobs: %+v, %v; want an admin", me, err)
	}
}

// TestAgentsOfOtherUsers: under a root daemon the agent of another user's job reaches
// the daemon, and the job cannot touch jobs of others even where its user may use the
// socket.
func TestAgentsOfOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to run jobs as another user")
	}
	t.Parallel()
	d := configured(t, "socket: {mode: '0666'}\n", "--slots=2")
	if err := os.Chmod(d.data, 0o711); err != nil {
		t.Fatal(err)
	}
	_, secret, err := d.CreateToken(t.Context(), api.Token{User: "blue", Role: api.User, RunAs: "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	blue, err := client.New(client.Options{Address: "unix://" + filepath.Join(d.data, "fairway.sock"), Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer blue.Close()
	victim := d.run(api.Submission{Spec: sched.Spec{GPUs: 1}}, shell("sleep 600")...)
	got := d.asks(blue, fmt.Sprintf(`
id -un
ask $FAIRWAY_API POST /v1/agent/report $FAIRWAY_TOKEN
ask unix://%s/fairway.sock POST /v1/jobs/%s/cancel
`, d.data, victim))
	if !strings.HasPrefix(got, "nobody\nstatus 200") || !strings.Contains(got, "status 401") {
		t.Errorf("the job of another user printed\n%s\nwant a report that is taken and a change that is refused", got)
	}
	if j, err := d.Job(t.Context(), victim); err != nil || api.HasEnded(j.State) {
		t.Errorf("root's job is %s, %v; want it to run", j.State, err)
	}
}

// TestUnsafeAddress: a daemon that can be reached from other machines without TLS says
// so in its log and in its status. A link that logs in is in no log; a command prints it.
func TestUnsafeAddress(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, shortDir(t), "--slots=1", "--listen=0.0.0.0:0")
	address := []string{"FAIRWAY_ADDRESS=unix://" + filepath.Join(d.data, "fairway.sock")}
	const warning = "can be reached from other machines without TLS"
	if status := string(fairway(t, address, "status")); !strings.Contains(status, warning) {
		t.Errorf("the status does not warn:\n%s", status)
	}
	link := strings.TrimSpace(string(fairway(t, address, "dashboard")))
	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	page, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s%s", at.Port(), at.RequestURI()))
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	if cookie := page.Request.Response; cookie == nil || len(cookie.Cookies()) == 0 {
		t.Errorf("the link %s begins no session: %s", link, page.Status)
	}
	log := d.log.tail(1 << 20)
	if !strings.Contains(log, warning) || !strings.Contains(log, "fairway dashboard --address unix://") {
		t.Errorf("the log does not warn, or does not say how to log in:\n%s", log)
	}
	if strings.Contains(log, "code=") {
		t.Errorf("the log has a link that logs in:\n%s", log)
	}
}

// TestStreamsEndWithTheirToken: a stream ends when its token is revoked or expires.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, shortDir(t), "--slots=1")
	watch := func(token api.Token) (id string, ended chan error) {
		t.Helper()
		token.User, token.Role = "ann", api.Viewer
		made, secret, err := d.CreateToken(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(client.Options{Address: "unix://" + filepath.Join(d.data, "fairway.sock"), Token: secret})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ended = make(chan error, 1)
		seen := make(chan struct{}, 100)
		go func() {
			ended <- c.Watch(t.Context(), api.RecordFilter{}, func(api.Record) error { seen <- struct{}{}; return nil })
		}()
		select {
		case <-seen:
		case err := <-ended: // it was slow to begin
			ended <- err
		}
		return made.ID, ended
	}
	_, expires := watch(api.Token{Expires: time.Now().Add(5 * time.Second)})
	id, revoked := watch(api.Token{})
	if err := d.RevokeToken(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, ended := range []chan error{expires, revoked} {
		select {
		case err := <-ended:
			if api.CodeOf(err) != api.Denied {
				t.Errorf("the stream ended with %v; want it denied", err)
			}
		case <-time.After(patience):
			t.Error("the stream goes on")
		}
	}
}
