// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/notify"
)

// TestPipeline: a job, an array that waits for it, two of its jobs at once, and a report
// that waits for the array run once each and in that order, although the daemon is killed
// on the way; a signed webhook is told how each ended, also of what ended while it was
// down.
func TestPipeline(t *testing.T) {
	const secret = "a key of the test's own"
	var mu sync.Mutex
	down, told := true, map[string]string{}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		var n api.Notice
		if err := json.Unmarshal(body, &n); err != nil || r.Header.Get(notify.HeaderSignature) != notify.Sign([]byte(secret), r.Header.Get(notify.HeaderTimestamp), body) {
			t.Errorf("the webhook got %s with %v: %v", body, r.Header, err)
		}
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		told[string(n.Job)] = n.Event
	}))
	defer hook.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secret"), secret)
	config := filepath.Join(dir, "fairway.yaml")
	write(t, config, fmt.Sprintf("slots: 4\nnotify:\n  targets:\n  - {name: ops, kind: webhook, url: %q, secret_file: %q}\n", hook.URL, filepath.Join(dir, "secret")))
	d := startDaemon(t, shortDir(t), "--config", config)
	for _, args := range [][]string{
		{"--name", "prepare", "--", "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo prepare >> order"},
		{"--name", "sweep", "--after", "prepare", "--array", "1-4%2", "--", "sh", "-c", "ls busy-* 2>/dev/null | wc -l >> beside; touch busy-$FAIRWAY_ARRAY_INDEX; sleep 0.3; rm busy-$FAIRWAY_ARRAY_INDEX; echo sweep $FAIRWAY_ARRAY_INDEX >> order"},
		{"--name", "report", "--after", "sweep", "--", "sh", "-c", "echo report >> order"},
		{"--name", "never", "--", "false"},
		{"--name", "orphan", "--after", "never", "--", "sh", "-c", "echo orphan >> order"},
	} {
		if out, err := d.cli(nil, append([]string{"submit", "--notify", "ops", "--dir", dir}, args...)...); err != nil && args[1] != "orphan" {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	if out, err := d.cli(nil, "explain", "report"); err != nil || !strings.Contains(out, "sweep-2 has to finish first [dependency]") {
		t.Errorf("%v\n%s", err, out)
	}
	d.kill()
	d.start()
	write(t, filepath.Join(dir, "go"), "")
	if out, err := d.cli(nil, "wait", "report", "sweep", "prepare"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mu.Lock()
	down = false
	mu.Unlock()
	order, err := os.ReadFile(filepath.Join(dir, "order"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(order)), "\n")
	if len(lines) != 6 || lines[0] != "prepare" || lines[5] != "report" || strings.Count(string(order), "sweep") != 4 {
		t.Errorf("the jobs ran in the order %q", lines)
	}
	if beside, err := os.ReadFile(filepath.Join(dir, "beside")); err != nil || strings.ContainsAny(string(beside), "23456789") {
		t.Errorf("when a job of the array began, so many others of it ran: %q, %v; want 1 at most", beside, err)
	}
	want := map[string]string{"prepare-1": "finished", "sweep-2_1": "finished", "sweep-2_4": "finished", "report-6": "finished", "never-7": "failed"}
	waitFor(t, patience, func() bool {
		mu.Lock()
		defer mu.Unlock()
		for job, event := range want {
			if told[job] != event {
				return false
			}
		}
		return true
	})
	if out, err := d.cli(nil, "submit", "--notify", "http://169.254.169.254/", "--", "true"); err == nil || !strings.Contains(out, "notify: ") {
		t.Errorf("a job that names an address: %v\n%s", err, out)
	}
}
