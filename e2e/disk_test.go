// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// smallDisk returns a folder on a file system that is easily filled.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := shortDir(t)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "small", dir).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: a small disk cannot be mounted here: %v %s(run as root)", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
}

// fillInodes makes files until there is no room for another, and returns how to
// remove them.
func fillInodes(t *testing.T, disk string) (free func()) {
	t.Helper()
	dir := filepath.Join(disk, "filler")
	err := os.Mkdir(dir, 0o700)
	for n := 0; err == nil; n++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() { _ = os.RemoveAll(dir) }
}

func (d *daemon) overview() api.Overview {
	d.t.Helper()
	o, err := d.Overview(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return o
}

// TestFullDisk: a full data disk fails no job. Starting is paused, the daemon says so
// wherever somebody looks, and all jobs run when there is room again.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, "size=64m,nr_inodes=2000")
	d := startDaemon(t, disk, "--slots", "4")
	ctx := context.Background()
	nodes, err := d.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.SetNode(ctx, nodes[0].Name, sched.Cordoned); err != nil {
		t.Fatal(err)
	}
	var ids []sched.JobID
	for range 8 {
		s := api.Submission{}
		s.Name, s.GPUs, s.Command = "w", 1, []string{"true"}
		j, err := d.Submit(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	free := fillInodes(t, disk)
	if _, err := d.SetNode(ctx, nodes[0].Name, sched.Ready); err != nil {
		t.Fatal(err)
	}
	waitFor(t, patience, func() bool { return d.overview().StartingPaused != "" })
	end := time.Now().Add(3 * time.Second)
	waitFor(t, patience, func() bool {
		if n := d.overview().Failed; n > 0 {
			t.Fatalf("%d jobs failed; want none to start", n)
		}
		return time.Now().After(end)
	})
	if p := d.overview().Problem; !strings.Contains(p, "inodes are free") {
		t.Errorf("problem %q; want that the disk is full", p)
	}
	if err := d.Ready(ctx); err == nil || !strings.Contains(err.Error(), "starting jobs is paused") {
		t.Errorf("/readyz: %v; want that starting is paused", err)
	}
	var metrics strings.Builder
	if err := d.Metrics(ctx, &metrics); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"fairway_starting_paused 1", "fairway_healthy 0", `fairway_waiting_jobs{reason="starting-paused"} 8`} {
		if !strings.Contains(metrics.String(), line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	for _, id := range ids {
		j, err := d.Job(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if j.State != api.Waiting || j.Reason == nil || !strings.Contains(j.Reason.Text, "inodes are free") || j.Status.Failures > 0 {
			t.Errorf("%s is %s with %d failures because of %+v; want that it waits for room", id, j.State, j.Status.Failures, j.Reason)
		}
	}
	free()
	waitFor(t, patience, func() bool { return d.overview().Finished == len(ids) })
	if o := d.overview(); o.Problem != "" || o.StartingPaused != "" {
		t.Errorf("problem %q when there is room again; want none", o.Problem)
	}
}
