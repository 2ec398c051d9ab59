// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// clusters are daemons that one user knows as contexts.
type clusters struct {
	t      *testing.T
	config string // XDG_CONFIG_HOME
	byName map[string]*daemon
}

// startClusters starts a daemon of one slot for each name.
func startClusters(t *testing.T, names ...string) *clusters {
	t.Helper()
	c := &clusters{t, t.TempDir(), map[string]*daemon{}}
	for _, name := range names {
		d := startDaemon(t, shortDir(t), "--slots=1", "--policy=fifo")
		c.byName[name] = d
		c.must("context", "add", name, "--address", "unix://"+filepath.Join(d.data, "fairway.sock"))
	}
	return c
}

// cli runs a command as the user of the contexts.
func (c *clusters) cli(args ...string) (stdout, stderr string, err error) {
	c.t.Helper()
	path, err := program()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = c.config
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+c.config)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	return strings.TrimSpace(out.String()), said.String(), err
}

func (c *clusters) must(args ...string) (stdout, stderr string) {
	c.t.Helper()
	out, said, err := c.cli(args...)
	if err != nil {
		c.t.Fatalf("fairway %s: %v\n%s%s", strings.Join(args, " "), err, out, said)
	}
	return out, said
}

// jobs returns where there are jobs with a name that have not been cancelled.
func (c *clusters) jobs(name string) (where []string) {
	c.t.Helper()
	for cluster, d := range c.byName {
		for j, err := range d.List(context.Background(), api.JobFilter{Search: name}) {
			if err == nil && j.Name == name && j.State != api.Cancelled {
				where = append(where, cluster+"/"+string(j.ID))
			}
		}
	}
	return where
}

// TestSubmitToClusters: with three daemons, a job goes once to the one that starts it first,
// and of those that start it at once to the cheapest; one that is away is done without.
func TestSubmitToClusters(t *testing.T) {
	t.Parallel()
	c := startClusters(t, "busy", "cheap", "dear")
	c.must("context", "add", "cheap", "--price", "1", "--address", "unix://"+filepath.Join(c.byName["cheap"].data, "fairway.sock"))
	c.must("context", "add", "dear", "--price", "2", "--address", "unix://"+filepath.Join(c.byName["dear"].data, "fairway.sock"))
	busy := c.byName["busy"]
	busy.until(busy.run(api.Submission{Task: api.Task{Name: "holder"}, Spec: sched.Spec{Estimate: sched.Duration(2 * 3600e9)}}, "sleep", "1000"), api.Running)

	_, said := c.must("submit", "--cluster", "any", "--dry-run", "--name", "dry", "--", "sleep", "1000")
	if !strings.Contains(said, "it would go to cheap") || len(c.jobs("dry")) != 0 {
		t.Fatalf("a dry run says %q and leaves %v", said, c.jobs("dry"))
	}
	id, said := c.must("submit", "--cluster", "any", "--name", "first", "--", "sleep", "1000")
	if got := c.jobs("first"); len(got) != 1 || got[0] != "cheap/"+id || !strings.Contains(said, "submitted to cheap") {
		t.Fatalf("the first job is %q of %v; want one, on cheap\n%s", id, got, said)
	}
	c.byName["cheap"].until(sched.JobID(id), api.Running)

	// The same key finds the same job, though another cluster would start it first now.
	keyed, _ := c.must("submit", "--cluster", "any", "--key", "k1", "--name", "keyed", "--", "sleep", "1000")
	again, _ := c.must("submit", "--cluster", "any", "--key", "k1", "--name", "keyed", "--", "sleep", "1000")
	if got := c.jobs("keyed"); keyed != again || len(got) != 1 || got[0] != "dear/"+keyed {
		t.Fatalf("one key made %q and %q: %v", keyed, again, got)
	}

	c.byName["dear"].kill()
	if _, said, err := c.cli("submit", "--cluster", "any", "--key", "k1", "--name", "keyed", "--", "sleep", "1000"); err == nil || !strings.Contains(said, "dear does not answer, and may have a job with the key") {
		t.Fatalf("a key that a cluster may have that is away: %v\n%s", err, said)
	}
	_, said = c.must("submit", "--cluster", "any", "--name", "third", "--", "sleep", "1000")
	if got := c.jobs("third"); len(got) != 1 || !strings.Contains(said, "no daemon answers") {
		t.Fatalf("with one cluster away: %v\n%s", got, said)
	}
	if _, said, err := c.cli("submit", "--cluster", "any", "--gpus", "2", "--name", "wide", "--", "true"); err == nil || len(c.jobs("wide")) != 0 {
		t.Fatalf("a job that fits nowhere is submitted: %s", said)
	}
	for _, wrong := range [][]string{{"--cluster", "nowhere"}, {"--cluster", "any", "--context", "busy"}, {"--cluster", "any", "--token", "x"}} {
		if _, said, err := c.cli(append(append([]string{"submit"}, wrong...), "--", "true")...); err == nil || !strings.Contains(said, "--cluster") {
			t.Errorf("submit %v: %v %s", wrong, err, said)
		}
	}
}

// TestLostAnswer: a cluster takes a job and its answer is lost. The job is asked for again
// there, not submitted elsewhere.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	c := startClusters(t, "behind", "other")
	d := c.byName["behind"]
	front := filepath.Join(shortDir(t), "s")
	var lost atomic.Int32
	t.Cleanup(proxy(t, front, filepath.Join(d.data, "fairway.sock"), func(r *http.Request, before bool) bool {
		return !before && r.Method == "POST" && r.URL.Path == "/v1/jobs" && lost.Add(1) <= 2
	}))
	c.must("context", "add", "behind", "--address", "unix://"+front)
	other := c.byName["other"]
	c.must("context", "add", "other", "--price", "1", "--address", "unix://"+filepath.Join(other.data, "fairway.sock"))
	id, said := c.must("submit", "--cluster", "any", "--name", "once", "--", "sleep", "1000")
	if got := c.jobs("once"); len(got) != 1 || got[0] != "behind/"+id || lost.Load() != 3 {
		t.Fatalf("after %d tries: %q of %v\n%s", lost.Load(), id, got, said)
	}
}

// proxy stands before a daemon's socket. It breaks off where cut says so, before a request is
// passed on or before it is answered.
func proxy(t *testing.T, front, behind string, cut func(r *http.Request, before bool) bool) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", front)
	if err != nil {
		t.Fatal(err)
	}
	to := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", behind)
	}}}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut(r, true) {
			panic(http.ErrAbortHandler)
		}
		out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://daemon"+r.URL.RequestURI(), r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		out.Header = r.Header
		resp, err := to.Do(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		if cut(r, false) {
			panic(http.ErrAbortHandler)
		}
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		if _, err := io.Copy(w, resp.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	})}
	go s.Serve(l)
	return func() { s.Close() }
}
