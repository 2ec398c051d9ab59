// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// finish runs a job to its end.
func (d *daemon) finish(name, script string) api.Job {
	d.t.Helper()
	s := api.Submission{}
	s.Name, s.GPUs = name, 1
	return d.until(d.run(s, shell(script)...), api.Finished)
}

func (d *daemon) logOf(j api.Job) string {
	d.t.Helper()
	var log strings.Builder
	if err := d.Logs(context.Background(), j.ID, api.LogQuery{}, &log); err != nil {
		d.t.Fatal(err)
	}
	return log.String()
}

// TestJournalMovedAway: with a new journal, also one that does not even know that
// there was another, a new job runs, shows its own output and gets no old name.
func TestJournalMovedAway(t *testing.T) {
	t.Parallel()
	for _, lose := range [][]string{{"journal"}, {"journal", "journal.mark"}} {
		d := startDaemon(t, shortDir(t), "--slots", "1")
		old := d.finish("train", "echo secret of blue")
		if err := d.stop(); err != nil {
			t.Fatal(err)
		}
		for _, name := range lose {
			if err := os.Rename(filepath.Join(d.data, name), filepath.Join(d.data, name+".old")); err != nil {
				t.Fatal(err)
			}
		}
		d.start()
		if o, err := d.Overview(t.Context()); err != nil || !strings.Contains(o.Problem, "set aside") {
			t.Errorf("problem %q, %v; want what was set aside", o.Problem, err)
		}
		if err := d.Ready(t.Context()); err == nil {
			t.Error("the daemon says that it is ready")
		}
		now := d.finish("train", "echo red")
		if log := d.logOf(now); log != "red\n" {
			t.Errorf("%s after %s printed %q; want its own output", now.ID, old.ID, log)
		}
		if now.ID == old.ID {
			t.Errorf("the name %s was given again", now.ID)
		}
	}
}

// command runs fairway and returns what it said, and whether it succeeded.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	return string(out), err
}

// TestRestore: a journal that is lost comes back from an export. Jobs that ran after
// the export do not run again, jobs that were waiting run once.
func TestRestore(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, shortDir(t), "--slots", "1")
	ctx, out := t.Context(), t.TempDir()
	once := func(name string) string { return "echo ran >> " + filepath.Join(out, name) + "; echo " + name }
	before := d.finish("before", once("before"))
	hold := filepath.Join(out, "hold")
	s := api.Submission{}
	s.Name, s.GPUs = "runs", 1
	runs := d.run(s, shell(once("runs")+"; until [ -f "+hold+" ]; do sleep 0.05; done")...)
	d.until(runs, api.Running)
	s.Name = "next"
	next := d.run(s, shell(once("next"))...)
	s.Name = "last"
	s.Key = "once"
	last := d.run(s, shell(once("last"))...)
	if _, err := d.Command(ctx, last, api.Pause); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(out, "journal.jsonl")
	fairway(t, nil, "journal", "export", "--full", "--data", d.data, "--out", backup)

	// After the export one job ends, another one starts and ends, and a third comes.
	write(t, hold, "")
	d.until(next, api.Finished)
	lost := d.finish("lost", once("lost"))
	d.kill()
	journal := filepath.Join(d.data, "journal")
	if said, err := command(t, "journal", "restore", "--data", d.data, backup); err == nil || !strings.Contains(said, "--replace") {
		t.Errorf("restored over a journal: %v, %s; want it refused", err, said)
	}
	if err := os.RemoveAll(journal); err != nil {
		t.Fatal(err)
	}
	redacted := filepath.Join(out, "redacted.jsonl")
	write(t, redacted, `{"seq":1,"at":"2026-01-01T00:00:00Z","event":{"kind":"job-submitted"},"task":{"name":"x"}}`)
	if said, err := command(t, "journal", "restore", "--data", d.data, redacted); err == nil || !strings.Contains(said, "--full") {
		t.Errorf("restored from an export without commands: %v, %s", err, said)
	}
	fairway(t, nil, "journal", "restore", "--data", d.data, backup)
	d.start()
	for _, id := range []sched.JobID{before.ID, runs, next} {
		d.until(id, api.Finished)
	}
	if o, err := d.Overview(ctx); err != nil || len(o.Damages) == 0 || !strings.Contains(o.Problem, "missing") {
		t.Errorf("problem %q, %v; want what was lost after the export", o.Problem, err)
	}
	if _, err := d.Job(ctx, lost.ID); err == nil {
		t.Errorf("%s is there; it was submitted after the export", lost.ID)
	}
	if j, err := d.Submit(ctx, api.Submission{Key: "once", Spec: sched.Spec{GPUs: 1}, Task: api.Task{Name: "last", Command: shell("false")}}); err != nil || j.ID != last {
		t.Errorf("the key of %s gives %s, %v", last, j.ID, err)
	}
	if _, err := d.Command(ctx, last, api.Resume); err != nil {
		t.Fatal(err)
	}
	d.until(last, api.Finished)
	if now := d.finish("lost", once("new")); now.ID == lost.ID || d.logOf(now) != "new\n" {
		t.Errorf("the next job is %s and printed %q", now.ID, d.logOf(now))
	}
	for _, name := range []string{"before", "runs", "next", "last", "lost", "new"} {
		if ran, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(ran) != "ran\n" {
			t.Errorf("%s ran %q, %v; want once", name, ran, err)
		}
	}
	if said := string(fairway(t, nil, "--address", "unix://"+filepath.Join(d.data, "fairway.sock"), "journal", "acknowledge")); !strings.Contains(said, "missing") {
		t.Errorf("acknowledged %q; want what was missing", said)
	}
	if err := d.Ready(ctx); err != nil {
		t.Errorf("acknowledged, but not ready: %v", err)
	}
}

// TestJournalUnlinked: without its file nothing is acknowledged, everybody is told,
// and nothing is lost.
func TestJournalUnlinked(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, shortDir(t), "--slots", "1")
	ctx := t.Context()
	hold := filepath.Join(t.TempDir(), "hold")
	s := api.Submission{}
	s.Name, s.GPUs = "runs", 1
	runs := d.run(s, shell("until [ -f "+hold+" ]; do sleep 0.05; done")...)
	waits := d.run(s, shell("echo waited")...)
	d.until(runs, api.Running)
	file := filepath.Join(d.data, "journal", "journal.db")
	s.Command = shell("true")
	refused := func() {
		t.Helper()
		const why = "removed or replaced"
		if j, err := d.Submit(ctx, s); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("submit gave %s, %v; want it refused with the reason", j.ID, err)
		}
		waitFor(t, patience, func() bool { return d.Ready(ctx) != nil })
		if o, err := d.Overview(ctx); err != nil || strings.Count(o.Problem, why) != 1 || !strings.Contains(o.Problem, "--data "+d.data+" ") {
			t.Errorf("problem %q, %v; want it once, with what to do", o.Problem, err)
		}
	}
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	refused()
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	waitFor(t, patience, func() bool { return d.Ready(ctx) == nil })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refused()
	backup := filepath.Join(d.data, "journal.jsonl")
	fairway(t, nil, "journal", "export", "--full", "--data", d.data, "--out", backup)
	if err := d.stop(); err != nil {
		t.Logf("the daemon ended with %v", err)
	}
	fairway(t, nil, "journal", "restore", "--data", d.data, backup)
	d.start()
	d.until(runs, api.Running)
	write(t, hold, "")
	d.until(runs, api.Finished)
	if j := d.until(waits, api.Finished); d.logOf(j) != "waited\n" {
		t.Errorf("%s printed %q", j.ID, d.logOf(j))
	}
	if j, _ := d.Job(ctx, runs); j.Status.Starts != 1 {
		t.Errorf("%s was started %d times; want once", runs, j.Status.Starts)
	}
	if o, err := d.Overview(ctx); err != nil || o.Problem != "" {
		t.Errorf("problem %q, %v; want none: nothing was lost", o.Problem, err)
	}
}

// TestDamagedJournal: of acknowledged jobs only those are gone whose records are
// damaged; that is said everywhere until somebody acknowledges it.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, shortDir(t), "--slots", "2", "--policy", "fifo")
	ctx, out := t.Context(), t.TempDir()
	hold := filepath.Join(out, "hold")
	s := api.Submission{}
	s.Name, s.GPUs = "holds", 2
	holds := d.run(s, shell("until [ -f "+hold+" ]; do sleep 0.05; done")...)
	d.until(holds, api.Running)
	ids := map[string]sched.JobID{}
	for i := range 40 {
		s.Name, s.GPUs = fmt.Sprintf("job%03d", i), 1
		ids[s.Name] = d.run(s, shell("echo ran >> "+filepath.Join(out, s.Name))...)
	}
	d.kill()
	path := filepath.Join(d.data, "journal", "journal.db")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	hit := bytes.ReplaceAll(raw, []byte(`"name":"job020"`), []byte(`"name":"job0?0"`))
	if bytes.Equal(raw, hit) {
		t.Fatal("the record is not where it was expected")
	}
	if err := os.WriteFile(path, hit, 0o600); err != nil {
		t.Fatal(err)
	}
	d.start()
	missing := 0
	for name, id := range ids {
		if _, err := d.Job(ctx, id); err != nil {
			missing++
			if name != "job020" {
				t.Errorf("%s is gone: %v", id, err)
			}
		}
	}
	if missing != 1 {
		t.Errorf("%d of 40 jobs are gone; want one", missing)
	}
	if err := d.Ready(ctx); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("ready: %v; want the damage", err)
	}
	var metrics strings.Builder
	if err := d.Metrics(ctx, &metrics); err != nil || !strings.Contains(metrics.String(), "fairway_healthy 0") || !strings.Contains(metrics.String(), "fairway_journal_damages 1") {
		t.Errorf("the metrics do not say it: %v", err)
	}
	address := "unix://" + filepath.Join(d.data, "fairway.sock")
	if said, err := command(t, "--address", address, "status"); err == nil || !strings.Contains(said, "damaged") {
		t.Errorf("status: %v, %s; want the damage", err, said)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.start()
	if err := d.Ready(ctx); err == nil {
		t.Error("after a restart the damage is forgotten")
	}
	fairway(t, nil, "--address", address, "journal", "acknowledge")
	if err := d.Ready(ctx); err != nil {
		t.Errorf("acknowledged, but not ready: %v", err)
	}
	write(t, hold, "")
	for name, id := range ids {
		if name == "job020" {
			continue
		}
		d.until(id, api.Finished)
		if ran, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(ran) != "ran\n" {
			t.Errorf("%s ran %q, %v; want once", name, ran, err)
		}
	}
	if j := d.until(holds, api.Finished); j.Status.Starts != 1 {
		t.Errorf("%s was started %d times; want once", holds, j.Status.Starts)
	}
}
