// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// guillotine kills a command at one of its requests: before a daemon sees it, or after it
// has acted and before the command sees the answer.
type guillotine struct {
	mu     sync.Mutex
	cmd    *exec.Cmd
	at     int // 0: never
	before bool
	seen   []string // requests
}

func (g *guillotine) falls(r *http.Request, before bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before {
		g.seen = append(g.seen, r.Method+" "+r.URL.Path)
	}
	if g.cmd == nil || len(g.seen) != g.at || g.before != before {
		return false
	}
	_ = g.cmd.Process.Kill()
	return true
}

// moving is a busy cluster and a free one, and a user whose every request can be the last.
type moving struct {
	*clusters
	from, to *daemon
	blade    *guillotine
	holder   sched.JobID
}

func startMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{clusters: startClusters(t, "from", "to", "third"), blade: &guillotine{}}
	m.from, m.to = m.byName["from"], m.byName["to"]
	m.byName["third"].run(api.Submission{Task: api.Task{Name: "holder"}, Spec: sched.Spec{Estimate: sched.Duration(3 * time.Hour)}}, "sleep", "1000")
	for name, d := range m.byName {
		front := filepath.Join(shortDir(t), "s")
		t.Cleanup(proxy(t, front, filepath.Join(d.data, "fairway.sock"), m.blade.falls))
		m.must("context", "add", name, "--address", "unix://"+front)
	}
	m.hold()
	return m
}

// hold keeps the first cluster busy.
func (m *moving) hold() {
	m.t.Helper()
	m.holder = m.from.run(api.Submission{Task: api.Task{Name: "holder"}, Spec: sched.Spec{Estimate: sched.Duration(2 * time.Hour)}}, "sleep", "1000")
	m.from.until(m.holder, api.Running)
}

// submit makes a job that waits on the first cluster and writes a line when it runs.
func (m *moving) submit(name string) (id sched.JobID, ran string) {
	m.t.Helper()
	if !holds(patience, func() bool { // where it should go, nothing runs any more
		o, err := m.to.Overview(context.Background())
		return err == nil && o.Running+o.Waiting == 0
	}) {
		m.t.Fatal("the second cluster does not come free")
	}
	ran = filepath.Join(m.config, name)
	// Estimates that prove wrong would make the holder's be doubted, and moving would no
	// longer pay.
	id = m.from.run(api.Submission{Task: api.Task{Name: name}, Spec: sched.Spec{Estimate: sched.Duration(time.Second)}}, shell("echo ran >> "+ran+"; sleep 1")...)
	m.from.until(id, api.Waiting)
	return id, ran
}

// rebalance runs the command, and kills it at a request; ended is false if it was killed.
func (m *moving) rebalance(at int, before bool) (said string, ended bool) {
	m.t.Helper()
	path, err := program()
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.Command(path, "rebalance", "--cluster", "any")
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+m.config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	m.blade.mu.Lock()
	m.blade.seen, m.blade.at, m.blade.before, m.blade.cmd = nil, at, before, cmd
	err = cmd.Start()
	m.blade.mu.Unlock()
	if err != nil {
		m.t.Fatal(err)
	}
	err = cmd.Wait()
	m.blade.mu.Lock()
	m.blade.cmd = nil
	m.blade.mu.Unlock()
	return out.String(), err == nil || cmd.ProcessState.Exited()
}

// runnable counts the copies of a job that could run.
func (m *moving) runnable(name string) (n int, all []string) {
	m.t.Helper()
	for cluster, d := range m.byName {
		for j, err := range d.List(context.Background(), api.JobFilter{Search: name}) {
			if err != nil {
				m.t.Fatal(err)
			}
			if j.Name != name {
				continue
			}
			all = append(all, fmt.Sprintf("%s/%s %s", cluster, j.ID, j.State))
			if j.State != api.Cancelled && j.State != api.Paused {
				n++
			}
		}
	}
	return n, all
}

func (m *moving) ranOnce(ran, when string) {
	m.t.Helper()
	if !holds(patience, func() bool { text, err := os.ReadFile(ran); return err == nil && len(text) > 0 }) {
		m.t.Fatalf("%s: the job was lost", when)
	}
	if text, _ := os.ReadFile(ran); string(text) != "ran\n" {
		m.t.Fatalf("%s: the job ran %d times", when, bytes.Count(text, []byte("\n")))
	}
}

// TestRebalanceKilled kills "fairway rebalance" at each of its requests, before and after the
// daemon has acted. What it keeps between two requests is lost with it, so these are all the
// places where it can be interrupted. After the next rebalance, the job has run exactly once.
func TestRebalanceKilled(t *testing.T) {
	t.Parallel()
	m := startMoving(t)
	kills := 0
	for at := 1; ; at++ {
		reached := false
		for _, before := range []bool{true, false} {
			when := fmt.Sprintf("killed at request %d, before it was sent: %t", at, before)
			name := fmt.Sprintf("job-%d-%t", at, before)
			_, ran := m.submit(name)
			said, ended := m.rebalance(at, before)
			if n, all := m.runnable(name); n > 1 {
				t.Fatalf("%s: %v could run\n%s", when, all, said)
			}
			if !ended {
				reached = true
				kills++
				if said, ended := m.rebalance(0, false); !ended {
					t.Fatalf("%s: the next one fails: %s", when, said)
				}
			}
			m.ranOnce(ran, when+", "+said)
		}
		if !reached {
			break
		}
	}
	for _, want := range []string{"POST /v1/preview", "POST /v1/jobs"} {
		if !slices.Contains(m.blade.seen, want) {
			t.Errorf("the requests are %q; want %s among them", m.blade.seen, want)
		}
	}
	if kills < 16 {
		t.Errorf("%d kills; want one before and after each of at least 8 requests, of which there are %q", kills, m.blade.seen)
	}
	t.Logf("%d kills at %q", kills, m.blade.seen)
}

// TestInterruptedMove: a move was interrupted when the copy had been made. If the job starts
// meanwhile, the copy goes; while the job's cluster is away, the copy does not run.
func TestInterruptedMove(t *testing.T) {
	t.Parallel()
	m := startMoving(t)
	interrupt := func(name string) (sched.JobID, string) {
		t.Helper()
		for at := 1; at < 40; at++ {
			id, ran := m.submit(fmt.Sprintf("%s-%d", name, at))
			if _, ended := m.rebalance(at, false); ended {
				m.ranOnce(ran, name) // of requests made side by side, one may be missed
				continue
			}
			if m.blade.seen[at-1] == "POST /v1/jobs" {
				return id, ran
			}
			if said, ended := m.rebalance(0, false); !ended {
				t.Fatal(said)
			}
			m.ranOnce(ran, name)
		}
		t.Fatal("no copy was made in 40 requests")
		return "", ""
	}

	id, ran := interrupt("starts")
	if _, err := m.from.Command(context.Background(), m.holder, api.Cancel); err != nil {
		t.Fatal(err)
	}
	m.from.until(id, api.Finished)
	if said, ended := m.rebalance(0, false); !ended || !strings.Contains(said, "stays: ") {
		t.Errorf("after the job has run: %s", said)
	}
	if n, all := m.runnable("starts"); n > 1 {
		t.Errorf("%v could run", all)
	}
	m.ranOnce(ran, "the job started where it was")

	m.hold()
	id, ran = interrupt("away")
	m.from.kill()
	said, _ := m.rebalance(0, false)
	if !strings.Contains(said, "stays paused") {
		t.Errorf("while the job's cluster is away: %s", said)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the copy ran while nobody knew whether the job does")
	}
	m.from.start()
	if said, ended := m.rebalance(0, false); !ended {
		t.Error(said)
	}
	m.ranOnce(ran, "its cluster was away")
	if j, err := m.from.Job(context.Background(), id); err != nil || j.State != api.Cancelled || !strings.HasPrefix(j.MovedTo, "to/") {
		t.Errorf("the job that was moved: %s, moved to %q, %v", j.State, j.MovedTo, err)
	}
}
