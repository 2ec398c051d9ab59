// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
)

// TestStopAndUpgrade: a daemon that is asked to exit does so without an error and
// without disturbing the jobs; the next one takes them over.
func TestStopAndUpgrade(t *testing.T) {
	d := startDaemon(t, shortDir(t), "--slots", "2")
	ctx := context.Background()
	flag := filepath.Join(t.TempDir(), "go")
	s := api.Submission{}
	s.Command, s.GPUs = []string{"/bin/sh", "-c", "until [ -f " + flag + " ]; do sleep 0.05; done; echo went"}, 2
	j, err := d.Submit(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	isRunning := func() bool { j, err := d.Job(ctx, j.ID); return err == nil && j.State == api.Running }
	waitFor(t, patience, isRunning)
	if err := d.stop(); err != nil {
		t.Fatalf("the daemon ended with %v; want no error", err)
	}
	if _, err := os.Stat(filepath.Join(d.data, "fairway.sock")); err == nil {
		t.Error("the socket is left behind")
	}
	d.start()
	waitFor(t, patience, isRunning)
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, patience, func() bool { j, err := d.Job(ctx, j.ID); return err == nil && j.State == api.Finished })
	if j, _ := d.Job(ctx, j.ID); j.Status.Starts != 1 {
		t.Errorf("the job was started %d times; want once", j.Status.Starts)
	}
	var log strings.Builder
	if err := d.Logs(ctx, j.ID, api.LogQuery{Rank: 1}, &log); err != nil || log.String() != "went\n" {
		t.Errorf("log of rank 1 is %q, %v; want what it printed after the upgrade", log.String(), err)
	}
}

// TestSecondDaemonIsRefused: two daemons on one folder would run jobs twice.
func TestSecondDaemonIsRefused(t *testing.T) {
	d := startDaemon(t, shortDir(t), "--slots", "1")
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "up", "--data", d.data, "--listen=").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "locked") {
		t.Errorf("a second daemon: %v\n%s\nwant a refusal that says the journal is locked", err, out)
	}
}
