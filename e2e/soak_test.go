// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// TestSoak compresses long operation into a short time: many short jobs, with small
// bounds on what is kept, must not make the daemon grow. "make load" runs as many jobs
// as a busy day has.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many jobs")
	}
	jobs := scale("FAIRWAY_SOAK_JOBS", 240)
	config := filepath.Join(t.TempDir(), "fairway.yaml")
	text := "slots: 16\npolicy: fifo\nlog: {level: warn}\nkeep: {jobs: 50, attempts: 50, compact: 200, journal: 64KiB}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, shortDir(t), "--config", config)
	// The first third fills caches and pools; growth is measured from there on.
	var early, late footprint
	for part := range 3 {
		runJobs(t, d, jobs/3)
		if part == 0 {
			early = d.footprint()
		}
	}
	// Processes that have ended may take a while to disappear.
	for end := time.Now().Add(patience); ; {
		late = d.footprint()
		grown := late.goroutines > early.goroutines+20 || late.files > early.files+10 || late.rss > early.rss+64 || late.disk > early.disk+16<<20
		if !grown || time.Now().After(end) {
			break
		}
	}
	t.Logf("%d jobs: %s at a third, %s at the end", jobs, early, late)
	if late.goroutines > early.goroutines+20 {
		t.Errorf("goroutines grew from %d to %d", early.goroutines, late.goroutines)
	}
	if late.files > early.files+10 {
		t.Errorf("open files grew from %d to %d", early.files, late.files)
	}
	if late.rss > early.rss+64 {
		t.Errorf("memory grew from %d to %d MiB", early.rss, late.rss)
	}
	if late.disk > early.disk+16<<20 {
		t.Errorf("the data folder grew from %d to %d bytes", early.disk, late.disk)
	}
}

// runJobs runs n short jobs to their end.
func runJobs(t *testing.T, d *daemon, n int) {
	t.Helper()
	ctx := context.Background()
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s := api.Submission{}
			s.Command, s.GPUs = []string{"/bin/sh", "-c", "echo trained"}, 1
			for range n / 4 {
				if _, err := d.Submit(ctx, s); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	waitFor(t, 5*time.Minute, func() bool {
		o, err := d.Overview(ctx)
		return err == nil && o.Running+o.Waiting == 0
	})
}

// footprint is what the daemon uses.
type footprint struct {
	rss, goroutines, files int
	disk                   int64
}

func (f footprint) String() string {
	return fmt.Sprintf("%d MiB, %d goroutines, %d files, %d KiB of disk", f.rss, f.goroutines, f.files, f.disk>>10)
}

func (d *daemon) footprint() footprint {
	d.t.Helper()
	time.Sleep(2 * time.Second) // supervisors leave, old logs are removed
	f := footprint{rss: residentMiB(d.t, d.cmd.Process.Pid), goroutines: int(metric(d.t, d, "go_goroutines"))}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	f.files = len(open)
	err = filepath.WalkDir(d.data, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // it was removed meanwhile
		}
		if info, err := e.Info(); err == nil {
			f.disk += info.Size()
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return f
}
