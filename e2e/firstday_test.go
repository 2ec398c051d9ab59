// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	if err := exec.Command("python3", "-c", "import ensurepip, venv").Run(); err != nil {
		t.Skip("NOT TESTED: python3 has no ensurepip, so it cannot make an environment (Debian: python3-venv)")
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
	d.daemon = (&daemon{wrap: append([]string{"env", "-i"}, d.env...), path: filepath.Join(d.venv, "bin", "fairway")}).on(t, shortDir(t), "--slots", "2")
	d.env = append(d.env, "FAIRWAY_ADDRESS=unix://"+filepath.Join(d.daemon.data, "fairway.sock"))
	step("fairway status", d.status)
	step("a script with the agent", d.agent)
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
	d.sh(t, "python3", "-m", "venv", d.venv)
	d.sh(t, "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
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
