// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
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

// TestShell: a shell of a job has a terminal, its end is that of the command, and a job
// whose user has gone, or is idle, ends.
func TestShell(t *testing.T) {
	d := startDaemon(t, shortDir(t), "--slots", "2")
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	start := func(said *lockedBuffer, args ...string) (*exec.Cmd, io.WriteCloser) {
		t.Helper()
		cmd := exec.Command(path, append([]string{"shell", "--address", "unix://" + filepath.Join(d.data, "fairway.sock")}, args...)...)
		cmd.Stdout, cmd.Stderr = said, said
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, in
	}
	var said lockedBuffer
	cmd, in := start(&said, "--gpus", "2", "--", "sh")
	if _, err := io.WriteString(in, "echo $((40 + 2)) gpus=$FAIRWAY_GPUS; tty; exit 5\n"); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 5 {
		t.Errorf("%v; want exit code 5", err)
	}
	if out := said.tail(4000); !strings.Contains(out, "42 gpus=2") || !strings.Contains(out, "/dev/pts/") {
		t.Errorf("want 42, 2 GPUs and a terminal:\n%s", out)
	}
	d.until("shell-1", api.Finished)

	said = lockedBuffer{}
	cmd, _ = start(&said, "--idle", "1s", "--", "sleep", "1000")
	_ = cmd.Wait() // how a shell ends that is hung up does not matter
	if out := said.tail(4000); !strings.Contains(out, "nothing was typed or printed for 1s") {
		t.Errorf("want that it was idle:\n%s", out)
	}
	d.until("shell-2", api.Finished)

	cmd, _ = start(&said, "--", "sh", "-c", "echo here-i-am; exec sleep 1000")
	waitFor(t, patience, func() bool { return strings.Contains(said.tail(4000), "here-i-am") })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	d.until("shell-3", api.Finished)
}

// jupyter answers as Jupyter does, as far as "fairway notebook" looks.
const jupyter = `#!/usr/bin/env python3
import http.server, os, sys
port = int([a for a in sys.argv if a.startswith("--port=")][0][7:])
assert "--ServerApp.shutdown_no_activity_timeout=1800" in sys.argv
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ok = self.path == "/api" or self.path.endswith("token=" + os.environ["JUPYTER_TOKEN"])
        self.send_response(200 if ok else 403)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
`

// TestNotebook: notebook prints an address at which the server lets its user in, and the
// token is in no log.
func TestNotebook(t *testing.T) {
	d := startDaemon(t, shortDir(t), "--slots", "1")
	bin := t.TempDir()
	out, err := d.cli([]string{"PATH=" + bin, "VIRTUAL_ENV=/venvs/x"}, "notebook")
	if err == nil || !strings.Contains(out, "Jupyter is not in /venvs/x: install it there") {
		t.Errorf("%v; want that Jupyter is missing\n%s", err, out)
	}
	write(t, filepath.Join(bin, "jupyter-lab"), jupyter)
	if err := os.Chmod(filepath.Join(bin, "jupyter-lab"), 0o700); err != nil {
		t.Fatal(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "notebook", "--address", "unix://"+filepath.Join(d.data, "fairway.sock"))
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	var said, address lockedBuffer
	cmd.Stdout, cmd.Stderr = &address, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitFor(t, patience, func() bool { return strings.HasSuffix(address.tail(400), "\n") })
	link := strings.TrimSpace(address.tail(400))
	answer, err := http.Get(link)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %v, %v; want an answer", link, answer, err)
	}
	j := d.until("notebook-1", api.Running)
	_, token, _ := strings.Cut(link, "token=")
	if log := d.logOf(j); token == "" || strings.Contains(log+strings.Join(j.Command, " "), token) {
		t.Errorf("the token %q is in the command or the log:\n%s", token, log)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	d.until("notebook-1", api.Cancelled)
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
