// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
)

// warmRig is a machine with warm starts, and a folder with scripts and a package torch
// that is imported at once.
type warmRig struct {
	*rig
	dir, python string
	next        map[string]int
}

func newWarmRig(t *testing.T) *warmRig {
	t.Helper()
	// The one that PATH finds may be a script.
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip(err)
	}
	w := &warmRig{python: strings.TrimSpace(string(python)), rig: newRig(t, func(c *Config) { c.Warm = 2 }), dir: t.TempDir(), next: map[string]int{}}
	w.m.warm.mu.Lock()
	w.m.warm.refill = 0
	w.m.warm.mu.Unlock()
	w.write("lib/torch.py", "import random")
	return w
}

func (w *warmRig) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// order makes the next attempt of a job that runs Python.
func (w *warmRig) order(job string, gpus int, args ...string) api.Attempt {
	w.next[job]++
	a := attempt(job, w.next[job], 1<<gpus-1, "")
	a.Task.Command = append([]string{w.python}, args...)
	a.Task.Dir = w.dir
	a.Task.Env = map[string]string{"PYTHONPATH": w.dir + "/lib", "PYTHONDONTWRITEBYTECODE": "1", "GREETING": "hello"}
	return a
}

// run runs an attempt to its end; warm says how it is to start.
func (w *warmRig) run(a api.Attempt, warm bool) (api.Exit, string) {
	w.t.Helper()
	if warm {
		w.ready()
	}
	w.orders.set(a)
	e := w.exit(a.AttemptID)
	dir := w.m.attemptDir(a.AttemptID)
	if got := w.isWarm(a.AttemptID); got != warm {
		w.t.Errorf("%s: warm is %v; want %v\n%s", a.AttemptID, got, warm, read(w.t, dir, shimLog))
	}
	return e, read(w.t, dir, "rank-0.log")
}

func (w *warmRig) isWarm(id api.AttemptID) bool {
	var s shimRecord
	if err := readRecord(filepath.Join(w.m.attemptDir(id), shimFile), &s); err != nil {
		w.t.Error(err)
	}
	return s.Warm
}

func (w *warmRig) ready() {
	w.t.Helper()
	eventually(w.t, "a standby", func() bool { return w.m.Warm().Ready > 0 })
}

// helper returns the interpreter that waits.
func (w *warmRig) helper() int {
	w.ready()
	w.m.warm.mu.Lock()
	defer w.m.warm.mu.Unlock()
	for _, s := range w.m.warm.standbys {
		return s.helper
	}
	return 0
}

var volatile = regexp.MustCompile(`\d+-\d\d-\d\dT\S+ |("(MASTER_PORT|FAIRWAY_NONCE|FAIRWAY_GANG|FAIRWAY_ATTEMPT|FAIRWAY_CHECKPOINT_DIR|pid)"?(: |=))("[^"]*"|[^"]*"|\d+)`)

// TestWarmIsLikeCold: a program cannot tell how it was started, and neither can who
// waits for its end.
func TestWarmIsLikeCold(t *testing.T) {
	t.Parallel()
	w := newWarmRig(t)
	w.write("tell.py", `
import json, os, resource, signal, sys
def look():
    return {
        "argv": sys.argv, "orig": getattr(sys, "orig_argv", None), "path": sys.path[:2], "name": __name__, "file": __file__,
        "package": __package__, "main": sys.modules["__main__"].look is look, "cwd": os.getcwd(), "env": dict(os.environ),
        "ppid is supervisor": "shim" in open("/proc/%d/cmdline" % os.getppid()).read(), "leads": os.getpgid(0) == os.getpid(),
        "session": os.getsid(0) == os.getppid(), "cmdline": open("/proc/self/cmdline").read().rstrip("\0"),
        "environ": sorted(open("/proc/self/environ").read().strip("\0").split("\0")), "umask": os.umask(0o22),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0], "privs": [l for l in open("/proc/self/status") if l.startswith(("NoNew", "SigIgn", "SigBlk"))],
        "fds": [os.readlink("/proc/self/fd/%d" % i)[:5] for i in (0, 1, 2)], "open": os.path.exists("/proc/self/fd/3"),
        "groups": open("/proc/self/cgroup").read().count("fairway-") > 0, "unbuffered": sys.stdout.write_through, "pid": os.getpid(),
    }
print(json.dumps(look(), sort_keys=True, indent=1))
`)
	w.write("fail.py", "def f():\n    raise ValueError('no')\nf()\n")
	w.write("syntax.py", "x = = 1\n")
	w.write("end.py", "import atexit, sys\natexit.register(print, 'bye')\nprint('no newline', end='')\nsys.exit('sorry')\n")
	w.write("killed.py", "import os\nos.kill(os.getpid(), 9)\n")
	w.write("code.py", "import os\nos._exit(7)\n")
	for _, args := range [][]string{
		{"tell.py", "--lr", "0.1", "é"}, {"-u", "tell.py"}, {"-m", "tell", "x"}, {"fail.py"}, {"-m", "fail"}, {"syntax.py"},
		{"end.py"}, {"killed.py"}, {"code.py"},
	} {
		job := strings.Trim(strings.Join(args[:min(2, len(args))], ""), "-")
		cold := w.order(job, 1, args...)
		w.m.warm.mu.Lock()
		for key := range w.m.warm.standbys {
			w.m.warm.drop(key)
		}
		w.m.warm.mu.Unlock()
		e, said := w.run(cold, false) // has a standby made
		_, key, ok := w.m.standbyFor(&order{Attempt: cold, Work: w.dir, CPU: true})
		if !ok {
			t.Fatalf("%q cannot start warm", args)
		}
		eventually(t, "a standby for it", func() bool {
			w.m.warm.mu.Lock()
			defer w.m.warm.mu.Unlock()
			s := w.m.warm.standbys[key]
			return s != nil && s.helper > 0
		})
		ew, saidWarm := w.run(w.order(job, 1, args...), true)
		ew.Number = e.Number
		if diff := cmp.Diff(e, ew, noTime); diff != "" {
			t.Errorf("%q ends another way: -cold +warm\n%s", args, diff)
		}
		if diff := cmp.Diff(volatile.ReplaceAllString(said, "$1"), volatile.ReplaceAllString(saidWarm, "$1")); diff != "" {
			t.Errorf("%q says something else: -cold +warm\n%s", args, diff)
		}
	}
}

// TestWarmFallsBack: what cannot start warm starts the ordinary way, once.
func TestWarmFallsBack(t *testing.T) {
	t.Parallel()
	w := newWarmRig(t)
	w.write("up.py", "print('ran', flush=True)")
	w.run(w.order("first", 1, "up.py"), false)
	once := func(what string, a api.Attempt, warm bool) {
		t.Helper()
		if e, said := w.run(a, warm); e.Code != 0 || strings.Count(said, "ran") != 1 {
			t.Errorf("%s: %+v, says %q; want it to run once", what, e, said)
		}
	}
	once("warm", w.order("warm", 1, "up.py"), true)

	if err := unix.Kill(w.helper(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	once("its interpreter was killed", w.order("killed", 1, "up.py"), false)

	w.ready()
	w.write("lib/new_package.py", "")
	once("a package was added", w.order("changed", 1, "up.py"), false)
	once("warm again", w.order("again", 1, "up.py"), true)

	if e, _ := w.run(w.order("missing", 1, "missing.py"), false); e.Code != 2 {
		t.Errorf("a missing script ends with %+v; want code 2, as Python does", e)
	}
	for _, args := range [][]string{{"-c", "print('ran')"}, {"-X", "dev", "up.py"}} {
		once(args[0], w.order("other", 1, args...), false)
	}
}

// TestWarmGang: all ranks of a gang are forks, stop together, and nothing is left of
// them, also when the supervisor is killed.
func TestWarmGang(t *testing.T) { bothWays(t, testWarmGang) }

func testWarmGang(t *testing.T, r *rig) {
	w := newWarmRig(t)
	w.m.update(func() { w.m.group = r.m.group })
	w.write("wait.py", `
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
if os.fork() == 0:
    os.setsid()
    time.sleep(100)
print("up", os.environ["RANK"], flush=True)
while True:
    time.sleep(0.01)
`)
	up := func(a api.Attempt) {
		w.orders.set(a)
		w.started(a.AttemptID)
		for n := range 3 {
			eventually(t, "up", func() bool {
				return strings.Contains(read(t, w.m.attemptDir(a.AttemptID), rankLog(n)), "up "+string(rune('0'+n)))
			})
		}
	}
	first := w.order("first", 1, "wait.py")
	w.orders.set(first)
	w.started(first.AttemptID)
	w.orders.set()
	w.exit(first.AttemptID)

	gang := w.order("gang", 3, "wait.py")
	w.ready()
	up(gang)
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for pid := range all {
		if variable(environ(pid), nonceVar) != "" && variable(environ(pid), "FAIRWAY_JOB") == "gang" && strings.HasPrefix(variable(environ(pid), keepDirVar), w.m.jobDir("gang")) {
			ours++
			if job, err := w.m.JobOf(pid); job != "gang" || err != nil {
				t.Errorf("process %d belongs to %q, %v; want gang", pid, job, err)
			}
		}
	}
	if ours != 6 {
		t.Errorf("%d processes show the variables of their rank; want 6", ours)
	}
	w.orders.set()
	if e := w.exit(gang.AttemptID); !e.Yielded || !w.isWarm(gang.AttemptID) {
		t.Errorf("exit %+v, warm %v; want a warm gang that yielded", e, w.isWarm(gang.AttemptID))
	}

	w.ready()
	again := w.order("gang", 3, "wait.py")
	up(again)
	var s shimRecord
	if err := readRecord(filepath.Join(w.m.attemptDir(again.AttemptID), shimFile), &s); err != nil || !s.Warm {
		t.Fatalf("record %+v, %v; want a warm start", s, err)
	}
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := w.exit(again.AttemptID); !e.Lost {
		t.Errorf("exit %+v; want it lost", e)
	}
	if n := alive(t, w.m.jobDir("gang")+"/"); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// TestWarmOtherUser: a job of another user starts from an interpreter of that user, and
// never from one of somebody else.
func TestWarmOtherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may run jobs as others")
	}
	w := newWarmRig(t)
	w.python = "/usr/bin/python3" // which others may run
	if _, err := os.Stat(w.python); err != nil {
		t.Skip(err)
	}
	w.write("who.py", "import os\nprint(os.getresuid(), os.getresgid(), os.getgroups(), os.environ['HOME'])")
	for _, dir := range []string{w.dir, filepath.Dir(w.dir)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	as := func(uid int) api.Attempt {
		a := w.order(fmt.Sprint("user-", uid), 1, "who.py")
		a.Owner.UID, a.Owner.GID = uid, uid
		return a
	}
	_, cold := w.run(as(65534), false)
	w.ready()
	if _, said := w.run(as(1234), false); !strings.Contains(said, "(1234, 1234, 1234)") {
		t.Errorf("says %q; want user 1234", said)
	}
	if _, warm := w.run(as(65534), true); warm != cold || !strings.Contains(warm, "(65534, 65534, 65534)") {
		t.Errorf("says %q; want %q", warm, cold)
	}
}

// TestWarmBounds: no more interpreters wait than allowed, and none once nobody needs it.
func TestWarmBounds(t *testing.T) {
	t.Parallel()
	w := newWarmRig(t)
	w.write("up.py", "")
	for _, omp := range []string{"1", "2", "3"} {
		a := w.order("omp"+omp, 1, "up.py")
		a.Task.Env["OMP_NUM_THREADS"] = omp
		w.orders.set(a)
		w.exit(a.AttemptID)
	}
	eventually(t, "two standbys", func() bool { return w.m.Warm().Ready == 2 })
	w.m.warm.mu.Lock()
	w.m.warm.idle = 0
	var helpers []int
	for _, s := range w.m.warm.standbys {
		helpers = append(helpers, s.helper)
	}
	w.m.warm.mu.Unlock()
	if got := w.m.Warm(); got.Memory < 1<<20 {
		t.Errorf("the standbys use %d bytes; want what /proc says", got.Memory)
	}
	w.m.closeWarm()
	for _, pid := range helpers {
		eventually(t, "the interpreter's end", func() bool { p, err := proc.Read(pid); return err != nil || p.State == 'Z' })
	}
}

func TestPythonCommand(t *testing.T) {
	for text, want := range map[string]string{
		"python train.py":                  "train.py",
		"/v/bin/python3.11 -u -O train.py": "train.py",
		"python3 -m pkg.train --lr 1":      "pkg.train --lr 1",
		"python3":                          "",
		"python3 -m":                       "",
		"python3 -c pass":                  "",
		"python3 -X dev train.py":          "",
		"python3 -":                        "",
		"python3-config x.py":              "",
		"bash train.sh":                    "",
		"torchrun train.py":                "",
	} {
		p, ok := pythonCommand(strings.Fields(text))
		if got := strings.Join(p.args, " "); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, ok, want)
		}
	}
}
