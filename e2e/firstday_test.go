// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	release "github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/sched"
)

// firstDay is a user who has nothing but the wheel: a home without any setting, an
// environment of two variables, and the commands that pip installed.
type firstDay struct {
	*daemon
	venv, home string
	env        []string
	began      time.Time
	steps      strings.Builder
}

// TestFirstDay does what a new user does on the first day, with the commands of the
// documents, and prints how long each step took (-v).
func TestFirstDay(t *testing.T) {
	if err := exec.Command("python3", "-c", "import pip, venv").Run(); err != nil {
		t.Skip("NOT TESTED: python3 has no pip (Debian: python3-pip)")
	}
	d := &firstDay{home: t.TempDir(), venv: filepath.Join(t.TempDir(), "venv"), began: time.Now()}
	step := func(name string, do func(t *testing.T)) {
		before := time.Now()
		if !t.Run(name, func(t *testing.T) {
			if d.daemon != nil {
				outer := d.daemon.t
				d.daemon.t = t
				defer func() { d.daemon.t = outer }()
			}
			do(t)
		}) {
			t.FailNow() // the day goes no further
		}
		fmt.Fprintf(&d.steps, "%6.1f s  %s\n", time.Since(before).Seconds(), name)
	}
	var wheel string
	step("make wheel", func(t *testing.T) { wheel = d.makeWheel(t) })
	step("pip install", func(t *testing.T) { d.install(t, wheel) })
	step("fairway version", d.version)
	// Not in a step: the daemon lives as long as the test.
	told := d.hook(t)
	d.daemon = (&daemon{wrap: append([]string{"env", "-i"}, d.env...), path: filepath.Join(d.venv, "bin", "fairway")}).on(t, shortDir(t), "--slots", "2", "--config", filepath.Join(d.home, "fairway.yaml"))
	d.env = append(d.env, "FAIRWAY_ADDRESS=unix://"+filepath.Join(d.daemon.data, "fairway.sock"))
	step("fairway status", d.status)
	step("run a script of a virtual environment", d.virtual)
	step("a script with the agent", d.agent)
	step("an array, and a job after it", d.array)
	step("a search", d.search)
	step("a shell", d.shell)
	step("a time limit, told to a webhook", func(t *testing.T) { d.timeLimit(t, told) })
	step("usage", d.usage)
	step("report of the week", d.report)
	t.Logf("the first day:\n%s%6.1f s  in all", d.steps.String(), time.Since(d.began).Seconds())
}

// makeWheel builds the wheel as a release does.
func (d *firstDay) makeWheel(t *testing.T) string {
	out := t.TempDir()
	run := exec.Command("make", "-C", "..", "wheel", "OUT="+out, "STATIC="+filepath.Join(out, "programs"))
	for _, kv := range os.Environ() { // another make may be above
		if name, _, _ := strings.Cut(kv, "="); name != "MAKEFLAGS" && name != "MFLAGS" && name != "MAKELEVEL" {
			run.Env = append(run.Env, kv)
		}
	}
	if text, err := run.CombinedOutput(); err != nil {
		t.Fatalf("make wheel: %v\n%s", err, text)
	}
	found, _ := filepath.Glob(filepath.Join(out, "*.whl"))
	if len(found) != 1 {
		t.Fatalf("%d wheels in %s; want one", len(found), out)
	}
	// The folder of a step goes with the step.
	kept := filepath.Join(d.home, filepath.Base(found[0]))
	if err := os.Rename(found[0], kept); err != nil {
		t.Fatal(err)
	}
	return kept
}

// install makes an environment of Python with the wheel in it, without a network.
func (d *firstDay) install(t *testing.T, wheel string) {
	d.env = []string{"HOME=" + d.home, "PATH=" + filepath.Join(d.venv, "bin") + ":" + os.Getenv("PATH")}
	d.sh(t, "python3", "-m", "venv", "--without-pip", d.venv) // with pip it takes ten times as long
	d.sh(t, "/usr/bin/env", "PATH="+os.Getenv("PATH"), "python3", "-m", "pip", "--python", filepath.Join(d.venv, "bin", "python"),
		"install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
	if out := d.sh(t, "python", "-c", "import fairway; print(fairway.__version__, fairway.__file__)"); !strings.HasPrefix(out, release.Release+" "+d.venv) {
		t.Errorf("the agent is %q; want %s in %s", out, release.Release, d.venv)
	}
}

// sh runs a command as the user does, and returns what it prints to standard output.
func (d *firstDay) sh(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := d.try(t, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}

// try is sh for a command that may fail.
func (d *firstDay) try(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	path := filepath.Join(d.venv, "bin", name)
	if _, err := os.Stat(path); err == nil {
		name = path
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, name, args...)
	run.Dir, run.Env = d.home, d.env
	var out, complaints bytes.Buffer
	run.Stdout, run.Stderr = &out, &complaints
	if err := run.Run(); err != nil {
		return out.String(), fmt.Errorf("%w\n%s%s", err, out.String(), complaints.String())
	}
	return out.String(), nil
}

// answer decodes what a command prints with --json.
func answer[T any](t *testing.T, d *firstDay, args ...string) T {
	t.Helper()
	var v T
	if out := d.sh(t, "fairway", append(args, "--json")...); json.Unmarshal([]byte(out), &v) != nil {
		t.Fatalf("fairway %s prints %q; want JSON of %T", strings.Join(args, " "), out, v)
	}
	return v
}

// write puts a file into the user's home.
func (d *firstDay) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.home, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d *firstDay) version(t *testing.T) {
	if b := answer[api.Build](t, d, "version"); b.Version != release.Release {
		t.Errorf("version %+v; want %s", b, release.Release)
	}
}

func (d *firstDay) status(t *testing.T) {
	if o := answer[api.Overview](t, d, "status"); o.Version != release.Release || o.GPUs != 2 {
		t.Errorf("the daemon of version %q offers %d slots; want %s and 2", o.Version, o.GPUs, release.Release)
	}
}

// virtual runs a script in the environment that is activated where it is submitted, and
// which the daemon knows nothing of.
func (d *firstDay) virtual(t *testing.T) {
	project := filepath.Join(d.home, "project")
	d.sh(t, "python3", "-m", "venv", "--without-pip", project)
	modules := strings.TrimSpace(d.sh(t, filepath.Join(project, "bin", "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
	if err := os.WriteFile(filepath.Join(modules, "lab_tools.py"), []byte("answer = 42\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.write(t, "probe.py", "import sys, lab_tools\nprint(sys.prefix, lab_tools.answer)\n")
	outside := d.env
	defer func() { d.env = outside }()
	d.env = append(slices.Clone(d.env), "VIRTUAL_ENV="+project, "PATH="+filepath.Join(project, "bin")+":"+os.Getenv("PATH"))
	if out := d.sh(t, "fairway", "run", "python", "probe.py"); strings.TrimSpace(out) != project+" 42" {
		t.Errorf("the script printed %q; want %q", out, project+" 42")
	}
}

// agent runs a script that reports with the agent of the wheel.
func (d *firstDay) agent(t *testing.T) {
	d.write(t, "train.py", `
import fairway
fairway.init()
for step in range(50):
    fairway.progress(step + 1, 50)
    fairway.report(loss=1 / (step + 1))
fairway.complete()
`)
	id := strings.TrimSpace(d.sh(t, "fairway", "submit", "--wait", "--name", "train", "--", "python", "train.py"))
	j, err := d.Job(context.Background(), sched.JobID(id))
	if err != nil || j.State != api.Finished || j.Status.Done != 50 {
		t.Errorf("%s is %s with %g of 50 steps reported (%v); want it finished, all reported", id, j.State, j.Status.Done, err)
	}
}

// array runs four jobs, two at once, and one that needs what they wrote.
func (d *firstDay) array(t *testing.T) {
	d.sh(t, "fairway", "submit", "--name", "part", "--array", "0-3%2", "--", "sh", "-c", "echo $FAIRWAY_ARRAY_INDEX > part-$FAIRWAY_ARRAY_INDEX")
	d.sh(t, "fairway", "submit", "--wait", "--name", "sum", "--after", "part", "--", "sh", "-c", "cat part-* > sum")
	if sum, err := os.ReadFile(filepath.Join(d.home, "sum")); err != nil || string(sum) != "0\n1\n2\n3\n" {
		t.Errorf("the job after the array read %q (%v); want what all four wrote", sum, err)
	}
}

// search finds the best of three values.
func (d *firstDay) search(t *testing.T) {
	d.write(t, "trial.py", `
import fairway, sys
fairway.init()
x = float(sys.argv[1])
for step in range(5):
    fairway.report(loss=(x - 2) ** 2 + 1 / (step + 1))
    fairway.progress(step + 1, 5)
fairway.complete()
`)
	d.write(t, "search.yaml", `
id: first-search
search:
  parameters: {x: [1, 2, 4]}
  method: grid
  metric: {name: loss, goal: minimise}
  at_once: 2
command: [python, trial.py, "{x}"]
gpus: 1
work: 5
`)
	d.sh(t, "fairway", "app", "submit", "search.yaml", "--wait")
	s := answer[api.Search](t, d, "app", "show", "first-search")
	if s.State != api.Finished || s.Best == nil || s.Trials[*s.Best].Params["x"] != "2" {
		t.Errorf("the search is %s with %+v; want x = 2 as the best of three", s.State, s.Trials)
	}
}

// shell works on a terminal of a job.
func (d *firstDay) shell(t *testing.T) {
	if out := d.sh(t, "fairway", "shell", "--", "sh", "-c", "echo $((40 + 2)) in $FAIRWAY_JOB; tty"); !strings.Contains(out, "42 in shell-") || !strings.Contains(out, "/dev/pts/") {
		t.Errorf("the shell printed %q; want 42, its job and its terminal", out)
	}
}

const hookSecret = "a secret of the first day"

// hook configures a webhook of the daemon, and returns what it is told.
func (d *firstDay) hook(t *testing.T) <-chan string {
	told := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sum := hmac.New(sha256.New, []byte(hookSecret))
		fmt.Fprintf(sum, "%s.%s", r.Header.Get("Fairway-Timestamp"), body)
		if got, want := r.Header.Get("Fairway-Signature"), fmt.Sprintf("sha256=%x", sum.Sum(nil)); got != want {
			told <- "signed " + got + "; want " + want
			return
		}
		told <- string(body)
	}))
	t.Cleanup(server.Close)
	d.write(t, "hook.secret", hookSecret)
	d.write(t, "fairway.yaml", fmt.Sprintf("notify:\n  targets:\n  - {name: ops, kind: webhook, url: %q, secret_file: %s}\n", server.URL, filepath.Join(d.home, "hook.secret")))
	return told
}

// report writes the page that an admin sends round.
func (d *firstDay) report(t *testing.T) {
	page := filepath.Join(d.home, "week.html")
	d.sh(t, "fairway", "report", "week", "--journal", d.daemon.data, "--html", page)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "1 of them failed") || !strings.Contains(string(text), "it ran for its time limit") {
		t.Errorf("the page (%v, %d bytes) does not name the job that failed", err, len(text))
	}
}

// timeLimit ends a job that would run for ever, and tells the webhook.
func (d *firstDay) timeLimit(t *testing.T, told <-chan string) {
	out, err := d.try(t, "fairway", "submit", "--wait", "--notify", "ops", "--name", "endless", "--time-limit", "1s", "--", "sleep", "100000")
	if err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Fatalf("a job beyond its limit: %v; want exit code 4", err)
	}
	if text := d.sh(t, "fairway", "explain", strings.TrimSpace(out)); !strings.Contains(text, "time limit") {
		t.Errorf("explain does not name the time limit:\n%s", text)
	}
	select {
	case notice := <-told:
		if !strings.Contains(notice, `"event":"failed"`) || !strings.Contains(notice, strings.TrimSpace(out)) {
			t.Errorf("the webhook was told %s; want that %s failed", notice, out)
		}
	case <-time.After(patience):
		t.Error("the webhook was told nothing")
	}
}

// usage sums up the day.
func (d *firstDay) usage(t *testing.T) {
	u := answer[api.Usage](t, d, "usage")
	if len(u.Rows) != 1 || u.Total.GPUs <= 0 || u.Total.Failed != 1 || u.Total.Ended < 10 {
		t.Errorf("usage %+v; want one user with ten jobs, of which one failed", u)
	}
}
