// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/sched"
)

var noTime = cmpopts.IgnoreFields(api.Exit{}, "At", "AttemptID", "Tails")

func TestExits(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	single := attempt("single", 1, 0b11, `echo $WORLD_SIZE; exit 4`)
	single.Task.Single = true
	missing := attempt("missing", 1, 0b1, "")
	missing.Task.Command = []string{"no-such-program-here"}
	folder := attempt("folder", 1, 0b1, "true")
	folder.Task.Dir = "/no/such/folder"
	denied := attempt("denied", 1, 0b1, "")
	denied.Task.Command = []string{"/etc/passwd"}
	far := attempt("far", 1, 0b10000, "true")
	odd := attempt("../odd", 1, 0b1, "true")
	cases := []struct {
		a    api.Attempt
		want api.Exit
	}{
		{attempt("ok", 1, 0b1, "exit 0"), api.Exit{}},
		{attempt("code", 1, 0b1, "echo one; echo bad thing >&2; exit 3"), api.Exit{Code: 3, Why: "bad thing"}},
		{attempt("signal", 1, 0b1, "kill -SEGV $$"), api.Exit{Code: 128 + 11, Signal: "SIGSEGV"}},
		{attempt("gang", 1, 0b1111, `[ $RANK = 2 ] && { echo "ValueError: two"; exit 9; }; exec sleep 100`), api.Exit{Code: 9, Rank: 2, Why: "ValueError: two"}},
		{attempt("yield", 1, 0b11, "exit 75"), api.Exit{Code: 75, Yielded: true}},
		{attempt("yield-one", 1, 0b11, `[ $RANK = 0 ] && exit 75; exec sleep 100`), api.Exit{Code: 75, Yielded: true}},
		{single, api.Exit{Code: 4, Why: "1"}},
		{missing, api.Exit{Code: 127, Why: "no-such-program-here: program not found"}},
		{folder, api.Exit{Code: 126, Why: "working folder /no/such/folder: no such file or directory"}},
		{denied, api.Exit{Code: 126, Why: "/etc/passwd: cannot be run in " + filepath.Join(r.m.cfg.Dir, "jobs/denied/work") + ": permission denied"}},
		{far, api.Exit{Lost: true, Why: "placement [{0 1000 4}] is not on this machine, which has 4 slots"}},
		{odd, api.Exit{Code: 126, Why: `id: job id "../odd" cannot name a folder; use at most 128 letters, digits, dots, dashes and underscores, the first a letter or a digit`}},
	}
	var list []api.Attempt
	for _, c := range cases { // all are ordered at once: they take turns
		list = append(list, c.a)
	}
	r.orders.set(list...)
	for _, c := range cases {
		if diff := cmp.Diff(c.want, r.exit(c.a.AttemptID), noTime); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.a.AttemptID, diff)
		}
	}
	if n := alive(t, r.m.cfg.Dir); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) {
		c.Devices[2], c.Devices[3] = Device{Index: 5, Type: "h200"}, Device{Index: 7, Type: "h200"}
	})
	a := attempt("env", 3, 0b1100, `env > $RANK.env; pwd > $RANK.dir`)
	a.Task.Env = map[string]string{"COLOR": "blue", "RANK": "no", "CUDA_VISIBLE_DEVICES": "no"}
	a.Task.GracePeriod = sched.Duration(1500 * time.Millisecond)
	a.GPUType = "h200"
	a.Spec.Batch = sched.Batch{Initial: 32, Max: 512, LocalMin: 8, LocalMax: 64, Adapt: true}
	r.orders.set(a)
	r.exit(a.AttemptID)
	job := filepath.Join(r.m.cfg.Dir, "jobs/env")
	for rank := range 2 {
		got := map[string]string{}
		for line := range strings.SplitSeq(read(t, job, "work", fmt.Sprint(rank, ".env")), "\n") {
			if k, v, ok := strings.Cut(line, "="); ok {
				got[k] = v
			}
		}
		if got["MASTER_PORT"] == "" || got["FAIRWAY_NONCE"] == "" || got["PATH"] == "" {
			t.Errorf("rank %d: no port, nonce or path in %v", rank, got)
		}
		for k, v := range map[string]string{
			"COLOR": "blue", "RANK": fmt.Sprint(rank), "LOCAL_RANK": fmt.Sprint(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
			"GROUP_RANK": "0", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "CUDA_VISIBLE_DEVICES": "5,7", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
			"FAIRWAY_JOB": "env", "FAIRWAY_ATTEMPT": "3", "FAIRWAY_API": "unix:///nowhere.sock", "FAIRWAY_TOKEN": "secret",
			"FAIRWAY_CHECKPOINT_DIR": job + "/checkpoint", "FAIRWAY_NOTICE": "1.5", "FAIRWAY_NODES": "1", "FAIRWAY_GPU_TYPE": "h200",
			"FAIRWAY_GPUS": "2", "FAIRWAY_BATCH_INITIAL": "32", "FAIRWAY_BATCH_MAX": "512", "FAIRWAY_BATCH_LOCAL_MIN": "8",
			"FAIRWAY_BATCH_LOCAL_MAX": "64", "FAIRWAY_ADAPT": "1", "FAIRWAY_REPORT_SECONDS": "30", "FAIRWAY_SHIM": "", "OMP_NUM_THREADS": os.Getenv("OMP_NUM_THREADS"),
		} {
			if got[k] != v {
				t.Errorf("rank %d: %s = %q; want %q", rank, k, got[k], v)
			}
		}
		if dir := strings.TrimSpace(read(t, job, "work", fmt.Sprint(rank, ".dir"))); dir != job+"/work" {
			t.Errorf("rank %d ran in %s", rank, dir)
		}
	}
	if info, err := os.Stat(job + "/checkpoint"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("checkpoint folder: %v %v; want mode 0700", info, err)
	}
}

// bothWays runs a test with control groups, if there are any, and without.
func bothWays(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Parallel()
	for name, group := range map[string]bool{"groups": findCgroups() != nil, "no groups": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.m.update(func() { r.m.group = group })
			f(t, r)
		})
	}
}

func TestNotice(t *testing.T) { bothWays(t, testNotice) }

func testNotice(t *testing.T, r *rig) {
	short := func(a api.Attempt) api.Attempt {
		a.Task.GracePeriod = sched.Duration(300 * time.Millisecond)
		return a
	}
	cases := []struct {
		a    api.Attempt
		want api.Exit
	}{
		{attempt("saves", 1, 0b1, `trap 'exit 75' TERM; echo up; while :; do sleep 0.02; done`), api.Exit{Code: 75, Yielded: true, Noticed: true}},
		{attempt("zero", 1, 0b10, `trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done`), api.Exit{Noticed: true}},
		// A shell that dies of the signal leaves its program, which saves.
		{attempt("wrapped", 1, 0b100, `sh -c "trap 'sleep 0.2; exit 75' TERM; echo up; while :; do sleep 0.02; done"; true`), api.Exit{Code: 75, Yielded: true, Noticed: true}},
		// Nothing listens, and a grandchild has left the session.
		{short(attempt("deaf", 1, 0b1000, `trap '' TERM; setsid sh -c 'trap "" TERM; echo up; while :; do sleep 0.02; done' & while :; do sleep 0.02; done`)),
			api.Exit{Code: 137, Signal: "SIGKILL", Noticed: true, Why: "it did not stop within its notice of 300ms"}},
	}
	var list []api.Attempt
	for _, c := range cases {
		list = append(list, c.a)
	}
	r.orders.set(list...)
	for _, c := range cases {
		r.started(c.a.AttemptID)
		eventually(t, "up", func() bool { return strings.Contains(read(t, r.m.attemptDir(c.a.AttemptID), "rank-0.log"), "up") })
	}
	r.orders.set()
	for _, c := range cases {
		if diff := cmp.Diff(c.want, r.exit(c.a.AttemptID), noTime); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.a.AttemptID, diff)
		}
		if n := alive(t, r.m.jobDir(c.a.Job)+"/"); n != 0 {
			t.Errorf("%s: %d processes are left", c.a.Job, n)
		}
	}
}

// TestProlongedNotice: an attempt that cannot save its work has more time for it.
func TestProlongedNotice(t *testing.T) {
	t.Parallel()
	saves := attempt("saves", 1, 0b1, `trap 'sleep 6; exit 75' TERM; echo up; while :; do sleep 0.02; done`)
	deaf := attempt("deaf", 1, 0b10, `trap '' TERM; echo up; while :; do sleep 0.02; done`)
	var failing atomic.Bool // of the deaf one
	failing.Store(true)
	r := newRig(t, func(c *Config) {
		c.GracePeriod = 4 * time.Second
		c.SaveFails = func(id api.AttemptID) bool { return id == saves.AttemptID || failing.Load() }
	})
	r.orders.set(saves, deaf)
	for _, a := range []api.Attempt{saves, deaf} {
		r.started(a.AttemptID)
		eventually(t, "up", func() bool { return strings.Contains(read(t, r.m.attemptDir(a.AttemptID), "rank-0.log"), "up") })
	}
	ctx, done := context.WithCancel(t.Context())
	var pokes sync.WaitGroup
	defer pokes.Wait()
	defer done()
	pokes.Go(func() { // instead of waiting for the ticker
		for ctx.Err() == nil {
			r.m.poke()
			time.Sleep(20 * time.Millisecond)
		}
	})
	r.orders.set()
	if diff := cmp.Diff(api.Exit{Code: 75, Yielded: true, Noticed: true}, r.exit(saves.AttemptID), noTime); diff != "" {
		t.Errorf("one that saves in the end: -want +got\n%s", diff)
	}
	if n := alive(t, r.m.jobDir(deaf.Job)+"/"); n == 0 {
		t.Error("one that cannot save was killed")
	}
	failing.Store(false)
	if e := r.exit(deaf.AttemptID); e.Signal != "SIGKILL" {
		t.Errorf("one that saves no more ended with %+v; want it killed", e)
	}
}

// TestTurns: an attempt starts when the earlier holder of its GPUs is gone, and
// with it all that it started, not when that was told to go.
func TestTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dir := t.TempDir()
	// Each holds marks while it runs, and takes its time to leave.
	script := func(marks string) string {
		return `cd ` + dir + `; mkdir ` + marks + ` || echo overlap >> bad; trap 'sleep 0.3; rmdir ` + marks + `; exit 75' TERM; echo up; while :; do sleep 0.02; done`
	}
	first := attempt("first", 1, 0b0011, script("gpu job"))
	first.Task.Single = true
	r.orders.set(first)
	r.started(first.AttemptID)
	eventually(t, "up", func() bool { return strings.Contains(read(t, r.m.attemptDir(first.AttemptID), "rank-0.log"), "up") })
	second := attempt("second", 1, 0b0110, script("gpu"))
	second.Task.Single = true
	moved := attempt("first", 2, 0b1000, script("job"))
	r.orders.set(second, moved)
	r.started(second.AttemptID)
	r.started(moved.AttemptID)
	r.exit(first.AttemptID)
	half := attempt("half", 1, 0b0001, "exec sleep 100")
	half.Placement[0].Milli = 500
	other := attempt("other", 1, 0b0001, "exec sleep 100")
	other.Placement[0].Milli = 500
	r.orders.set(second, half, other)
	r.started(half.AttemptID)
	r.started(other.AttemptID)
	if bad := read(t, dir, "bad"); bad != "" {
		t.Errorf("attempts overlapped: %q", bad)
	}
}

func TestWithdrawn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	holds := attempt("holds", 1, 0b1, "exec sleep 100")
	waits := attempt("waits", 1, 0b1, "touch ran")
	r.orders.set(holds, waits)
	r.started(holds.AttemptID)
	r.orders.set(holds)
	want := api.Exit{Noticed: true, Why: "withdrawn before it started"}
	if diff := cmp.Diff(want, r.exit(waits.AttemptID), noTime); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if exists(r.m.attemptDir(waits.AttemptID)) {
		t.Error("it has a folder")
	}
}

// TestShimKilled: a supervisor that is killed takes its ranks along; what those
// started is killed by the daemon; the attempt is lost.
func TestShimKilled(t *testing.T) { bothWays(t, testShimKilled) }

func testShimKilled(t *testing.T, r *rig) {
	a := attempt("lost", 1, 0b11, `setsid sleep 100 & exec sleep 100`)
	r.orders.set(a)
	r.started(a.AttemptID)
	var s shimRecord
	if err := readRecord(filepath.Join(r.m.attemptDir(a.AttemptID), shimFile), &s); err != nil {
		t.Fatal(err)
	}
	if err := proc.Signal(s.PID, s.Start, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want := api.Exit{Lost: true, Why: "the supervisor of the job was killed"}
	if diff := cmp.Diff(want, r.exit(a.AttemptID), noTime); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n := alive(t, r.m.jobDir("lost")+"/"); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	for _, g := range s.Groups {
		if exists(g) {
			t.Errorf("control group %s is left", g)
		}
	}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	runs := attempt("runs", 1, 0b1, `echo begin; while [ ! -e go ]; do sleep 0.02; done; exit 5`)
	ends := attempt("ends", 1, 0b10, `while [ ! -e go ]; do sleep 0.02; done; exit 6`)
	gone := attempt("gone", 1, 0b100, `trap 'exit 75' TERM; echo up; while :; do sleep 0.02; done`)
	r.orders.set(runs, ends, gone)
	for _, a := range []api.Attempt{runs, ends, gone} {
		r.started(a.AttemptID)
	}
	eventually(t, "up", func() bool { return read(t, r.m.attemptDir(gone.AttemptID), "rank-0.log") != "" })
	r.stop()
	r.orders.set(runs, ends) // gone is an orphan for the next daemon
	r.orders.mu.Lock()
	r.orders.started = nil
	r.orders.mu.Unlock()
	release := func(job sched.JobID) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.m.jobDir(job), "work/go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	release("ends") // it ends while there is no daemon
	eventually(t, "end", func() bool { return exists(filepath.Join(r.m.attemptDir(ends.AttemptID), exitFile)) })
	r.reopen()
	r.started(runs.AttemptID)
	if e := r.exit(ends.AttemptID); e.Code != 6 {
		t.Errorf("%s; want code 6", show(e))
	}
	if e := r.exit(gone.AttemptID); !e.Yielded || !e.Noticed {
		t.Errorf("%s; want yielded after notice", show(e))
	}
	release("runs")
	if e := r.exit(runs.AttemptID); e.Code != 5 {
		t.Errorf("%s; want code 5", show(e))
	}
	if log := read(t, r.m.attemptDir(runs.AttemptID), "rank-0.log"); log != "begin\n" {
		t.Errorf("log %q; want one begin", log)
	}
	// What is still ordered although it was acknowledged is told again.
	r.reopen()
	always(t, "the exit is reported once", 50*time.Millisecond, func() bool { return len(r.orders.exitsOf(runs.AttemptID)) == 1 })
	r.m.mu.Lock()
	r.m.runs[runs.AttemptID].toldAt = time.Time{}
	r.m.mu.Unlock()
	r.orders.set(runs)
	eventually(t, "told again", func() bool { return len(r.orders.exitsOf(runs.AttemptID)) == 2 })
}

// TestLateShim: a supervisor that was given up starts nothing.
func TestLateShim(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir string, o *order) error{
		"ended": func(dir string, o *order) error {
			return writeRecord(filepath.Join(dir, exitFile), exitRecord{Exit: api.Exit{AttemptID: o.AttemptID, Lost: true}})
		},
		"another nonce": func(dir string, o *order) error { o.Nonce = "new"; return nil },
		"locked": func(dir string, _ *order) error {
			f, err := takeLock(filepath.Join(dir, lockFile))
			t.Cleanup(func() { f.Close() })
			return err
		},
	} {
		dir := t.TempDir()
		o := order{Attempt: attempt("late", 1, 0b1, "touch ran"), Nonce: "old", Slots: 1, Work: dir, LogLimit: 1000}
		if err := spoil(dir, &o); err != nil {
			t.Fatal(err)
		}
		if err := writeRecord(filepath.Join(dir, attemptFile), o); err != nil {
			t.Fatal(err)
		}
		p, err := os.StartProcess("/proc/self/exe", []string{"x", "shim", dir}, &os.ProcAttr{Env: append(os.Environ(), shimVar+"=old"), Files: []*os.File{nil, nil, os.Stderr}})
		if err != nil {
			t.Fatal(err)
		}
		state, err := p.Wait()
		if err != nil || !state.Success() {
			t.Errorf("%s: %v %v; want success", name, state, err)
		}
		if exists(filepath.Join(dir, "ran")) || exists(filepath.Join(dir, shimFile)) {
			t.Errorf("%s: it ran", name)
		}
	}
}

func TestStrays(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := attempt("stray", 1, 0b1, `exec sleep 100`)
	r.orders.set(a)
	r.started(a.AttemptID)
	r.stop()
	if err := os.RemoveAll(r.m.attemptDir(a.AttemptID)); err != nil {
		t.Fatal(err)
	}
	r.orders.set()
	r.reopen()
	if n := ranksOf(r, "stray"); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if g := findCgroups(); g != nil {
		if left, _ := filepath.Glob(filepath.Join(g.member, "fairway-stray.*")); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	}
}

// TestFolderGone: a job and its supervisor live on when someone removes the logs.
func TestFolderGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := attempt("gone", 1, 0b1, `while [ ! -e go ]; do echo line; sleep 0.1; done; exit 8`)
	r.orders.set(a)
	r.started(a.AttemptID)
	// The supervisor may write between the removal of the last file and of the folder.
	eventually(t, "no folder", func() bool { return os.RemoveAll(r.m.attemptDir(a.AttemptID)) == nil })
	eventually(t, "a new log", func() bool { return strings.Contains(read(t, r.m.attemptDir(a.AttemptID), "rank-0.log"), "line") })
	if err := os.WriteFile(filepath.Join(r.m.jobDir("gone"), "work/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(a.AttemptID); e.Code != 8 {
		t.Errorf("%s; want code 8", show(e))
	}
}

func TestReportRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.orders.refuse = 1
	a := attempt("again", 1, 0b1, `exit 0`)
	r.orders.set(a)
	if e := r.exit(a.AttemptID); !e.OK() {
		t.Errorf("%s; want OK", show(e))
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	r := newRig(t, nil)
	for dir := r.m.cfg.Dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	a := attempt("user", 1, 0b1, `id -u > $FAIRWAY_CHECKPOINT_DIR/id; id -g >> $FAIRWAY_CHECKPOINT_DIR/id; echo $HOME >> $FAIRWAY_CHECKPOINT_DIR/id; cat ../1/attempt.json`)
	a.Owner = api.Owner{Name: "somebody", UID: 54321, GID: 54322}
	r.orders.set(a)
	if e := r.exit(a.AttemptID); e.Code != 1 {
		t.Errorf("%s; want code 1: the records are not the user's to read", show(e))
	}
	job := filepath.Join(r.m.cfg.Dir, "jobs/user")
	if got, want := read(t, job, "checkpoint/id"), "54321\n54322\n"+job+"/work\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	g := findCgroups()
	if g == nil || g.memory == "" {
		t.Skip("no control groups for memory here")
	}
	r := newRig(t, nil)
	a := attempt("fat", 1, 0b1, "")
	a.Task.Command = []string{"tail", "/dev/zero"} // keeps all it reads
	a.Spec.Memory = 64 << 20
	r.orders.set(a)
	e := r.exit(a.AttemptID)
	if e.Signal != "SIGKILL" || !strings.Contains(e.Why, "out of memory") {
		t.Errorf("%s; want killed, out of memory", show(e))
	}
	if len(e.Host) != 1 || e.Host[0].Kind != api.HostOutOfMemory {
		t.Errorf("%s; want what the host saw", show(e))
	}
}

func TestUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := attempt("busy", 1, 0b10, `while :; do :; done`)
	r.orders.set(a)
	var u []*api.GPUUse
	eventually(t, "use of slot 1", func() bool {
		u = r.m.Use()
		return len(u) == 4 && u[1] != nil && u[1].Util > 0.1 && u[1].MemoryUsed > 0 && u[0] != nil && u[0].Util == 0
	})
	if p := u[1].Processes; len(p) != 1 || p[0].Job != "busy" {
		t.Errorf("processes %+v; want one of busy", p)
	}
	if p := r.m.Problem(); p != "" {
		t.Errorf("problem %q", p)
	}
}

func TestOpenTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if _, err := Open(testConfig(r.m.cfg.Dir)); err == nil || !strings.Contains(err.Error(), "locked by another process") {
		t.Errorf("second open: %v; want that it is locked", err)
	}
}

func TestStopAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := attempt("a", 1, 0b1, `trap 'exit 75' TERM; echo up; while :; do sleep 0.02; done`)
	r.orders.set(a)
	r.started(a.AttemptID)
	eventually(t, "up", func() bool { return read(t, r.m.attemptDir(a.AttemptID), "rank-0.log") != "" })
	r.stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.m.StopAll(ctx); err != nil {
		t.Fatal(err)
	}
	if n := alive(t, r.m.cfg.Dir); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	r.reopen() // the next daemon learns of it
	if e := r.exit(a.AttemptID); !e.Yielded || !e.Noticed {
		t.Errorf("%s; want yielded after notice", show(e))
	}
}

// TestTakenBackUnseen: an attempt that was ordered and taken back before the machine
// looked ends once: as one that was asked to leave, although the first report of its end
// fails, and although the machine looks for such attempts again after it.
func TestTakenBackUnseen(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := api.AttemptID{Job: "unseen-1", Number: 3}
	r.orders.mu.Lock()
	r.orders.leaving = append(r.orders.leaving, id)
	r.orders.refuse = 1
	r.orders.mu.Unlock()
	looks := func() int {
		r.orders.mu.Lock()
		defer r.orders.mu.Unlock()
		return r.orders.looks
	}
	got := r.exit(id)
	want := api.Exit{AttemptID: id, At: got.At, Noticed: true, Why: "withdrawn before it started"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exit (-want +got):\n%s", diff)
	}
	before := looks()
	eventually(t, "the machine looks twice more for attempts that were taken back", func() bool { return looks() >= before+2 })
	if exits, refused := r.orders.exitsOf(id), r.orders.refuse; len(exits) != 1 || refused != 0 {
		t.Errorf("exits %v, and %d reports that were not refused; want 1 exit after 1 refusal", exits, refused)
	}
	if r.orders.isStarted(id) {
		t.Error("an attempt that nobody ordered was started")
	}
}
