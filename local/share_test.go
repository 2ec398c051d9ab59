// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// fakeMPS is a program that behaves like nvidia-cuda-mps-control as far as it is
// used: a file stands for the control daemon.
const fakeMPS = `#!/bin/sh
pid="$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
[ -n "$CUDA_VISIBLE_DEVICES" ] && exit 3
if [ "$1" = -d ]; then
	[ -e "$CUDA_MPS_LOG_DIRECTORY" ] || exit 4
	echo started >> "$CUDA_MPS_PIPE_DIRECTORY/history"
	echo 1 > "$pid"
	exit 0
fi
[ -s "$pid" ] || { echo "Cannot find MPS control daemon process"; exit 1; }
read line
case $line in
get_default_active_thread_percentage) echo 100.0;;
quit) rm "$pid"; echo quit >> "$CUDA_MPS_PIPE_DIRECTORY/history";;
*) exit 5;;
esac
`

// wordList keeps what a machine says to its operator.
type wordList struct {
	mu    sync.Mutex
	lines []string
}

func (l *wordList) tell(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
}

func (l *wordList) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(s string) bool { return strings.Contains(s, text) })
}

// mpsRig is a machine with one GPU and a fake MPS, in a folder of a short name.
func mpsRig(t *testing.T, mode string, words *wordList) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "fw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "mps-control")
	writeProgram(t, program, fakeMPS)
	return newRig(t, func(c *Config) {
		c.Dir, c.MPS, c.MPSControl, c.MPSThreads, c.Tell = dir, mode, program, 50, words.tell
		c.MPSCheck, c.SMI = 50*time.Millisecond, "/bin/false"
		c.Node.GPUs, c.Devices = 1, []Device{{Index: 2, UUID: "GPU-x", Type: "h200"}}
	})
}

func seat(job, script string) api.Attempt {
	a := attempt(job, 1, 0b1, script)
	a.Placement[0].Milli = 500
	a.Spec.GPUMemory = 1 << 30
	return a
}

// TestMPS: jobs on shared seats get MPS with their limits, a job that has its GPU
// alone does not; the control daemon outlives a daemon whose jobs use it, is
// adopted, told to quit when nobody needs it, and its death is told.
func TestMPS(t *testing.T) {
	t.Parallel()
	words := &wordList{}
	r := mpsRig(t, MPSOn, words)
	const script = `env | grep '^CUDA' | sort > env; touch up; while [ ! -e go ]; do sleep 0.02; done`
	a, b := seat("a", script), seat("b", script)
	a.Placement[0].Milli = 200 // a guest
	a.Spec.GPUMemory, b.BatchScale, b.Screening = 0, 0.5, true
	r.orders.set(a, b)
	r.started(a.AttemptID)
	r.started(b.AttemptID)
	work := func(job string) string { return filepath.Join(r.m.cfg.Dir, "jobs", job, "work") }
	eventually(t, "both run", func() bool { return exists(work("a")+"/up") && exists(work("b")+"/up") })
	env := read(t, work("b"), "env")
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=2\n", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1191M\n", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("b has\n%s\nwant %q in it", env, want)
		}
	}
	if env := read(t, work("a"), "env"); !strings.Contains(env, "CUDA_MPS_PIPE_DIRECTORY=") || strings.Contains(env, "MEM_LIMIT") || !strings.Contains(env, "THREAD_PERCENTAGE=20\n") {
		t.Errorf("a, a guest of unknown need, has\n%s\nwant MPS with a limit of threads and none of memory", env)
	}
	var pipe string
	r.m.update(func() { pipe = r.m.runs[a.AttemptID].order.MPS.Pipe })
	r.reopen()
	if got := read(t, pipe, "history"); got != "started\n" {
		t.Errorf("control daemon: %q; want one that was started once and goes on", got)
	}
	eventually(t, "the attempts are adopted", func() bool { return len(r.m.mpsUsers()) == 1 })
	os.Remove(filepath.Join(pipe, "nvidia-cuda-mps-control.pid"))
	eventually(t, "its death is told", func() bool { return words.has("MPS died") })
	for _, job := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(work(job), "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.exit(a.AttemptID)
	r.exit(b.AttemptID)
	c := seat("c", `env > env`) // time slices, for a while
	whole := attempt("whole", 1, 0b1, `env > env`)
	r.orders.set(c)
	r.exit(c.AttemptID)
	r.orders.set(whole)
	r.exit(whole.AttemptID)
	for _, job := range []string{"c", "whole"} {
		if env := read(t, work(job), "env"); env == "" || strings.Contains(env, "CUDA_MPS") {
			t.Errorf("%s was given MPS", job)
		}
	}
	forget := func() {
		r.m.mps.mu.Lock()
		defer r.m.mps.mu.Unlock()
		r.m.mps.until = map[string]time.Time{}
	}
	forget()
	d := seat("d", `echo "RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server"; exit 1`)
	r.orders.set(d)
	r.exit(d.AttemptID)
	if !words.has("a job could not use MPS") {
		t.Errorf("told %q; want that a job could not use MPS", words.lines)
	}
	forget()
	r.reopen() // nobody uses it: it is told to quit
	if got := read(t, pipe, "history"); got != "started\nstarted\nquit\n" {
		t.Errorf("control daemon: %q; want started again, and told to quit", got)
	}
}

// TestNoMPS: where MPS cannot be had, sharing works without; only who asked for
// it is told.
func TestNoMPS(t *testing.T) {
	t.Parallel()
	for mode, problem := range map[string]bool{MPSAuto: false, MPSOn: true, MPSOff: false} {
		words := &wordList{}
		r := mpsRig(t, mode, words)
		r.m.mps.program = "/nowhere/mps"
		a := seat("a", `env > env`)
		r.orders.set(a)
		r.exit(a.AttemptID)
		if env := read(t, r.m.cfg.Dir, "jobs/a/work/env"); strings.Contains(env, "CUDA_MPS") {
			t.Errorf("%s: the job was told of MPS", mode)
		}
		if got := strings.Contains(r.m.Problem(), "MPS"); got != problem || words.has("MPS") != problem {
			t.Errorf("%s: problem %q, told %q; want %t", mode, r.m.Problem(), words.lines, problem)
		}
	}
}

// TestTails: an attempt that failed comes with the ends of its logs, the failing
// rank's first, with the right line numbers.
func TestTails(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LogLimit = 300 << 10 })
	a := attempt("bad", 1, 0b111, `[ $RANK = 1 ] || { echo fine; touch fine-$RANK; exec sleep 600; }; until [ -e fine-0 ] && [ -e fine-2 ]; do sleep 0.02; done; seq 20000; echo "ValueError: no" >&2; exit 3`)
	good := attempt("good", 1, 0b1000, `echo fine`)
	r.orders.set(a, good)
	e := r.exit(a.AttemptID)
	if len(e.Tails) != 3 || e.Rank != 1 || e.Tails[0].Name != "rank-1.log" || e.Tails[0].Rank != 1 || e.Tails[1].Rank != 0 || e.Tails[2].Text != "fine\n" {
		t.Fatalf("%s with %d tails; want 3, that of rank 1 first", show(e), len(e.Tails))
	}
	if got := e.Tails[0]; len(got.Text) != diagnose.TailBytes || !strings.HasSuffix(got.Text, "\n20000\nValueError: no\n") {
		t.Errorf("a tail of %d bytes; want %d that end with the error", len(got.Text), diagnose.TailBytes)
	}
	table, err := diagnose.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	f := table.Classify(diagnose.Input{Logs: e.Tails, Exit: &e.Code})
	if f.Evidence == nil || f.Evidence.Line != 20001 || f.Evidence.Rank != 1 {
		t.Errorf("evidence %+v; want line 20001 of rank 1", f.Evidence)
	}
	if e := r.exit(good.AttemptID); len(e.Tails) != 0 {
		t.Errorf("an attempt that ended well has %d tails", len(e.Tails))
	}
}

// TestTailsRotated: the end of a log is read over both of its files.
func TestTailsRotated(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"rank-0.log.1": strings.Repeat("old\n", 30000), "rank-0.log": "new\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := tails(dir, &api.Exit{Code: 1})
	if len(got) != 1 || len(got[0].Text) != diagnose.TailBytes || !strings.HasSuffix(got[0].Text, "old\nold\nnew\n") {
		t.Errorf("%d tails of %d bytes", len(got), len(got[0].Text))
	}
	if got := tails(dir, &api.Exit{Code: 1, Noticed: true}); got != nil {
		t.Errorf("an attempt that was stopped has tails")
	}
}

// TestSharers: two attempts that hold half a slot each run at the same time, a
// third waits.
func TestSharers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	half := func(job string) api.Attempt {
		a := attempt(job, 1, 0b1, `exec sleep 600`)
		a.Placement[0].Milli = sched.WholeGPU / 2
		return a
	}
	a, b, c := half("a"), half("b"), half("c")
	r.orders.set(a, b)
	r.started(a.AttemptID)
	r.started(b.AttemptID)
	r.orders.set(b, c)
	r.started(c.AttemptID) // when a is gone
	if n := ranksOf(r, "a"); n != 0 {
		t.Errorf("c started while a had %d processes", n)
	}
	r.exit(a.AttemptID)
}
