// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// cli runs a command of the program against the daemon, with further variables, and
// returns what it prints.
func (d *daemon) cli(env []string, args ...string) (out string, err error) {
	d.t.Helper()
	path, err := program()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), append([]string{"FAIRWAY_ADDRESS=unix://" + filepath.Join(d.data, "fairway.sock")}, env...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	return said.String(), err
}

// TestShellEnvironment: a job submitted from an activated virtual environment finds the
// modules that are only there, and secrets, also when the daemon was killed in between;
// the values of these are in no file but their own, which goes when the job has ended.
func TestShellEnvironment(t *testing.T) {
	dir := t.TempDir()
	venv := filepath.Join(dir, "venv")
	if out, err := exec.Command("python3", "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: python3 -m venv: %v\n%s", err, out)
	}
	site, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages"))
	if err != nil || len(site) != 1 {
		t.Fatalf("site-packages: %v, %v", site, err)
	}
	write(t, filepath.Join(site[0], "only_here.py"), "ok = True\n")
	const value = "xyzzy-plugh-42"
	shell := []string{"VIRTUAL_ENV=" + venv, "PATH=" + venv + "/bin:" + os.Getenv("PATH"), "LAB_TOKEN=" + value, "COLOUR=blue"}
	d := startDaemon(t, shortDir(t), "--slots", "1")
	holder := d.run(api.Submission{Task: api.Task{Name: "holder"}}, "sleep", "1000")
	d.until(holder, api.Running)
	script := "import only_here, os; assert os.environ['LAB_TOKEN'] == '" + value[:5] + "' + '" + value[5:] + "' and 'COLOUR' not in os.environ"
	out, err := d.cli(shell, "submit", "--name", "train", "-e", "LAB_TOKEN", "--", "python3", "-c", script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	id := sched.JobID(strings.TrimSpace(out))
	if out, err := d.cli(nil, "explain", string(id)); err != nil || !strings.Contains(out, "virtual environment "+venv) || !strings.Contains(out, "secrets: LAB_TOKEN") {
		t.Errorf("%v\n%s", err, out)
	}
	d.kill()
	d.start()
	if _, err := d.Command(context.Background(), holder, api.Cancel); err != nil {
		t.Fatal(err)
	}
	d.until(id, api.Finished)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	secrets := filepath.Join(d.data, "machine", "secrets")
	err = filepath.WalkDir(d.data, func(path string, f fs.DirEntry, err error) error {
		if err != nil || !f.Type().IsRegular() || filepath.Dir(path) == secrets {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(value)) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	d.start()
	waitFor(t, patience, func() bool { left, err := os.ReadDir(secrets); return err == nil && len(left) == 0 })
}

// TestRun: run prints what the job prints and ends with its exit code, and a signal
// cancels the job.
func TestRun(t *testing.T) {
	d := startDaemon(t, shortDir(t), "--slots", "1")
	out, err := d.cli(nil, "run", "--name", "three", "printf 'one\\ntwo\\n'; cd /nowhere-at-all || exit 3")
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 3 || !strings.Contains(out, "one\ntwo\n") {
		t.Errorf("%v; want exit code 3 and two lines\n%s", err, out)
	}
	out, err = d.cli(nil, "run", "no-such-program", "-x")
	if !errors.As(err, &ended) || ended.ExitCode() != 127 || !strings.Contains(out, "the program no-such-program is not in") {
		t.Errorf("%v; want exit code 127 and what is missing\n%s", err, out)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "run", "--address", "unix://"+filepath.Join(d.data, "fairway.sock"), "--name", "long", "sleep", "1000")
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.until("long-3", api.Running)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 130 {
		t.Errorf("%v; want exit code 130", err)
	}
	d.until("long-3", api.Cancelled)
}
